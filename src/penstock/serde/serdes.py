"""`Serdes`: the built-in serdes under one name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from penstock.serde import primitives, typed_json
from penstock.serde.base import Serde
from penstock.serde.windowed import SessionWindowedSerde, WindowedSerde
from penstock.serde.with_schemas import avro, json_schema, protobuf


class Serdes:
    """The built-in serdes; their bytes equal those of Kafka's own serializers.

    >>> Serdes.int64.serialize(1)
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01'
    >>> Serdes.json.deserialize(b'{"n": [1, 2]}')
    {'n': [1, 2]}
    >>> Serdes.int32.deserialize(b'12345')
    Traceback (most recent call last):
    struct.error: unpack requires a buffer of 4 bytes

    `string` raises on text that is not UTF-8, where Java puts a replacement character. `void` writes Kafka's null
    whatever it is given. `pickle` runs code that the bytes name: read only topics whose writers you trust.
    """

    string: Final[Serde[str]] = primitives.string
    bytes: Final = primitives.bytes_
    int32: Final[Serde[int]] = primitives.int32
    int64: Final[Serde[int]] = primitives.int64
    float32: Final[Serde[float]] = primitives.float32
    float64: Final[Serde[float]] = primitives.float64
    boolean: Final[Serde[bool]] = primitives.boolean
    uuid: Final[Serde[UUID]] = primitives.uuid
    json: Final[Serde[Any]] = primitives.json
    void: Final[Serde[None]] = primitives.void
    pickle: Final[Serde[Any]] = primitives.pickle

    json_of = staticmethod(typed_json.json_of)
    avro = staticmethod(avro)
    protobuf = staticmethod(protobuf)
    json_schema = staticmethod(json_schema)

    @staticmethod
    def windowed(inner: Serde[Any], size: int | timedelta | None) -> WindowedSerde:
        """Return the serde of the keys of time windows of that size (milliseconds or `timedelta`).

        >>> Serdes.windowed(Serdes.string, timedelta(seconds=1)).size
        1000
        """
        return WindowedSerde(inner, size)

    @staticmethod
    def session_windowed(inner: Serde[Any]) -> SessionWindowedSerde:
        """Return the serde of the keys of session windows.

        >>> Serdes.session_windowed(Serdes.string).inner
        Serdes.string
        """
        return SessionWindowedSerde(inner)
