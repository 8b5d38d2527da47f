"""The built-in folds of windowed aggregations: operators know them and then call no function per record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.batch.batch import Batch, Commits, OnBatch, present
from penstock.state.fold import Fold
from penstock.state.rows import RowStore


def zero() -> int:
    """Start a count.

    >>> zero()
    0
    """
    return 0


def none_init() -> None:
    """Start a reduction: there is no value before the first record."""
    return


def count_one(key: Any, value: Any, aggregate: int) -> int:
    """Count one more record.

    >>> count_one("a", "anything", 2)
    3
    """
    return aggregate + 1


def add_counts(key: Any, one: int, other: int) -> int:
    """Merge the counts of two sessions.

    >>> add_counts("a", 2, 3)
    5
    """
    return one + other


def fold_values(aggregator: Callable[[Any, Any, Any], Any]) -> Fold:
    """Return the fold of many values of one key by an aggregator.

    >>> fold_values(lambda key, value, total: total + value).many("a", [1, 2, 3], 10, frozenset({int}), lambda value: value)
    16
    """

    def fold(key: Any, values: list[Any], old: Any, kept: frozenset[type], settle: Callable[[Any], Any]) -> Any:
        old = aggregator(key, values[0], old)
        for value in values[1:]:
            if old.__class__ not in kept:
                old = settle(old)
            old = aggregator(key, value, old)
        return old

    return Fold(aggregator, fold)


def open_column_fold(on_batch: OnBatch | None, store: Any, forward: OnBatch | None, send_old: bool) -> OnBatch | None:
    """Return a fold by column; its updates leave by column, too, where what comes behind takes them so.

    Only a store of plain rows tells old values by column.
    """
    if on_batch is not None and forward is not None and (not send_old or isinstance(store, RowStore)):
        store.on_flush_batch(forward)
    return on_batch


def with_keys(on_batch: OnBatch, drop: Callable[[str], None]) -> OnBatch:
    """Return what takes the records that have a key, and drops the others."""

    def take(batch: Batch, commits: Commits) -> None:
        at = present(commits, drop, null_key=batch.keys)
        if at is not None:
            batch = batch.pick(at)
        if len(batch):
            on_batch(batch, commits)

    return take


@dataclass(frozen=True, slots=True)
class Reduce:
    """An aggregator from a user's ``reducer(aggregate, value)``: the first value is the aggregate.

    >>> sum_up = Reduce(lambda aggregate, value: aggregate + value)
    >>> sum_up("a", 3, sum_up("a", 2, None))
    5
    """

    reducer: Callable[[Any, Any], Any]

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:
        """Fold a value in."""
        return value if aggregate is None else self.reducer(aggregate, value)


@dataclass(frozen=True, slots=True)
class MergeReduced:
    """A session merger from a user's ``reducer``; a session without a value yet gives way to the other.

    >>> MergeReduced(lambda a, b: a + b)("a", None, 4)
    4
    """

    reducer: Callable[[Any, Any], Any]

    def __call__(self, key: Any, one: Any, other: Any) -> Any:
        """Merge two reductions."""
        return other if one is None else self.reducer(one, other)
