"""The grace buffer of a stream-table join: records wait here until time has passed theirs by the grace period.

Order: (timestamp, key bytes, order of arrival). Unlike the suppress buffer it keeps every record of a key, in a map of
its own order, so that a long grace does not have to fit into memory. Base rows are the changelog rows, bytes for bytes
(``keys.grace_key``, ``keys.pack_buffer_row`` with time 0).

A difference from Kafka Streams: a record that is buffered and released within one epoch is not logged at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.record import NO_ORIGIN, Headers, Origin
from penstock.serde import Serde
from penstock.state.base import Sealed, ShardState, StoreContext
from penstock.state.keys import (
    MAX_SEQUENCE,
    MAX_TIME,
    BufferContext,
    BufferRow,
    grace_key,
    pack_buffer_row,
    pack_time,
    parse_buffer_row,
    parse_grace_key,
    unpack_time,
)
from penstock.state.spec import StoreSpec
from penstock.state.typed import TypedStore
from penstock.state.write_back import WriteBack

_SEQUENCE = b"sequence"


class Released(NamedTuple):
    """A record that leaves the buffer as it came, with its origin, and the bytes that it is ordered by."""

    raw_key: bytes
    origin: Origin
    key: Any
    value: Any
    timestamp: int
    headers: Headers


class JoinBufferStore(TypedStore):
    """The buffer of one stream-table join in one shard; its spec is of kind BUFFER and retains duplicates.

    >>> from penstock.serde import Serdes
    >>> from penstock.state.memory import MemoryState
    >>> from penstock.state.open import Standalone
    >>> from penstock.state.spec import StoreKind
    >>> spec = StoreSpec("waiting", StoreKind.BUFFER, retain_duplicates=True)
    >>> buffer = JoinBufferStore(spec, MemoryState(), Standalone(), Serdes.string, Serdes.string)
    >>> _ = buffer.put("k", "late", 7, ())
    >>> _ = buffer.put("k", "early", 3, ())
    >>> [record.value for record in buffer.release(6)], buffer.count()
    (['early'], 1)
    """

    def __init__(
        self, spec: StoreSpec, state: ShardState, context: StoreContext, key: Serde[Any], value: Serde[Any]
    ) -> None:
        super().__init__(spec, context, key, value)
        self._rows = WriteBack(state, spec.name, stamped=False)
        self._beside = sequence_map(spec.name)
        self._sequence = self._sealed_sequence = self._open_sequence(state)
        first = next(iter(self._rows.scan(None, None)), None)
        #: no row is older than this
        self._least = MAX_TIME if first is None else unpack_time(first[0], 1)

    def _open_sequence(self, state: ShardState) -> int:
        """Find the number of the last record put, after a restore the greatest one that is still held."""
        kept = state.map(self._beside).get(_SEQUENCE)
        if kept is not None:
            return unpack_time(kept)
        return max((parse_grace_key(row[0])[2] for row in self._rows.scan(None, None)), default=0)

    def put(self, key: Any, value: Any, timestamp: int, headers: Headers) -> bytes:
        """Hold back the record at hand; return the bytes under which it waits."""
        self._sequence = (self._sequence + 1) & MAX_SEQUENCE
        origin = self._context.origin
        context = BufferContext(timestamp, origin.offset, origin.topic or "", origin.partition, headers)
        raw_key = grace_key(self._key.serialize(key), timestamp, self._sequence)
        raw = pack_buffer_row(BufferRow(context, None, None, self._value.serialize(value)), 0)
        self._rows.dirty[raw_key] = (raw, timestamp, (), origin, 0)
        if timestamp < self._least:
            self._least = timestamp
        return raw_key

    def release(self, until: int) -> list[Released]:
        """Remove and return, in order, the records with a timestamp up to this one."""
        if self._least > until:
            return []
        rows, dirty = self._rows, self._rows.dirty
        found = list(rows.scan(_first(self._least), _first(until + 1)))
        released = [self._decode(raw_key, raw) for raw_key, raw, _ in found]
        for (raw_key, _, _), record in zip(found, released, strict=True):
            dirty[raw_key] = (None, record.timestamp, (), record.origin, 0)
        self._least = until + 1
        return released

    def earliest(self) -> int | None:
        """Return the timestamp of the oldest record, or an older one; None if none waits."""
        if self._rows.is_small():
            first = next(self._rows.scan(_first(self._least), None), None)
            self._least = MAX_TIME if first is None else unpack_time(first[0], 1)
        return None if self._least == MAX_TIME else self._least

    def count(self) -> int:
        """Return how many records wait."""
        return self._rows.count()

    def _decode(self, raw_key: bytes, raw: bytes) -> Released:
        (timestamp, offset, topic, partition, headers), _, _, value = parse_buffer_row(raw)[0]
        assert value is not None, "a record without a value is never buffered"
        entry = self._rows.dirty.get(raw_key) or self._rows.pending.get(raw_key)
        if entry is not None:
            origin = entry[3]
        elif topic:  # coordinates are kept, the raw bytes of the source record are not
            origin = Origin(topic, partition, offset, timestamp, None, None, headers, partition)
        else:
            origin = NO_ORIGIN
        key = self._key.deserialize(parse_grace_key(raw_key)[0])
        return Released(raw_key, origin, key, self._value.deserialize(value), timestamp, headers)

    def snapshot(self) -> dict[str, Any]:
        """Return the number of the last record put; the changelog knows only those that still wait."""
        return {"sequence": self._sequence}

    def resume(self, snapshot: Mapping[str, Any]) -> None:
        """Restore what ``snapshot`` returned."""
        self._sequence = max(self._sequence, snapshot["sequence"])

    def seal(self) -> Sealed:
        """Hand out the epoch's rows; one that came and went within the epoch was never there."""
        sealed = self._rows.seal(self._rows.lasting(), logged=self.spec.logged)
        if self._sequence != self._sealed_sequence:
            sealed.side[self._beside] = [(_SEQUENCE, pack_time(self._sequence))]
            self._sealed_sequence = self._sequence
        return sealed

    def apply(self, sealed: Sealed) -> None:
        """Write a committed epoch to the base maps."""
        self._rows.apply(sealed)


def sequence_map(store: str) -> str:
    """Name the map beside a buffer's rows that holds the number of the last record."""
    return f"{store}/sequence"


def restore_rows(spec: StoreSpec, row: bytes, value: bytes | None) -> list[tuple[str, bytes, bytes | None]]:
    """Return what a changelog row is in the base: (map name, key, value or None) each."""
    return [(spec.name, row, value), (sequence_map(spec.name), _SEQUENCE, None)]


def _first(timestamp: int) -> bytes:
    """The least key of this timestamp."""
    return b"\x00" + pack_time(timestamp)
