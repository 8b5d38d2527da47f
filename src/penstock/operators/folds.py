"""The built-in folds of aggregations: operators and kernels know them and then call no function per record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
