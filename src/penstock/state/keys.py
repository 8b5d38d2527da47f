"""The bytes of keys and values in stores and changelogs, equal to Kafka Streams 4.3.1.

All numbers are big endian and signed; times are milliseconds; ``key`` and ``value`` are what the serdes made.

::

    window row        := key start:int64 sequence:int32              sequence 0 unless the store keeps duplicates
    session row       := key end:int64 start:int64
    timestamped value := timestamp:int64 value                       in the store; its changelog holds ``value`` alone

    window by time    := start:int64 key sequence:int32              ┐ our index for emit on close: order as in Kafka's
    session by time   := end:int64 start:int64 key                   ┘ time-ordered stores; never in a changelog
    timer             := domain:byte timestamp:int64 key             ours; domain is 0 (event) or 1 (processing)

    join side key     := timestamp:int64 side:byte key               ┐ side 1 is left, 0 is right:
    join side value   := side:byte value                             │ the rows of left and outer stream-stream joins
    list              := 0x01 count:int32 { length:int32 item }      ┘ that have no partner yet (length −1: null item)

    context           := timestamp:int64 offset:int64 text partition:int32 count:int32 { text optional }
    text              := length:int32 utf-8                          first the topic, then each header's name
    optional          := length:int32 bytes                          length −1: null
    buffer value      := context prior:optional old new:optional     old: as optional, or length −2: the same as prior
    suppress row      := buffer value, time:int64                    under the plain key, with the header v = 0x03
    grace join key    := 0x00 timestamp:int64 key sequence:int32     ┐ the buffer of a stream-table join with grace;
    grace join row    := buffer value (prior, old null), 0:int64     ┘ no header

Golden bytes of each, made by Java, are in ``tests/golden/state.json``.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from penstock.record import Headers

MAX_TIME = 2**63 - 1
MAX_SEQUENCE = 2**31 - 1

int32 = Struct(">i")
int64 = Struct(">q")
two_int64 = Struct(">qq")
start_sequence = Struct(">qi")
_time_side = Struct(">qb")
_time_offset = Struct(">qq")

pack_time = int64.pack
pack_window_suffix = start_sequence.pack
pack_session_suffix = two_int64.pack


def unpack_time(data: bytes, at: int = 0) -> int:
    """Read the int64 at an offset.

    >>> unpack_time(timestamped(b"v", 7))
    7
    """
    time: int = int64.unpack_from(data, at)[0]
    return time


def timestamped(value: bytes, timestamp: int) -> bytes:
    """Return the value as a timestamped store keeps it."""
    return pack_time(timestamp) + value


def window_key(key: bytes, start: int, sequence: int = 0) -> bytes:
    """Return the key of a row of a window store.

    >>> window_key(b"k", 1).hex()
    '6b000000000000000100000000'
    """
    return key + pack_window_suffix(start, sequence)


def parse_window_key(row: bytes) -> tuple[bytes, int, int]:
    """Return (key, start, sequence)."""
    start, sequence = start_sequence.unpack_from(row, len(row) - 12)
    return row[:-12], start, sequence


def session_key(key: bytes, start: int, end: int) -> bytes:
    """Return the key of a row of a session store: the end goes first.

    >>> session_key(b"k", 1, 2).hex()
    '6b00000000000000020000000000000001'
    """
    return key + pack_session_suffix(end, start)


def parse_session_key(row: bytes) -> tuple[bytes, int, int]:
    """Return (key, start, end)."""
    end, start = two_int64.unpack_from(row, len(row) - 16)
    return row[:-16], start, end


# -- timers ----------------------------------------------------------------------------------------------------------


def timer_key(domain: int, timestamp: int, key: bytes) -> bytes:
    """Return the row of a timer; rows of one domain sort by time, then key."""
    return bytes((domain,)) + pack_time(timestamp) + key


def parse_timer_key(row: bytes) -> tuple[int, int, bytes]:
    """Return (domain, timestamp, key)."""
    return row[0], unpack_time(row, 1), row[9:]


# -- outer joins -----------------------------------------------------------------------------------------------------


def join_side_key(timestamp: int, left: bool, key: bytes) -> bytes:
    """Return the key of an unmatched row of a left or outer stream-stream join.

    >>> join_side_key(1, True, b"k").hex()
    '0000000000000001016b'
    """
    return _time_side.pack(timestamp, left) + key


def parse_join_side_key(row: bytes) -> tuple[int, bool, bytes]:
    """Return (timestamp, is left, key)."""
    timestamp, side = _time_side.unpack_from(row)
    return timestamp, side == 1, row[9:]


def join_side_value(left: bool, value: bytes) -> bytes:
    """Return one value with its side."""
    return (b"\x01" if left else b"\x00") + value


def parse_join_side_value(data: bytes) -> tuple[bool, bytes]:
    """Return (is left, value)."""
    return data[0] == 1, data[1:]


def pack_list(items: list[bytes | None]) -> bytes:
    """Return a list of values as Kafka's ``ListSerializer`` writes byte arrays.

    >>> parse_list(pack_list([b"a", None]))
    [b'a', None]
    """
    return b"\x01" + int32.pack(len(items)) + b"".join(map(_optional, items))


def parse_list(data: bytes) -> list[bytes | None]:
    """Return the items of a list."""
    (count,) = int32.unpack_from(data, 1)
    at, items = 5, []
    for _ in range(count):
        item, at = _read_optional(data, at)
        items.append(item)
    return items


# -- buffers: suppress, stream-table join with grace -----------------------------------------------------------------

_NULL = int32.pack(-1)
_SAME_AS_PRIOR = int32.pack(-2)
#: the headers of a suppress buffer's changelog rows: version 3 of the format
SUPPRESS_HEADERS: Headers = (("v", b"\x03"),)


class BufferContext(NamedTuple):
    """The coordinates and headers of the record that wrote a buffer row (Kafka's ``ProcessorRecordContext``)."""

    timestamp: int
    offset: int
    topic: str
    partition: int
    headers: Headers = ()


class BufferRow(NamedTuple):
    """One buffered row: ``prior`` is what went downstream before it was buffered; ``old`` and ``new``, its change."""

    context: BufferContext
    prior: bytes | None
    old: bytes | None
    new: bytes | None


def _sized(data: bytes) -> bytes:
    return int32.pack(len(data)) + data


def _optional(data: bytes | None) -> bytes:
    return _NULL if data is None else int32.pack(len(data)) + data


def _read_optional(data: bytes, at: int) -> tuple[bytes | None, int]:
    (size,) = int32.unpack_from(data, at)
    at += 4
    return (None, at) if size == -1 else (data[at : at + size], at + size)


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = int32.unpack_from(data, at)
    return data[at + 4 : at + 4 + size].decode(), at + 4 + size


def pack_context(context: BufferContext) -> bytes:
    """Return a record context as bytes."""
    timestamp, offset, topic, partition, headers = context
    parts = [
        _time_offset.pack(timestamp, offset),
        _sized(topic.encode()),
        int32.pack(partition),
        int32.pack(len(headers)),
    ]
    for name, value in headers:
        parts += _sized(name.encode()), _optional(value)
    return b"".join(parts)


def _read_context(data: bytes) -> tuple[BufferContext, int]:
    timestamp, offset = _time_offset.unpack_from(data)
    topic, at = _read_text(data, 16)
    (partition,) = int32.unpack_from(data, at)
    (count,) = int32.unpack_from(data, at + 4)
    at += 8
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _read_text(data, at)
        value, at = _read_optional(data, at)
        headers.append((name, value))
    return BufferContext(timestamp, offset, topic, partition, tuple(headers)), at


def pack_buffer_row(row: BufferRow, time: int) -> bytes:
    """Return a row of a buffer's changelog: suppress gives the buffer time, a grace join 0."""
    context, prior, old, new = row
    same = old is not None and old == prior
    return (
        pack_context(context)
        + _optional(prior)
        + (_SAME_AS_PRIOR if same else _optional(old))
        + _optional(new)
        + pack_time(time)
    )


def parse_buffer_row(data: bytes) -> tuple[BufferRow, int]:
    """Return (row, buffer time)."""
    context, at = _read_context(data)
    prior, at = _read_optional(data, at)
    if data[at : at + 4] == _SAME_AS_PRIOR:
        old, at = prior, at + 4
    else:
        old, at = _read_optional(data, at)
    new, at = _read_optional(data, at)
    return BufferRow(context, prior, old, new), unpack_time(data, at)


def grace_key(key: bytes, timestamp: int, sequence: int) -> bytes:
    """Return the key of a row in the buffer of a stream-table join with grace; rows sort by time.

    >>> grace_key(b"k", 2, 1).hex()
    '0000000000000000026b00000001'
    """
    return b"\x00" + pack_time(timestamp) + key + int32.pack(sequence)


def parse_grace_key(row: bytes) -> tuple[bytes, int, int]:
    """Return (key, timestamp, sequence)."""
    return row[9:-4], unpack_time(row, 1), int32.unpack_from(row, len(row) - 4)[0]
