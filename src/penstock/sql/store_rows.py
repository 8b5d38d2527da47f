"""The rows of a committed store, read from its log: by column, as a reader of the store would see them at the barrier.

Of most kinds a row is the last one of its key in the changelog, unless it has expired by the store's time at the barrier. Of a
versioned store the changelog is replayed, as by a restore: which version is the last depends on their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.store_descriptions import StoreDescription
from penstock.lane.decoding import read_rows
from penstock.log.kafka import KafkaLog
from penstock.serde import Serdes
from penstock.sql.column_forms import known_serde
from penstock.sql.committed_store import CommittedStore, Split
from penstock.sql.last_rows import NO_ROWS, KeyedRows, LastRows, numbers_at_end, without_end
from penstock.state.event_time import EventTime
from penstock.state.keys import MAX_TIME
from penstock.state.memory import MemoryState
from penstock.state.open import Standalone, open_store
from penstock.state.positions import DUPLICATES, SESSION, WINDOW
from penstock.state.restore import restore
from penstock.state.segmented import Segmented
from penstock.state.shards import shard_column
from penstock.state.spec import StoreKind, StoreSpec
from penstock.state.versioned import VersionedStore

#: records read at a time, and versions that are replayed at a time
BATCH, REPLAYED = 20_000, 100_000

#: told how many offsets were read since the last call
OnRead = Callable[[int], None]


class StoreRows(NamedTuple):
    """Rows of a store by column, keys and values as bytes. ``starts``, ``ends``: of windows and sessions, else None."""

    keys: pa.Array
    values: pa.Array
    times: Any
    starts: Any
    ends: Any
    #: of the global table there are no shards: None
    shards: Any

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.times)

    def take(self, places: Any) -> StoreRows:
        """Return the rows at some places."""
        chosen = pa.array(places)
        numbers = (None if each is None else each[places] for each in self[2:])
        return StoreRows(self.keys.take(chosen), self.values.take(chosen), *numbers)


def read_split(log: KafkaLog, found: CommittedStore, split: Split, told: OnRead = lambda offsets: None) -> StoreRows:
    """Return the rows of a split that are seen at the barrier, in the order of their bytes."""
    return seen_rows(found, split, _log_rows(log, found, split, told))


def seen_rows(found: CommittedStore, split: Split, log_rows: Iterable[KeyedRows]) -> StoreRows:
    """Return the rows that are seen at the barrier, of all rows of a split's log in order."""
    spec = found.store.spec()
    if spec.kind is StoreKind.VERSIONED:
        rows = _latest_versions(_replayed(found, log_rows))
    else:
        kept = LastRows()
        for each in log_rows:
            kept.add(*each)
        rows = _unexpired(spec, kept.newest(), barrier_time(found))
    shards = _shards(found, split, rows.keys)
    match spec.kind:
        case StoreKind.WINDOW:
            size, starts = spec.window_size or 0, numbers_at_end(rows.keys, 12)
            ends = np.where(starts > MAX_TIME - size, MAX_TIME, starts + size)
            return StoreRows(without_end(rows.keys, 12), rows.values, rows.times, starts, ends, shards)
        case StoreKind.SESSION:
            starts, ends = numbers_at_end(rows.keys, 8), numbers_at_end(rows.keys, 16)
            return StoreRows(without_end(rows.keys, 16), rows.values, rows.times, starts, ends, shards)
        case _:
            return StoreRows(*rows, None, None, shards)


def open_versioned(
    log: KafkaLog, found: CommittedStore, split: Split, key: bytes, told: OnRead = lambda offsets: None
) -> VersionedStore:
    """Return a versioned store of bytes with the versions of a key of a split, at the time of the barrier."""
    rows = _log_rows(log, found, split, told)
    return _replayed(found, (each.take(np.flatnonzero(pc.equal(each.keys, key).fill_null(False))) for each in rows))


def _replayed(found: CommittedStore, log_rows: Iterable[KeyedRows]) -> VersionedStore:
    spec, state = found.store.spec(), MemoryState()
    waiting: list[tuple[bytes, bytes | None, int]] = []
    for rows in log_rows:
        each = zip(rows.keys.to_pylist(), rows.values.to_pylist(), rows.times.tolist(), strict=True)
        waiting += (row for row in each if row[0] is not None)
        if len(waiting) >= REPLAYED:
            restore(spec, state, waiting)
            waiting = []
    restore(spec, state, waiting)
    store: VersionedStore = open_store(spec, state, Standalone())
    time = EventTime()
    time.reach(barrier_time(found))
    store.keep_time(time)
    store.reach()
    return store


def barrier_time(found: CommittedStore) -> int:
    """Return the store's time at the barrier, −1 if it is not known. A shard without records is as far as the others are."""
    time = -1
    for shots in found.snapshots.values():
        time = max((shot.get("time", -1) for shot in shots.values()), default=time)
    return time


def _latest_versions(store: VersionedStore) -> KeyedRows:
    rows = list(store.latest_rows())
    if not rows:
        return NO_ROWS
    keys, values, times = zip(*rows, strict=True)
    return KeyedRows(pa.array(keys, pa.binary()), pa.array(values, pa.large_binary()), np.array(times, np.int64))


def _unexpired(spec: StoreSpec, rows: KeyedRows, time: int) -> KeyedRows:
    """Return the rows that have not expired at a time of the store; not known: at that of its newest row."""
    if not rows.size:
        return rows
    if spec.kind is StoreKind.WINDOW or spec.kind is StoreKind.SESSION:
        positions = SESSION if spec.kind is StoreKind.SESSION else DUPLICATES if spec.retain_duplicates else WINDOW
        times = numbers_at_end(rows.keys, positions.suffix_size)
        bound = Segmented(spec, MemoryState(), positions).limits(time if time >= 0 else int(times.max()))[2]
        return _where(rows, times >= bound)
    if spec.ttl is not None:
        return _where(rows, rows.times > (time if time >= 0 else int(rows.times.max())) - spec.ttl)
    return rows


def _where(rows: KeyedRows, seen: Any) -> KeyedRows:
    return rows if seen.all() else rows.take(np.flatnonzero(seen))


def _log_rows(log: KafkaLog, found: CommittedStore, split: Split, told: OnRead) -> Iterator[KeyedRows]:
    """Yield the rows of a split's log in order, up to the barrier; of a source topic only those that became rows of its shards."""
    reader = log.reader()
    source = "source_topic" in found.store.options
    try:
        begins = log.admin.earliest_offsets([(topic, partition) for topic, partition, end in split.ranges if end])
        for topic, partition, end in split.ranges:
            at = begins.get((topic, partition), end)
            told(at)
            for rows in reader.rows(topic, partition, at, end, BATCH):
                reached = min(int(rows.offsets[-1]) + 1, end)
                told(reached - at)
                at = reached
                each = KeyedRows(rows.keys, rows.values, rows.timestamps)
                yield _source_rows(each, found, split) if source else each
            told(end - at)
    finally:
        reader.close()


def _source_rows(rows: KeyedRows, found: CommittedStore, split: Split) -> KeyedRows:
    """Return the records of a source topic that became rows: not those without a key, or that cannot be read."""
    seen = (rows.times >= 0) & rows.keys.is_valid().to_numpy(zero_copy_only=False)
    seen &= shard_column(rows.keys, found.shards, 0) % split.count == split.number
    rows = _where(rows, seen)
    bad = _undecodable(rows, found.store)
    return rows.take(np.setdiff1d(np.arange(rows.size), bad)) if bad else rows


def _undecodable(rows: KeyedRows, store: StoreDescription) -> list[int]:
    serdes = [(rows.keys, known_serde(store.key)), (rows.values, known_serde(store.value))]
    known = [(data, serde) for data, serde in serdes if serde is not None and serde != Serdes.bytes]
    return sorted({place for data, serde in known for place in read_rows(data, serde)[1]})


def _shards(found: CommittedStore, split: Split, keys: pa.Array) -> Any:
    """Return the shard of each row."""
    if found.store.everywhere:
        return None
    if "source_topic" not in found.store.options or found.store.one_shard:
        return np.full(len(keys), split.number, np.int32)
    return shard_column(keys, found.shards, 0)
