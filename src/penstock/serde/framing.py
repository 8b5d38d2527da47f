"""What stands in front of the bytes of a value, and says which schema they were written with.

Avro's single-object encoding (its specification, "Single-object encoding")::

    message := C3 01 fingerprint body
    fingerprint := CRC-64-AVRO of the schema's parsing canonical form, 8 bytes, little-endian
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import DeserializationError

MARK = b"\xc3\x01"
#: bytes in front of the body
FRAME_SIZE = 10


def frame_of(fingerprint: str) -> bytes:
    """Return the frame of a schema whose fingerprint is given as hexadecimal digits, as fastavro gives it.

    >>> frame_of("8f5c393f1ad57572").hex()
    'c3018f5c393f1ad57572'
    """
    return MARK + bytes.fromhex(fingerprint)


def schema_in(data: bytes, known: Mapping[bytes, Any]) -> Any:
    """Return the schema that the frame of a value names.

    >>> schema_in(bytes.fromhex("c3018f5c393f1ad57572") + b"body", {bytes.fromhex("c3018f5c393f1ad57572"): "int"})
    'int'
    >>> schema_in(b"plain", {})
    Traceback (most recent call last):
    penstock.errors.DeserializationError: the bytes do not begin with the frame of Avro's single-object encoding ...
    """
    found = known.get(data[:FRAME_SIZE])
    if found is not None:
        return found
    if not data.startswith(MARK) or len(data) < FRAME_SIZE:
        raise DeserializationError(
            f"the bytes do not begin with the frame of Avro's single-object encoding (C3 01, 8 bytes), but with {data[:2].hex(' ')!r}: "
            "for bare Avro leave single_object=True out"
        )
    raise DeserializationError(
        f"no schema with the fingerprint {data[2:FRAME_SIZE].hex()} is known: name the one that the record was written with in older=[...]"
    )
