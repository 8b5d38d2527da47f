"""The protocol's types: numbers are big-endian; strings, bytes and lists have their length before them, in newer requests as varints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import TypeAlias, TypeVar

T = TypeVar("T")
#: (topic, partition)
TopicPartition: TypeAlias = tuple[str, int]

_INT8, _INT16, _INT32, _INT64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")


class Encoder:
    """Collects what is sent.

    >>> Encoder().int16(3).string("ab").nullable(None).done().hex()
    '000300026162ffff'
    """

    def __init__(self) -> None:
        self._data = bytearray()

    def int8(self, number: int) -> Encoder:
        """Add a number of one byte."""
        self._data += _INT8.pack(number)
        return self

    def int16(self, number: int) -> Encoder:
        """Add a number of two bytes."""
        self._data += _INT16.pack(number)
        return self

    def int32(self, number: int) -> Encoder:
        """Add a number of four bytes."""
        self._data += _INT32.pack(number)
        return self

    def int64(self, number: int) -> Encoder:
        """Add a number of eight bytes."""
        self._data += _INT64.pack(number)
        return self

    def string(self, text: str) -> Encoder:
        """Add a string."""
        encoded = text.encode()
        return self.int16(len(encoded)).raw(encoded)

    def nullable(self, text: str | None) -> Encoder:
        """Add a nullable string."""
        return self.int16(-1) if text is None else self.string(text)

    def blob(self, data: bytes) -> Encoder:
        """Add bytes."""
        return self.int32(len(data)).raw(data)

    def array(self, items: Iterable[T], add: Callable[[Encoder, T], object]) -> Encoder:
        """Add a list, each item in its own way."""
        kept = [*items]
        self.int32(len(kept))
        for item in kept:
            add(self, item)
        return self

    def compact(self, text: str | None) -> Encoder:
        """Add a nullable compact string, as flexible request versions have it."""
        if text is None:
            return self.varint(0)
        encoded = text.encode()
        return self.varint(len(encoded) + 1).raw(encoded)

    def varint(self, number: int) -> Encoder:
        """Add a number that is not negative, seven bits at a time."""
        while number > 127:
            self._data.append(number & 127 | 128)
            number >>= 7
        self._data.append(number)
        return self

    def raw(self, data: bytes) -> Encoder:
        """Add bytes without a length."""
        self._data += data
        return self

    def done(self) -> bytes:
        """Return the bytes of the request."""
        return bytes(self._data)


class Decoder:
    """Takes an answer apart, from front to back. One that is too short raises ``ValueError``.

    >>> answer = Decoder(bytes.fromhex("000300026162ffff"))
    >>> answer.int16(), answer.string(), answer.nullable()
    (3, 'ab', None)
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def raw(self, size: int) -> bytes:
        """Take bytes."""
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise ValueError("an answer of the broker is shorter than it says")
        found, self._at = self._data[self._at : end], end
        return found

    def int8(self) -> int:
        """Take a number of one byte."""
        return int.from_bytes(self.raw(1), "big", signed=True)

    def int16(self) -> int:
        """Take a number of two bytes."""
        return int.from_bytes(self.raw(2), "big", signed=True)

    def int32(self) -> int:
        """Take a number of four bytes."""
        return int.from_bytes(self.raw(4), "big", signed=True)

    def int64(self) -> int:
        """Take a number of eight bytes."""
        return int.from_bytes(self.raw(8), "big", signed=True)

    def string(self) -> str:
        """Take a string."""
        return self.raw(self.int16()).decode()

    def nullable(self) -> str | None:
        """Take a nullable string."""
        size = self.int16()
        return None if size < 0 else self.raw(size).decode()

    def blob(self) -> bytes:
        """Take bytes."""
        return self.raw(self.int32())

    def array(self, take: Callable[[Decoder], T]) -> list[T]:
        """Take a list, each item in the same way."""
        return [take(self) for _ in range(self.int32())]

    def varint(self) -> int:
        """Take a number that is not negative."""
        number = shift = 0
        while True:
            byte = self.raw(1)[0]
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7

    def tags(self) -> None:
        """Skip the tagged fields."""
        for _ in range(self.varint()):
            self.varint()
            self.raw(self.varint())
