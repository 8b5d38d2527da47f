"""Folds by column into the windows of a cached store: as ``fold``, with a window start beside each key, and time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.batch.batch import Batch, Commits, OnBatch
from penstock.batch.fallback import Fallback, FallbackAfterCall
from penstock.batch.grouping import KeyGroups
from penstock.state.fold import Failed, Folding
from penstock.state.segmented import Segmented
from penstock.state.sheet import Folded, before_of, order_of_places

#: gives the time of the node at many records, each included
TimesOf: TypeAlias = Callable[[Batch], Any]


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


class Rows(NamedTuple):
    """New rows of windows: keys, where their windows start, what they are, and which write of all was the last one of each."""

    names: pa.Array
    opens: Any
    folded: Folded
    writes: Any

    def in_order(self) -> Rows:
        """Return them in the order of the last writes."""
        order = order_of_places(self.writes)
        at, (values, times, last) = pa.array(order), self.folded
        folded = Folded(values.take(at), times[order], last[order])
        return Rows(self.names.take(at), self.opens[order], folded, self.writes[order])

    def where(self, mask: pa.Array) -> Rows:
        """Return some of them."""
        kept, (values, times, last) = mask.to_numpy(zero_copy_only=False), self.folded
        folded = Folded(values.filter(mask), times[kept], last[kept])
        return Rows(self.names.filter(mask), self.opens[kept], folded, self.writes[kept])


def open_window_fold(
    rows: Segmented,
    folding: Folding,
    number: Callable[[], int],
    times_of: TimesOf,
    windows: Hopping,
    drop_late: Callable[[int], None] | None,
) -> OnBatch:
    """Return what folds records by column into windows.

    ``drop_late``: counts so many late records; None: each of them must be looked at.
    """

    def on_batch(batch: Batch, commits: Commits) -> None:
        keys = batch.keys.arrow_of(folding.key)
        if keys.null_count:
            raise Fallback
        now = times_of(batch)
        at, starts = windows.starts(batch.timestamps)
        in_time = starts + windows.size > now[at] - windows.grace
        late = int(len(in_time) - in_time.sum())
        if late and drop_late is None:
            raise Fallback
        at, starts = at[in_time], starts[in_time]
        _check_kept(rows, now[at], starts)
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
                entries = list(made.folded.entries(batch, iter(number, None)))
                rows.put_many(made.names.to_pylist(), made.opens.tolist(), entries)
            if failed and folding.fold is not None and folding.fold.judge is not None:
                folding.fold.judge(batch, [(int(at[index]), error) for index, error in sorted(failed.items())])

        commits.append(commit)

    def fold_windows(batch: Batch, keys: pa.Array, starts: Any, at: Any, failed: dict[int, Exception]) -> Rows:
        """Fold the records at these places, each with its key and the start of its window; ``failed``: those that are not, by index."""
        firsts, window = np.unique(starts, return_inverse=True)
        groups = KeyGroups(keys, window)
        edges = np.searchsorted(groups.parts, np.arange(len(firsts) + 1)).tolist()
        found = [
            row
            for start, (begin, end) in zip(firsts.tolist(), pairwise(edges), strict=True)
            for row in rows.get_many(groups.keys[begin:end], start)
        ]
        mine = None if folding.fold is None or folding.fold.judge is None else Failed({}, {})
        folded = folding.folded(batch, groups, folding.items(batch, groups, at), before_of(found), at, failed=mine)
        made = Rows(groups.names, firsts[groups.parts], folded, groups.last)
        if mine is None or not mine.at:
            return made
        failed.update((int(groups.order[index]), error) for index, error in mine.at.items())
        writes = groups.last.copy()
        for group, index in mine.last.items():
            writes[group] = groups.order[index]
        return made._replace(writes=writes).where(folded.values.is_valid())

    def fold_hopping(batch: Batch, keys: pa.Array, starts: Any, at: Any, _: dict[int, Exception]) -> Rows:
        """Do so window by window, if a record is in several: what one has made of it is written before the next one gets it."""
        shared, parts = batch.as_shared(), []
        for start in np.unique(starts).tolist():
            mine = np.flatnonzero(starts == start)
            fails = dict[int, Exception]()
            part = fold_windows(shared, keys.take(pa.array(mine)), starts[mine], at[mine], fails)
            if fails:  # one by one such a record does not come to its other windows
                raise FallbackAfterCall
            parts.append(part._replace(writes=mine[part.writes]))
        names, opens, folded, writes = zip(*parts, strict=True)
        values, times, last = zip(*folded, strict=True)
        together = Folded(pa.concat_arrays(values), np.concatenate(times), np.concatenate(last))
        return Rows(pa.concat_arrays(names), np.concatenate(opens), together, np.concatenate(writes))

    return on_batch


def _check_kept(rows: Segmented, now: Any, starts: Any) -> None:
    """Refuse records of which some are past the retention when their turn comes, by the time that the store has then."""
    for start in np.unique(starts).tolist():
        oldest, _, bound = rows.limits(rows.put_time(int(now[starts == start].max())))
        if start < max(oldest, bound):
            raise Fallback
