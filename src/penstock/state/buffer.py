"""The suppress buffer: one row per key, held in memory in the order of time, logged so that a restart finds it again.

Order: (time, key bytes). A later update of a key replaces the row but keeps its time, so a row only ever leaves from
the front and a heap is all the order needs. Base rows are the changelog rows, bytes for bytes
(``keys.pack_buffer_row``): restoring is copying, and opening reads them all.

Size in bytes counts what Kafka Streams counts: per row 8 (time) + key + prior + old (unless it equals prior) + new,
and for the record's context 8 + 8 + 4 + the characters of topic and header names + header values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple, TypeAlias

from penstock.record import Headers, Origin
from penstock.serde import Serde
from penstock.state.base import Sealed, ShardState, Store, StoreContext
from penstock.state.keys import SUPPRESS_HEADERS, BufferContext, BufferRow, pack_buffer_row, parse_buffer_row
from penstock.state.spec import StoreSpec

#: takes a row that leaves: (bytes of the key, time of the row, key, new, old, timestamp, headers, origin of the record)
OnEvict: TypeAlias = Callable[[bytes, int, Any, Any, Any, int, Headers, Origin], None]

#: bytes of a row besides its variable parts: buffer time, timestamp, offset, partition
FIXED_SIZE = 8 + 8 + 8 + 4


class Held(NamedTuple):
    """A row in the buffer. ``prior`` is what readers of the table see while the row waits."""

    time: int
    prior: bytes | None
    old: bytes | None
    new: bytes | None
    timestamp: int
    headers: Headers
    origin: Origin
    size: int


class BufferStore(Store):
    """The buffer of one suppress node in one shard.

    >>> from penstock.serde import Serdes
    >>> from penstock.state.memory import MemoryState
    >>> from penstock.state.open import Standalone
    >>> from penstock.state.spec import StoreKind
    >>> spec = StoreSpec("waiting", StoreKind.BUFFER)
    >>> buffer = BufferStore(spec, MemoryState(), Standalone(), Serdes.string, Serdes.int64)
    >>> buffer.put(5, "b", 1, None, 5, ())
    >>> buffer.put(3, "a", 2, None, 3, ())
    >>> buffer.put(9, "b", 7, 1, 9, ())
    >>> buffer.evict_until(4, lambda raw_key, time, key, new, old, *_: print(key, new, old))
    a 2 None
    >>> buffer.evict_until(5, lambda raw_key, time, key, new, old, *_: print(key, new, old))
    b 7 1
    """

    def __init__(
        self, spec: StoreSpec, state: ShardState, context: StoreContext, key: Serde[Any], value: Serde[Any]
    ) -> None:
        self.spec = spec
        self.records = 0
        self.size_bytes = 0
        self._state = state
        self._context = context
        self._write_key, self._read_key = key.serialize, key.deserialize
        self._write_value, self._read_value = value.serialize, value.deserialize
        self._rows: dict[bytes, Held] = {}
        self._order: list[tuple[int, bytes]] = []
        #: the greatest time up to which rows have left because it had come
        self.evicted = -1
        #: keys written or evicted since the last seal, with the timestamp of the last record
        self._dirty: dict[bytes, int] = {}
        self._load()

    def _load(self) -> None:
        for raw_key, data in self._state.map(self.spec.name).range(None, None):
            row, time = parse_buffer_row(data)
            self._rows[raw_key] = held = _held(raw_key, row, time)
            self._order.append((time, raw_key))
            self.size_bytes += held.size
        heapify(self._order)
        self.records = len(self._rows)

    @property
    def min_timestamp(self) -> int | None:
        """The time of the first row, None while the buffer is empty."""
        return self._order[0][0] if self._order else None

    def put(self, time: int, key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
        """Hold back the record at hand; if the key is held already, in the place of its row."""
        raw_key = self._write_key(key)
        raw_old = None if old is None else self._write_value(old)
        raw_new = None if new is None else self._write_value(new)
        present = self._rows.get(raw_key)
        if present is None:
            prior = raw_old
            self.records += 1
            heappush(self._order, (time, raw_key))
        else:
            time, prior = present.time, present.prior
            self.size_bytes -= present.size
        at_hand = self._context.origin
        origin = _surviving(at_hand.topic, at_hand.partition, at_hand.offset, timestamp, headers)
        size = _size(raw_key, prior, raw_old, raw_new, origin.topic, headers)
        self._rows[raw_key] = Held(time, prior, raw_old, raw_new, timestamp, headers, origin, size)
        self.size_bytes += size
        self._dirty[raw_key] = timestamp

    def evict_until(self, time: int, on_evict: OnEvict) -> None:
        """Let the rows with a time up to this one leave, oldest first."""
        order = self._order
        if time > self.evicted:
            self.evicted = time
        while order and order[0][0] <= time:
            self.evict_oldest(on_evict)

    def evict_oldest(self, on_evict: OnEvict) -> None:
        """Let the first row leave. It is still held while ``on_evict`` runs."""
        raw_key = self._order[0][1]
        held = self._rows[raw_key]
        read = self._read_value
        new = None if held.new is None else read(held.new)
        old = None if held.old is None else read(held.old)
        on_evict(raw_key, held.time, self._read_key(raw_key), new, old, held.timestamp, held.headers, held.origin)
        heappop(self._order)
        del self._rows[raw_key]
        self.records -= 1
        self.size_bytes -= held.size
        self._dirty[raw_key] = held.timestamp

    def holds(self, key: Any) -> bool:
        """Return whether an update of this key waits."""
        return self._write_key(key) in self._rows

    def prior(self, key: Any) -> Any:
        """Return the value of a held key before the updates that wait, or None."""
        prior = self._rows[self._write_key(key)].prior
        return None if prior is None else self._read_value(prior)

    def snapshot(self) -> dict[str, Any]:
        """Return how far rows have left because their time had come."""
        return {"evicted": self.evicted}

    def resume(self, snapshot: Mapping[str, Any]) -> None:
        """Restore what ``snapshot`` returned."""
        self.evicted = max(self.evicted, snapshot.get("evicted", -1))

    def seal(self) -> Sealed:
        """Hand out the rows that changed; a row that came and went within the epoch is a tombstone, as in Kafka."""
        writes: list[tuple[bytes, bytes | None]] = []
        changelog: list[tuple[bytes, bytes | None, int, Headers]] = []
        rows, logged = self._rows, self.spec.logged
        for raw_key, timestamp in self._dirty.items():
            held = rows.get(raw_key)
            data = None if held is None else _pack(held)
            writes.append((raw_key, data))
            if logged:
                changelog.append((raw_key, data, timestamp, () if data is None else SUPPRESS_HEADERS))
        self._dirty.clear()
        return Sealed(writes, changelog)

    def apply(self, sealed: Sealed) -> None:
        """Write a committed epoch to the base map."""
        sealed.write_to(self._state, self.spec.name)


def _size(
    key: bytes, prior: bytes | None, old: bytes | None, new: bytes | None, topic: str | None, headers: Headers
) -> int:
    size = FIXED_SIZE + len(key)
    size += len(prior) if prior is not None else 0
    size += len(old) if old is not None and old != prior else 0
    size += len(new) if new is not None else 0
    size += _chars(topic) if topic is not None else 0
    for name, value in headers:
        size += _chars(name) + (len(value) if value is not None else 0)
    return size


def _chars(text: str) -> int:
    """Count characters as Java does, in UTF-16 units.

    >>> _chars("topic"), _chars("\\U0001f600")
    (5, 2)
    """
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def _pack(held: Held) -> bytes:
    origin = held.origin
    # Kafka cannot log a record without a topic (one made by a punctuator); ours has the empty name.
    context = BufferContext(held.timestamp, origin.offset, origin.topic or "", origin.partition, held.headers)
    return pack_buffer_row(BufferRow(context, held.prior, held.old, held.new), held.time)


def _held(key: bytes, row: BufferRow, time: int) -> Held:
    """Rebuild a row from its bytes."""
    timestamp, offset, topic, partition, headers = row.context
    origin = _surviving(topic or None, partition, offset, timestamp, headers)
    size = _size(key, row.prior, row.old, row.new, origin.topic, headers)
    return Held(time, row.prior, row.old, row.new, timestamp, headers, origin, size)


def _surviving(topic: str | None, partition: int, offset: int, timestamp: int, headers: Headers) -> Origin:
    """Return the part of an origin that the changelog keeps, so that a restart changes nothing downstream.

    The raw bytes of the source record are not in it, nor how far its partition had come.
    """
    return Origin(topic, partition, offset, timestamp, None, None, headers, partition, timestamp)
