"""Time to live: rows of a key-value store that end by event time. Kafka Streams has none; the rules are ours.

- The store's time is that of the nodes that write to it (``clock``); of a store that is opened by itself, the greatest timestamp
  of a row written to it. It never goes back, and is kept beside the rows.
- A row is expired once the store's time is at least ``row timestamp + ttl``. From then on no read shows it.
- At the barrier expired rows are deleted, in the changelog too, with the timestamp at which they ended. They are
  found through an index by time, so the cost grows with what expires and not with what is stored.
- Those downstream see the row go: (key, None, old value) is forwarded to the listener, of a store that is not cached in front of the
  first record whose time it is, of a cached one at the barrier.

Maps: ``<store>/expiry`` holds ``timestamp (8 bytes, big-endian) key → nothing``; ``<store>/time`` holds
``observed → timestamp``. An index row that no stored row has the timestamp of (a restore leaves such rows) means nothing
and is deleted when it is met.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush

from penstock.state.base import Entry, ShardState
from penstock.state.event_time import EventTime
from penstock.state.write_back import StoredRow, WriteBack, pack_stamp, unpack_stamp

_OBSERVED = b"observed"


def index_name(store: str) -> str:
    """Return the name of the map with the time index of a store."""
    return f"{store}/expiry"


def time_name(store: str) -> str:
    """Return the name of the map with the time of a store."""
    return f"{store}/time"


def index_key(timestamp: int, key: bytes) -> bytes:
    """Return the key of an index row."""
    return pack_stamp(timestamp) + key


class StoreTime:
    """The time of a store: the greatest event time it has seen, kept in a map of its own.

    >>> from penstock.state.memory import MemoryState
    >>> state = MemoryState()
    >>> time = StoreTime(state, "s")
    >>> time.advance(7), time.advance(5), time.observed
    (None, None, 7)
    >>> time.unsaved()
    {'s/time': [(b'observed', b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07')]}
    """

    __slots__ = ("_name", "_saved", "observed")

    def __init__(self, state: ShardState, store: str) -> None:
        self._name = time_name(store)
        raw = state.map(self._name).get(_OBSERVED)
        self.observed: int = -1 if raw is None else unpack_stamp(raw)[0]
        self._saved = self.observed

    def advance(self, timestamp: int) -> None:
        """Move on to this time, never back."""
        if timestamp > self.observed:
            self.observed = timestamp

    def unsaved(self) -> dict[str, list[tuple[bytes, bytes | None]]]:
        """Return the row to write if time has moved since the last call."""
        if self.observed == self._saved:
            return {}
        self._saved = self.observed
        return {self._name: [(_OBSERVED, pack_stamp(self.observed))]}


class RowExpiry:
    """Which rows of a store have ended, and the index that finds them."""

    __slots__ = ("_ends", "_index", "_index_name", "_rows", "_stale", "_ttl", "clock", "time")

    def __init__(self, state: ShardState, store: str, ttl: int, rows: WriteBack) -> None:
        self._ttl = ttl
        self._rows = rows
        self._index_name = index_name(store)
        self._index = state.map(self._index_name)
        self.time = StoreTime(state, store)
        self.clock: EventTime | None = None
        #: ends of rows that were written in this epoch, the first one first; some of them are written again since
        self._ends: list[int] = []
        self._stale: list[bytes] = []

    def observe(self, timestamp: int) -> int:
        """Take note of a row being written; return its timestamp, the store's time for a row that has none."""
        if timestamp < 0:
            timestamp = max(self.time.observed, 0)
        elif self.clock is None:
            self.time.advance(timestamp)
        else:
            self.reach()
        heappush(self._ends, timestamp + self._ttl)
        return timestamp

    def reach(self) -> None:
        """Advance the store to the time of the clock."""
        if self.clock is not None:
            self.time.advance(self.clock.now)

    def earliest(self) -> int | None:
        """Return when the first row ends, or an earlier time; None if there is none."""
        for raw, _ in self._index.range(None, None):
            first: int = unpack_stamp(raw)[0] + self._ttl
            return min(first, self._ends[0]) if self._ends else first
        return self._ends[0] if self._ends else None

    def horizon(self) -> int:
        """Return the timestamp up to which rows are expired, now."""
        return self.time.observed - self._ttl

    def end_of(self, row: StoredRow) -> int:
        """Return the time at which the row ends."""
        return row.timestamp + self._ttl

    def due(self) -> list[bytes]:
        """Return the keys of expired rows, the one that ended first at first."""
        horizon = self.horizon()
        while self._ends and self._ends[0] <= horizon + self._ttl:
            heappop(self._ends)
        found: set[tuple[int, bytes]] = set()
        for layer in (self._rows.pending, self._rows.dirty):
            found.update((e[1], key) for key, e in layer.items() if e[0] is not None and e[1] <= horizon)
        for raw, _ in self._index.range(None, pack_stamp(horizon + 1)) if horizon >= 0 else ():
            timestamp, key = unpack_stamp(raw)[0], raw[8:]
            row = self._rows.lookup(key)
            if row is not None and row.timestamp == timestamp:
                found.add((timestamp, key))
            else:
                self._stale.append(raw)
        return [key for _, key in sorted(found) if self.is_due(key, horizon)]

    def is_due(self, key: bytes, horizon: int) -> bool:
        """Return whether a reader would find an expired row under this key."""
        row = self._rows.lookup(key)
        return row is not None and row.timestamp <= horizon

    def side_rows(self, rows: Collection[tuple[bytes, Entry]]) -> dict[str, list[tuple[bytes, bytes | None]]]:
        """Return what the index and the clock need when these rows are sealed; to be asked before they are."""
        index: list[tuple[bytes, bytes | None]] = [(raw, None) for raw in self._stale]
        self._stale.clear()
        for key, entry in rows:
            old = self._rows.before(key)
            if old is not None:
                index.append((index_key(old.timestamp, key), None))
            if entry[0] is not None:
                index.append((index_key(entry[1], key), b""))
        side = self.time.unsaved()
        if index:
            side[self._index_name] = index
        return side
