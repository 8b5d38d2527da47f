"""`Change(new, old)` on the repartition topic of a re-grouped table, as Kafka Streams 4.3 writes it.

    message  :=  old 00                           only the old value
              |  new 01                           only the new value
              |  length new old 02                both; length of new: zig-zag varint
              |  old latest 03
              |  new latest 04
              |  length new old latest 05         latest: one byte, 00 or 01

The kind stands at the end. Kafka writes 00 to 02 (and so do we: `is_latest` is not sent) and reads all six.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.errors import DeserializationError, SerializationError
from penstock.record import Change
from penstock.serde.base import Serde

V = TypeVar("V")


class ChangedSerde(Serde[Change[V]]):
    """The serde of a table's change: new value, old value, or both. It may not be neither.

    >>> from penstock.serde.primitives import string
    >>> serde = ChangedSerde(string)
    >>> serde.serialize(Change("new", "old", True))
    b'\\x06newold\\x02'
    >>> serde.deserialize(b'old\\x00').old
    'old'
    """

    __slots__ = ("inner",)

    inner: Serde[V]

    def __init__(self, inner: Serde[V]) -> None:
        super().__init__(
            _writer(inner.serialize),
            _reader(inner.deserialize),
            f"changed({inner!r})",
            _recipe=(ChangedSerde, (inner,)),
        )
        object.__setattr__(self, "inner", inner)


def _writer(serialize: Callable[[V], bytes]) -> Callable[[Change[V]], bytes]:
    def write(change: Change[V]) -> bytes:
        new, old = change.new, change.old
        if new is None:
            if old is None:
                raise SerializationError("a change needs a new value or an old one, and has neither")
            return serialize(old) + b"\x00"
        if old is None:
            return serialize(new) + b"\x01"
        data = serialize(new)
        return b"%b%b%b\x02" % (_varint(len(data)), data, serialize(old))

    return write


def _reader(deserialize: Callable[[bytes], V]) -> Callable[[bytes], Change[V]]:
    def read(data: bytes) -> Change[V]:
        kind, end, latest = data[-1], len(data) - 1, True
        if kind > 5:
            raise DeserializationError(f"a change ends with a byte from 00 to 05, not {kind:02x}")
        if kind > 2:
            end -= 1
            latest = _flag(data, end)
            kind -= 3
        if kind == 0:
            return Change(None, deserialize(data[:end]), latest)
        if kind == 1:
            return Change(deserialize(data[:end]), None, latest)
        length, start = _read_varint(data)
        middle = start + length
        if not start <= middle <= end:
            raise DeserializationError(f"a new value of {length} bytes does not fit a change of {len(data)} bytes")
        return Change(deserialize(data[start:middle]), deserialize(data[middle:end]), latest)

    return read


def _flag(data: bytes, at: int) -> bool:
    if at < 0 or data[at] > 1:
        raise DeserializationError("the byte that says whether a change is the latest must be 00 or 01")
    return data[at] == 1


def _varint(number: int) -> bytes:
    """Zig-zag varint of a number that is not negative: 7 bits a byte, lowest first.

    >>> _varint(3), _varint(64)
    (b'\\x06', b'\\x80\\x01')
    """
    rest = number << 1
    if rest < 0x80:
        return rest.to_bytes(1, "big")
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _read_varint(data: bytes) -> tuple[int, int]:
    """Read the zig-zag varint at the start: the number, and where the next byte stands.

    >>> _read_varint(b"\\x80\\x01...")
    (64, 2)
    """
    value = data[0]
    if value < 0x80:
        return (value >> 1) ^ -(value & 1), 1
    value = 0
    for at, byte in enumerate(data[:5]):
        value |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
    raise DeserializationError("the length of the new value does not end within 5 bytes")
