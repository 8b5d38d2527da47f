"""Folds by column into the windows of a cached store: as ``fold``, with a window start beside each key, and time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.serde import Serde
from penstock.serde.columns import Columns, Commits, Groups, Irregular, OnColumns
from penstock.state.fold import FoldValues, kept_between, settler
from penstock.state.partition_times import NO_PARTITION, PartitionTimes
from penstock.state.segmented import Segmented

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
    serdes: tuple[Serde[Any], Serde[Any]],
    number: Callable[[], int],
    clock: PartitionTimes,
    windows: Tumbling,
    initializer: Callable[[], Any],
    fold: FoldValues | None,
    drop_late: Callable[[int], None] | None,
) -> OnColumns:
    """Return what folds records by column into windows; ``fold`` None: what counts them.

    ``drop_late``: counts so many late records; None: each of them must be looked at.
    """
    key_serde, value_serde = serdes
    decode_key, encode, decode = key_serde.deserialize, value_serde.serialize, value_serde.deserialize
    settle, size, grace = settler(value_serde), windows.size, windows.grace

    def on_columns(columns: Columns, commits: Commits) -> None:
        keys = columns.keys.arrow_of(key_serde)
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
        written = list(fold_windows(columns, keys, starts, at))

        def commit() -> None:
            for index, time in times.items():
                clock.see(index, time)
            rows.observe_all(reached)
            if late and drop_late is not None:
                drop_late(late)
            headers = columns.headers
            for last, raw_key, start, raw, later in written:
                entry = (raw, later, () if headers is None else headers[last], (columns, last), number())
                rows.put(raw_key, start, entry)

        commits.append(commit)

    def fold_windows(
        columns: Columns, keys: pa.Array, starts: Any, at: Any
    ) -> list[tuple[int, bytes, int, bytes, int]]:
        """Return what is to be written, in the order of the last records: (place, key, start, value, timestamp)."""
        if not len(at):
            return []
        kept = kept_between(value_serde, columns)
        firsts, window = np.unique(starts[at], return_inverse=True)
        groups = Groups(keys if len(at) == len(keys) else keys.take(pa.array(at)), window.astype(np.int64), len(firsts))
        items = columns.values.items if fold is not None else []
        values = [items[i] for i in at[groups.order].tolist()] if fold is not None else []
        latest = np.maximum.reduceat(columns.timestamps[at][groups.order], groups.starts).tolist()
        counts = groups.counts() if fold is None else repeat(0)
        columns_of_groups = (groups.parts, latest, at[groups.last].tolist(), counts)
        written = []
        for raw_key, begin, end, part, later, last, count in zip(
            groups.keys, groups.starts.tolist(), groups.ends.tolist(), *columns_of_groups, strict=False
        ):
            start = int(firsts[part])
            row = rows.get(raw_key, start)
            if row is None:
                old = initializer()
            else:
                old = decode(row[0])
                if row[1] > later:
                    later = row[1]
            new = old + count if fold is None else fold(decode_key(raw_key), values[begin:end], old, kept, settle)
            if new is None:
                raise Irregular
            written.append((last, raw_key, start, encode(new), later))
        written.sort()  # a flush forwards in the order of the last writes
        return written

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
