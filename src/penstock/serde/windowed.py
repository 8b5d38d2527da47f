"""Windowed keys as Kafka writes them to topics.

time      key bytes | start: int64               the end is not written: it is start + size
session   key bytes | end: int64 | start: int64

All numbers are big endian, in milliseconds. (The form inside a window store's changelog is another one: see `state`.)
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from struct import Struct
from typing import Any, cast

from penstock.durations import millis
from penstock.errors import DeserializationError, SerializationError
from penstock.record import Windowed
from penstock.serde.base import Serde

LONG_MAX = 2**63 - 1
_INT64 = Struct(">q")
_TWO_INT64 = Struct(">qq")

#: `_new(Windowed, fields)` is `Windowed(*fields)` without its Python-level constructor: 170 ns against 580.
_new = tuple.__new__


class WindowedSerde(Serde[Windowed]):
    """The serde of the keys of time windows; `size` is that of the window, by which the end is found when reading.

    Without a size (`None` or 0) every window that is read ends at the largest timestamp there is, 2**63 - 1.

    >>> from penstock.serde.primitives import string
    >>> serde = WindowedSerde(string, 1000)
    >>> serde.serialize(Windowed("k", 256, 1256))
    b'k\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x00'
    >>> serde.deserialize(b'k\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x00').end
    1256
    """

    __slots__ = ("inner", "size")

    inner: Serde[Any]
    size: int | None

    def __init__(self, inner: Serde[Any], size: int | timedelta | None) -> None:
        size_ms = None if size is None else millis(size, "the size of a window", least=0)
        super().__init__(
            _time_writer(inner.serialize),
            _time_reader(inner.deserialize, size_ms or LONG_MAX),
            f"windowed({inner!r}, {size_ms})",
            _recipe=(WindowedSerde, (inner, size_ms)),
        )
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "size", size_ms)


class SessionWindowedSerde(Serde[Windowed]):
    """The serde of the keys of session windows; both ends are in the bytes.

    >>> from penstock.serde.primitives import string
    >>> serde = SessionWindowedSerde(string)
    >>> serde.serialize(Windowed("k", 1, 2)).hex()
    '6b00000000000000020000000000000001'
    >>> serde.deserialize(bytes.fromhex("6b00000000000000020000000000000001")).start
    1
    """

    __slots__ = ("inner",)

    inner: Serde[Any]

    def __init__(self, inner: Serde[Any]) -> None:
        super().__init__(
            _session_writer(inner.serialize),
            _session_reader(inner.deserialize),
            f"session_windowed({inner!r})",
            _recipe=(SessionWindowedSerde, (inner,)),
        )
        object.__setattr__(self, "inner", inner)


def _no_key(windowed: Windowed) -> SerializationError:
    return SerializationError(f"a windowed key needs a key: {windowed!r}")


def _time_writer(serialize: Callable[[Any], bytes]) -> Callable[[Windowed], bytes]:
    pack = _INT64.pack

    def write(windowed: Windowed) -> bytes:
        key = windowed[0]
        if key is None:
            raise _no_key(windowed)
        return serialize(key) + pack(windowed[1])

    return write


def _time_reader(deserialize: Callable[[bytes], Any], size: int) -> Callable[[bytes], Windowed]:
    unpack, new = _INT64.unpack_from, _new

    def read(data: bytes) -> Windowed:
        if not data:  # as Kafka: nothing at all is the null key
            return cast(Windowed, None)
        (start,) = unpack(data, len(data) - 8)
        if not 0 <= start < LONG_MAX:
            raise DeserializationError(f"a window starts at 0 or later and has an end, and this one starts at {start}")
        end = start + size
        return new(Windowed, (deserialize(data[:-8]), start, end if end <= LONG_MAX else LONG_MAX))

    return read


def _session_writer(serialize: Callable[[Any], bytes]) -> Callable[[Windowed], bytes]:
    pack = _TWO_INT64.pack

    def write(windowed: Windowed) -> bytes:
        key, start, end = windowed
        if key is None:
            raise _no_key(windowed)
        return serialize(key) + pack(end, start)

    return write


def _session_reader(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Windowed]:
    unpack, new = _TWO_INT64.unpack_from, _new

    def read(data: bytes) -> Windowed:
        if not data:  # as Kafka: nothing at all is the null key
            return cast(Windowed, None)
        end, start = unpack(data, len(data) - 16)
        if not 0 <= start <= end:
            raise DeserializationError(f"a session runs from 0 or later to its end, not from {start} to {end}")
        return new(Windowed, (deserialize(data[:-16]), start, end))

    return read
