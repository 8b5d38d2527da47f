"""Kernel of aggregations over time windows: as ``aggregate``, with a window start beside each key, and time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.batch.batch import Batch
from penstock.batch.fallback import Fallback, FallbackAfterCall
from penstock.batch.grouping import KeyGroups
from penstock.kernels.aggregate import fold_values, refuses_uncached
from penstock.kernels.fold import FailedRecords, Folding
from penstock.kernels.kernel import FallbackScope, Kernel, KernelContext, NodeFacts, TimesOf, own_store
from penstock.kernels.transaction import BatchTransaction, OnBatch, forwarding, with_keys
from penstock.kernels.user_calls import failure_handler
from penstock.operators.session import SessionWindowAggregate
from penstock.operators.windowed import WindowAggregate
from penstock.state.batch_delta import before_of
from penstock.state.delta import StoreDelta, joined
from penstock.state.segmented import Segmented
from penstock.watermark import LatePolicy
from penstock.windows import TimeWindows

#: windows of a record up to which records go by batch: a batch is as many times larger meanwhile
MOST_WINDOWS = 16


class Hopping(NamedTuple):
    """Windows of one size, one every so often, that take late records for so long; tumbling ones come one after the other."""

    size: int
    advance: int
    grace: int

    def starts(self, timestamps: Any) -> tuple[Any, Any]:
        """Return the windows of records: which record, and where the window starts, by record, the oldest window first.

        >>> [column.tolist() for column in Hopping(10, 5, 0).starts(np.array([12, 3]))]
        [[0, 0, 1], [5, 10, 0]]
        """
        last = timestamps - timestamps % self.advance
        if self.advance == self.size:
            return np.arange(len(timestamps)), last
        first = np.maximum(timestamps - self.size + self.advance, 0) // self.advance * self.advance
        counts = (last - first) // self.advance + 1
        places = np.repeat(np.arange(len(timestamps)), counts)
        since = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, first[places] + since * self.advance

    def are_open(self, starts: Any, now: Any) -> Any:
        """Whether windows that start there still take records at these times."""
        return starts + self.size > now - self.grace


class Times(NamedTuple):
    """The time of a node at many records; and, for less, one that it has not passed there, or None."""

    of: TimesOf
    at_most: TimesOf


def open_window_fold(
    rows: Segmented,
    folding: Folding,
    number: Callable[[], int],
    times: Times,
    windows: Hopping,
    drop_late: Callable[[int], None] | None,
) -> OnBatch:
    """Return what folds records by column into windows.

    ``drop_late``: counts so many late records; None: each of them must be looked at.
    """

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        keys = batch.keys.arrow_of(folding.key)
        if keys.null_count:
            raise Fallback("null_key")
        at, starts = windows.starts(batch.timestamps)
        late = 0
        if not all_in_time(batch, at, starts):
            now = times.of(batch)
            in_time = windows.are_open(starts, now[at])
            late = int(len(in_time) - in_time.sum())
            if late and drop_late is None:
                raise Fallback("late_record")
            at, starts = at[in_time], starts[in_time]
            if not _are_kept(rows, now[at], starts):
                raise Fallback("expired_window")
        made, failed = None, dict[int, Exception]()
        if len(at):
            tumbling = windows.advance == windows.size
            if not tumbling or len(at) < len(keys):
                keys = keys.take(pa.array(at))
            made = (fold_windows if tumbling else fold_hopping)(batch, keys, starts, at, failed).in_order()

        def commit() -> None:
            if late and drop_late is not None:
                drop_late(late)
            if made is not None:
                entries = list(made.written_by(batch, iter(number, None)))
                rows.put_many(made.keys.to_pylist(), made.starts.tolist(), entries)
            if failed and folding.fold is not None and folding.fold.on_failures is not None:
                folding.fold.on_failures(batch, [(int(at[index]), error) for index, error in sorted(failed.items())])

        transaction.on_commit(commit)

    def all_in_time(batch: Batch, at: Any, starts: Any) -> bool:
        """Whether no record is late even at a time that the node has not passed: most batches do not ask for the time itself."""
        now = times.at_most(batch)
        return now is not None and windows.are_open(starts, now[at]).all() and _are_kept(rows, now[at], starts)

    def fold_windows(batch: Batch, keys: pa.Array, starts: Any, at: Any, failed: dict[int, Exception]) -> StoreDelta:
        """Fold the records at these places, each with its key and the start of its window; ``failed``: those that are not, by index."""
        firsts, window = np.unique(starts, return_inverse=True)
        groups = KeyGroups(keys, window)
        edges = np.searchsorted(groups.parts, np.arange(len(firsts) + 1)).tolist()
        found = [
            row
            for start, (begin, end) in zip(firsts.tolist(), pairwise(edges), strict=True)
            for row in rows.get_many(groups.keys[begin:end], start)
        ]
        mine = None if folding.fold is None or folding.fold.on_failures is None else FailedRecords({}, {})
        folded = folding.folded(batch, groups, folding.items(batch, groups, at), before_of(found), at, failed=mine)
        made = folded._replace(starts=firsts[groups.parts], places=groups.last)
        if mine is None or not mine.at:
            return made
        failed.update((int(groups.order[index]), error) for index, error in mine.at.items())
        places = groups.last.copy()
        for group, index in mine.last.items():
            places[group] = groups.order[index]
        return made._replace(places=places).where(made.values.is_valid().to_numpy(zero_copy_only=False))

    def fold_hopping(batch: Batch, keys: pa.Array, starts: Any, at: Any, _: dict[int, Exception]) -> StoreDelta:
        """Do so window by window, if a record is in several: what one has made of it is written before the next one gets it."""
        shared, parts = batch.as_shared(), []
        for start in np.unique(starts).tolist():
            mine = np.flatnonzero(starts == start)
            fails = dict[int, Exception]()
            part = fold_windows(shared, keys.take(pa.array(mine)), starts[mine], at[mine], fails)
            if fails:  # one by one such a record does not come to its other windows
                raise FallbackAfterCall("function_raised")
            parts.append(part._replace(places=mine[part.places]))
        return joined(parts)

    return on_batch


def _are_kept(rows: Segmented, now: Any, starts: Any) -> bool:
    """Whether no record is past the retention when its turn comes, by the time that the store has then."""
    for start in np.unique(starts).tolist():
        oldest, _, bound = rows.limits(rows.put_time(int(now[starts == start].max())))
        if start < max(oldest, bound):
            return False
    return True


def open_windows(operator: WindowAggregate, context: KernelContext, forward: OnBatch | None) -> OnBatch:
    """Return what folds records into windows: the row of a window is read and written once."""
    windows, store, drop = operator.windows, context.store(operator.store), context.drop
    assert isinstance(windows, TimeWindows)
    if forward is not None and not operator.send_old:  # only a store of plain rows tells old values by batch
        store.on_flush_batch(forwarding(forward))
    fold = None if operator.counts else fold_values(operator.aggregator)._replace(on_failures=failure_handler(context))
    key, value = store.serdes

    def drop_late(count: int) -> None:
        for _ in range(count):
            drop("late_window")

    on_batch = open_window_fold(
        store.rows,
        Folding(key, value, operator.initializer, fold),
        store.next_number,
        Times(context.times_of, context.times_at_most),
        Hopping(windows.size, windows.advance, windows.grace),
        None if LatePolicy.dead_letter in context.late_policies else drop_late,
    )
    return with_keys(on_batch, drop)


def refuses_windows(operator: Any, facts: NodeFacts) -> str | None:
    """Return why records cannot be folded into a window or session store together; None if they can."""
    if LatePolicy.drop in facts.late_policies:
        return "a source drops late records without grace, so that each record is asked for its source"
    if facts.writers(operator.store) != 1:
        return f"several nodes write to store {operator.store}"
    return refuses_uncached(operator.store, facts)


def _refuses(operator: WindowAggregate, facts: NodeFacts) -> str | None:
    windows = operator.windows
    if not operator.emits_updates:
        return "it emits on window close"
    if type(windows) is not TimeWindows:
        return f"{type(windows).__name__} have no kernel"
    if windows.size > MOST_WINDOWS * windows.advance:
        return f"a record is in more than {MOST_WINDOWS} windows"
    return refuses_windows(operator, facts)


def count_or_whole(operator: WindowAggregate | SessionWindowAggregate) -> FallbackScope:
    """Everything goes to the record path at the node if it counts; else all records together, as functions may have been called."""
    return FallbackScope.node if operator.counts else FallbackScope.node_as_a_whole


WINDOWS = Kernel(open_windows, _refuses, own_store, count_or_whole, ends=True)
