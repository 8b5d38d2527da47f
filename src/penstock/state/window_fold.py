"""Folds by column into the windows of a cached store: as ``fold``, with a window start beside each key, and time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.serde.columns import Columns, Commits, Irregular, OnColumns
from penstock.serde.groups import Groups
from penstock.state.fold import Folding
from penstock.state.partition_times import NO_PARTITION, PartitionTimes
from penstock.state.segmented import Segmented
from penstock.state.sheet import before_of

_NEVER = 1 << 62


class Tumbling(NamedTuple):
    """Windows of one size, one after the other, that take late records for so long."""

    size: int
    grace: int


def running_time(times: Mapping[int, int], indexes: Any, reached: Any) -> tuple[Any, dict[int, int]]:
    """Return the time of a clock after each record, and the times of its partitions after all of them.

    >>> now, after = running_time({0: 10}, np.array([0, 1, 0, 1]), np.array([20, 5, 30, 25]))
    >>> now.tolist(), after
    ([20, 5, 5, 25], {0: 30, 1: 25})
    """
    now = np.full(len(indexes), _NEVER, dtype=np.int64)
    after = dict(times)
    seen = np.unique(indexes).tolist()
    if NO_PARTITION in times or NO_PARTITION in seen:
        raise Irregular
    for index in {*times, *seen}:
        before = times.get(index)
        if before is not None and index not in seen:
            now = np.minimum(now, before)
            continue
        run = np.maximum.accumulate(np.where(indexes == index, reached, -1))
        after[index] = max(int(run[-1]), -1 if before is None else before)
        # a partition counts from its first record on
        run = np.where(run < 0, _NEVER, run) if before is None else np.maximum(run, before)
        now = np.minimum(now, run)
    return now, after


def open_window_fold(
    rows: Segmented,
    folding: Folding,
    number: Callable[[], int],
    clock: PartitionTimes,
    windows: Tumbling,
    drop_late: Callable[[int], None] | None,
) -> OnColumns:
    """Return what folds records by column into windows.

    ``drop_late``: counts so many late records; None: each of them must be looked at.
    """
    size, grace = windows

    def on_columns(columns: Columns, commits: Commits) -> None:
        keys = columns.keys.arrow_of(folding.key)
        if keys.null_count:
            raise Irregular
        indexes, floors = (columns.of_source(column) for column in columns.spots.numbers())
        now, times = running_time(clock.times, indexes, np.maximum(columns.timestamps, floors))
        starts = columns.timestamps - columns.timestamps % size
        in_time = starts + size > now - grace
        late = int(len(in_time) - in_time.sum())
        if late and drop_late is None:
            raise Irregular
        at = np.flatnonzero(in_time)
        times_of_store = np.minimum(starts, now)[at]
        reached = _greatest(indexes[at], times_of_store)
        _check_kept(rows, indexes[at], times_of_store, starts[at])
        write = fold_windows(columns, keys, starts[at], at) if len(at) else None

        def commit() -> None:
            for index, time in times.items():
                clock.see(index, time)
            rows.observe_all(reached)
            if late and drop_late is not None:
                drop_late(late)
            if write is not None:
                write()

        commits.append(commit)

    def fold_windows(columns: Columns, keys: pa.Array, starts: Any, at: Any) -> Callable[[], None]:
        """Fold the records at these places, whose windows start then; return what writes the rows."""
        if len(at) < len(keys):
            keys = keys.take(pa.array(at))
        firsts, window = np.unique(starts, return_inverse=True)
        groups = Groups(keys, window)
        edges = np.searchsorted(groups.parts, np.arange(len(firsts) + 1)).tolist()
        found = [
            row
            for start, (begin, end) in zip(firsts.tolist(), pairwise(edges), strict=True)
            for row in rows.get_many(groups.keys[begin:end], start)
        ]
        order, folded = folding.folded(
            columns, groups, folding.items(columns, groups, at), before_of(found), at
        ).in_order()
        names, opens = [groups.keys[group] for group in order.tolist()], firsts[groups.parts][order].tolist()
        return lambda: rows.put_many(names, opens, list(folded.entries(columns, iter(number, None))))

    return on_columns


def _greatest(indexes: Any, times: Any) -> dict[int, int]:
    return {index: int(times[indexes == index].max()) for index in np.unique(indexes).tolist()}


def _check_kept(rows: Segmented, indexes: Any, times: Any, starts: Any) -> None:
    """Refuse records of which some are past the retention when their turn comes, by the time that the store has then."""
    if not len(starts):
        return
    after, _ = running_time(rows.times, indexes, times)
    before = np.concatenate([[rows.observed], after[:-1]])
    latest = np.maximum(after, before)
    for start in np.unique(starts).tolist():
        oldest, _, bound = rows.limits(int(latest[starts == start].max()))
        if start < max(oldest, bound):
            raise Irregular
