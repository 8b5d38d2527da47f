"""The serdes of single values, byte-equal to those of Kafka's clients.

string    UTF-8
bytes     as they are
int32     4 bytes, big endian, two's complement          int64     8 bytes, the same
float32   4 bytes, big endian, IEEE 754                  float64   8 bytes, the same
boolean   1 byte: 00 or 01
uuid      the 36 characters of its text
json      UTF-8 JSON without spaces (orjson); NaN and infinities are refused
void      nothing: always Kafka's null

Where C offers the function, the serde holds that very function. Measured on Python 3.11, per call: `Struct.pack` 63 ns;
`unpack(data)[0]` 119 ns, against 173 ns for `int.from_bytes` with a test of the length.
"""

from __future__ import annotations

import functools
import pickle as _pickle
import re
from collections.abc import Callable
from struct import Struct
from typing import Any, NoReturn, TypeVar, cast
from uuid import UUID

import orjson

from penstock.errors import DeserializationError, SerializationError
from penstock.serde.base import Serde
from penstock.serde.finite import finite

T = TypeVar("T")


def builtin(name: str) -> Serde[Any]:
    """Return the built-in serde of that name; this is what a built-in serde pickles to.

    >>> builtin("int32").serialize(258)
    b'\\x00\\x00\\x01\\x02'
    """
    return _BUILTIN[name]


_BUILTIN: dict[str, Serde[Any]] = {}


def _define(name: str, serialize: Callable[[T], bytes], deserialize: Callable[[bytes], T]) -> Serde[T]:
    serde = Serde(serialize, deserialize, name, _recipe=(builtin, (name,)))
    _BUILTIN[name] = serde
    return serde


class _Choice(dict[Any, Any]):
    """A table whose `[]` is the serde's function: C speed when the key is there, our error when it is not."""

    def __init__(self, entries: dict[Any, Any], error: type[Exception], what: str) -> None:
        super().__init__(entries)
        self._error, self._what = error, what

    def __missing__(self, key: object) -> NoReturn:
        raise self._error(f"{self._what}, not {key!r}")


_unpack_int32: Callable[[bytes], tuple[int]] = Struct(">i").unpack
_unpack_int64: Callable[[bytes], tuple[int]] = Struct(">q").unpack
_unpack_float32: Callable[[bytes], tuple[float]] = Struct(">f").unpack
_unpack_float64: Callable[[bytes], tuple[float]] = Struct(">d").unpack
_is_uuid = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch


def _int32_from(data: bytes) -> int:
    return _unpack_int32(data)[0]


def _int64_from(data: bytes) -> int:
    return _unpack_int64(data)[0]


def _float32_from(data: bytes) -> float:
    return _unpack_float32(data)[0]


def _float64_from(data: bytes) -> float:
    return _unpack_float64(data)[0]


def _uuid_bytes(value: UUID) -> bytes:
    return UUID.__str__(value).encode()


def _uuid_from(data: bytes) -> UUID:
    if not _is_uuid(data):
        raise DeserializationError(f"a uuid is text of 36 characters, 8-4-4-4-12 in hexadecimal, not {data!r}")
    return UUID(int=int(data.replace(b"-", b""), 16))


def _void_bytes(value: None) -> bytes:
    return cast(bytes, None)


def _void_from(data: bytes) -> None:
    raise DeserializationError(f"void takes nothing but null, and there are {len(data)} bytes")


string: Serde[str] = _define("string", str.encode, bytes.decode)
bytes_: Serde[bytes] = _define("bytes", bytes.__bytes__, bytes.__bytes__)
int32: Serde[int] = _define("int32", Struct(">i").pack, _int32_from)
int64: Serde[int] = _define("int64", Struct(">q").pack, _int64_from)
float32: Serde[float] = _define("float32", Struct(">f").pack, _float32_from)
float64: Serde[float] = _define("float64", Struct(">d").pack, _float64_from)
boolean: Serde[bool] = _define(
    "boolean",
    _Choice({True: b"\x01", False: b"\x00"}, SerializationError, "a boolean is True or False").__getitem__,
    _Choice({b"\x01": True, b"\x00": False}, DeserializationError, "a boolean is the byte 00 or 01").__getitem__,
)
uuid: Serde[UUID] = _define("uuid", _uuid_bytes, _uuid_from)
json: Serde[Any] = _define("json", finite(orjson.dumps), orjson.loads)
void: Serde[None] = _define("void", _void_bytes, _void_from)
pickle: Serde[Any] = _define("pickle", functools.partial(_pickle.dumps, protocol=5), _pickle.loads)
