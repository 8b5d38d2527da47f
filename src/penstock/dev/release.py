"""Ask a broker which Kafka it is.

Kafka has no request for its version. But it tells which levels of its features it knows, and the level of
``metadata.version`` grows with every release (since 3.3, where brokers without ZooKeeper begin).

    answer  = correlation (int), error (short), api*, throttle (int), tag*
    api     = key, least version, greatest version (short each), tag*
    tag 0   = feature*      what the broker knows
    feature = name, least level, greatest level (short each), tag*

Arrays and texts have their length + 1 before them, as a varint; so has a tag its number and its size (without the + 1).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator

from penstock.dev import server

#: the first level of each release
LEVELS = (
    (7, "3.3"),
    (8, "3.4"),
    (9, "3.5"),
    (12, "3.6"),
    (15, "3.7"),
    (20, "3.8"),
    (21, "3.9"),
    (22, "4.0"),
    (26, "4.1"),
    (28, "4.2"),
    (30, "4.3"),
)
_SUPPORTED_FEATURES = 0

#: ApiVersions request, version 3, correlation id 1, as client "penstock"; then software name and version, no tags
_ASK_VERSIONS = struct.pack(">hhih8s", 18, 3, 1, 8, b"penstock") + b"\0" + b"\x09penstock" + b"\x020" + b"\0"


def kafka_release(host: str, port: int, timeout: float = 3) -> str | None:
    """Return the release of a broker, as "4.3"; None if it does not tell, or not over a plain connection."""
    try:
        return release_of(server.ask(host, port, _ASK_VERSIONS, timeout))
    except (OSError, struct.error, IndexError):
        return None


def release_of(answer: bytes) -> str | None:
    """Read the release from an answer.

    >>> feature = b"\\x11metadata.version" + struct.pack(">hh", 1, 27) + b"\\0"
    >>> release_of(struct.pack(">ih", 1, 0) + b"\\1" + bytes(4) + bytes([1, 0, len(feature) + 1, 2]) + feature)
    '4.1'
    """
    read = _Reading(answer)
    _, error = read.numbers(">ih")
    if error:
        return None
    for _ in read.array():
        read.numbers(">hhh")
        read.skip_tags()
    read.numbers(">i")
    levels = {name: level for tag, body in read.tags() if tag == _SUPPORTED_FEATURES for name, level in _features(body)}
    number = bisect_right(LEVELS, (levels.get("metadata.version", 0), "~"))
    return LEVELS[number - 1][1] if number else None


def _features(body: bytes) -> Iterator[tuple[str, int]]:
    read = _Reading(body)
    for _ in read.array():
        name = read.take(read.varint() - 1).decode()
        _, greatest = read.numbers(">hh")
        read.skip_tags()
        yield name, greatest


class _Reading:
    """Where we are in an answer."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        self._at += size
        return part

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def array(self) -> range:
        return range(self.varint() - 1)

    def tags(self) -> Iterator[tuple[int, bytes]]:
        for _ in range(self.varint()):
            tag = self.varint()
            yield tag, self.take(self.varint())

    def skip_tags(self) -> None:
        for _ in self.tags():
            pass
