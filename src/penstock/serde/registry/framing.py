"""By what the bytes of a value say which schema they were written with: Confluent's wire format.

In front of the value::

    message := 00 id[4] indexes? body         the schema's id, big-endian
    message := 01 guid[16] indexes? body      the schema's GUID
    indexes := count place*                   Protobuf: which message of the schema's file, as zigzag varints; 00 stands for [0]

In a header the same without the body, and the value is the body alone. Penstock writes GUIDs to headers only where a record leaves for
Kafka; on its way between steps and in stores they are in front of the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from uuid import UUID

from penstock.errors import DeserializationError
from penstock.record import Headers

ID, GUID = 0, 1
ID_SIZE, GUID_SIZE = 5, 17
#: the header of the id of a record's key and value
HEADER = {"key": "__key_schema_id", "value": "__value_schema_id"}

_ID = Struct(">bI")


def id_frame(number: int) -> bytes:
    """Return what stands in front of a value whose schema has this id.

    >>> id_frame(7)
    b'\\x00\\x00\\x00\\x00\\x07'
    """
    return _ID.pack(ID, number)


def guid_frame(guid: str) -> bytes:
    """Return what stands in front of a value whose schema has this GUID.

    >>> guid_frame("6c3ff7a5-3ef0-4f12-a7b8-b4c7a2d7b4a1").hex()
    '016c3ff7a53ef04f12a7b8b4c7a2d7b4a1'
    """
    return bytes([GUID]) + UUID(guid).bytes


def schema_named(data: bytes) -> tuple[int | str, int]:
    """Return the id or GUID that bytes begin with, and where the rest begins.

    >>> schema_named(b"\\x00\\x00\\x00\\x00\\x07body")
    (7, 5)
    >>> schema_named(b'{"id": 7}')
    Traceback (most recent call last):
    penstock.errors.DeserializationError: the bytes do not begin with the id of a schema (00, 4 bytes), but with '7b 22 69 64 22': ...
    """
    if len(data) >= ID_SIZE and data[0] == ID:
        return _ID.unpack_from(data)[1], ID_SIZE
    if len(data) >= GUID_SIZE and data[0] == GUID:
        return str(UUID(bytes=data[1:GUID_SIZE])), GUID_SIZE
    raise DeserializationError(
        f"the bytes do not begin with the id of a schema (00, 4 bytes), but with {data[:5].hex(' ')!r}: they were not written with a "
        "registry. For such a topic leave registry= out; if ids are in headers: SchemaRegistry(id_in='header')"
    )


def indexes_bytes(places: Sequence[int]) -> bytes:
    """Return the place of a message in its file, as bytes.

    >>> indexes_bytes([0]), indexes_bytes([1, 0])
    (b'\\x00', b'\\x04\\x02\\x00')
    """
    if list(places) == [0]:
        return b"\0"
    return b"".join(_varint(number << 1) for number in (len(places), *places))


def read_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the place of a message in its file, and where the rest begins.

    >>> read_indexes(b"\\x00body", 0), read_indexes(b"\\x04\\x02\\x00body", 0)
    (((0,), 1), ((1, 0), 3))
    """
    count, at = _read_varint(data, at)
    if count == 0:
        return (0,), at
    places = []
    for _ in range(count >> 1):
        place, at = _read_varint(data, at)
        places.append(place >> 1)
    return tuple(places), at


def with_header(data: bytes | None, headers: Headers | None, part: str) -> bytes | None:
    """Return the bytes of a record with what its header says in front of them; as they are without such a header.

    >>> with_header(b"body", (("__value_schema_id", b"\\x01" + bytes(16)),), "value")[17:]
    b'body'
    """
    if data is None or not headers:
        return data
    name = HEADER[part]
    return next((frame + data for header, frame in headers if header == name and frame is not None), data)


def without_frame(data: bytes, *, indexed: bool) -> tuple[bytes, bytes]:
    """Return what stands in front of a value, and the value. ``indexed``: the place of a message is part of it (Protobuf).

    >>> without_frame(b"\\x00\\x00\\x00\\x00\\x07\\x00body", indexed=True)
    (b'\\x00\\x00\\x00\\x00\\x07\\x00', b'body')
    """
    at = schema_named(data)[1]
    if indexed:
        at = read_indexes(data, at)[1]
    return data[:at], data[at:]


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 28:
            raise DeserializationError(
                "the bytes end, or have no number, where the place of the message in its schema should be"
            )
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
