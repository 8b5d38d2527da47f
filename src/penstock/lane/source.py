"""A source: bytes to values, the timestamp, and the errors of both with all that a reader needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from penstock.clock import Clock
from penstock.errors import DeserializationError, TimestampError, describe_function
from penstock.extractors import wall_clock
from penstock.record import Headers, Origin, raw_name, undecodable_name
from penstock.serde import Serde
from penstock.serde.registry.framing import with_header
from penstock.serde.registry.serde import header_parts
from penstock.topology.functions import wants_partition_time
from penstock.topology.node import SourceNode


class SourceRecord:
    """What a timestamp extractor sees: the decoded record with its coordinates."""

    __slots__ = ("headers", "key", "offset", "partition", "timestamp", "topic", "value")

    def __init__(self, key: Any, value: Any, timestamp: int, headers: Headers, origin: Origin) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers
        self.topic: str | None = origin.topic
        self.partition: int = origin.partition
        self.offset: int = origin.offset

    def __repr__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


class Raw(NamedTuple):
    """A record as bytes, waiting at a source. ``origin`` is set for re-keyed rows, which keep that of their source record."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    origin: Origin | None = None

    def coordinates(self) -> Origin:
        """Return where the record came from, for messages."""
        return self.origin or Origin(
            self.topic, self.partition, self.offset, self.timestamp, self.key, self.value, self.headers, self.partition
        )


class SourceReader:
    """A source node, open: turns a raw record into (key, value, timestamp)."""

    def __init__(self, source: SourceNode, clock: Clock) -> None:
        self.source = source
        self._timestamp = _timestamp_reader(source, clock)
        #: which of key and value have the ids of their schemas in headers
        self.framed = frames_of(source)

    def read(self, raw: Raw, partition_time: int) -> tuple[Any, Any, int]:
        """Decode a record; a negative timestamp means drop it."""
        key, value = self.decode(raw)
        return key, value, self._timestamp(key, value, raw, partition_time)

    def watermark(self, key: Any, value: Any, timestamp: int, raw: Raw) -> int | None:
        """Return the watermark of a record, for sources that have a strategy."""
        strategy = self.source.watermark
        assert strategy is not None
        try:
            return strategy.of(key, value, timestamp)
        except Exception as error:
            raise TimestampError(
                f"the watermark strategy failed: {type(error).__name__}: {error}",
                node=self.source.name,
                origin=raw.coordinates(),
                function=describe_function(strategy.function),
            ) from error

    def decode(self, raw: Raw) -> tuple[Any, Any]:
        """Return key and value; raise ``DeserializationError`` with all that a reader needs."""
        name = undecodable_name(raw.headers) if raw.headers else None
        if name is not None:
            raise DeserializationError(
                f"the name of a header is not UTF-8: {raw_name(name)!r}\n"
                "  remedy:   set on_deserialization_error to skip or dead_letter, or have the record written anew",
                node=self.source.name,
                origin=raw.coordinates(),
            )
        key, value = raw.key, raw.value
        if self.framed:
            key = with_header(key, raw.headers, "key") if "key" in self.framed else key
            value = with_header(value, raw.headers, "value") if "value" in self.framed else value
        read_key = self._decode("key", self.source.key, key, raw)
        return read_key, self._decode("value", self.source.value, value, raw)

    def _decode(self, part: str, serde: Serde[Any], data: bytes | None, raw: Raw) -> Any:
        if data is None:
            return None
        try:
            return serde.deserialize(data)
        except Exception as error:
            raise DeserializationError(
                f"{serde!r} refused the {part} of a record: {type(error).__name__}: {error}\n"
                "  remedy:   give the source the serdes of its data, or set on_deserialization_error to skip or dead_letter",
                node=self.source.name,
                origin=raw.coordinates(),
            ) from error


def frames_of(source: SourceNode) -> tuple[str, ...]:
    """Return which of key and value have the ids of their schemas in headers."""
    return () if source.internal else tuple(header_parts(source.key, source.value))


def _timestamp_reader(source: SourceNode, clock: Clock) -> Callable[[Any, Any, Raw, int], int]:
    extractor = source.timestamp
    if extractor is wall_clock:
        return lambda key, value, raw, partition_time: clock.now_ms()
    if extractor is None:
        return lambda key, value, raw, partition_time: _own_timestamp(source, raw)
    with_time = wants_partition_time(extractor)

    def extract(key: Any, value: Any, raw: Raw, partition_time: int) -> int:
        record = SourceRecord(key, value, raw.timestamp, raw.headers, raw.coordinates())
        try:
            return int(extractor(record, partition_time) if with_time else extractor(record))
        except Exception as error:
            raise TimestampError(
                f"the timestamp extractor failed: {type(error).__name__}: {error}",
                node=source.name,
                origin=raw.coordinates(),
                function=describe_function(extractor),
            ) from error

    return extract


def _own_timestamp(source: SourceNode, raw: Raw) -> int:
    if raw.timestamp < 0:
        raise TimestampError(
            f"the record has the invalid timestamp {raw.timestamp}\n"
            "  remedy:   give the source timestamp=TimestampExtractor.skip_on_invalid or .partition_time_on_invalid",
            node=source.name,
            origin=raw.coordinates(),
        )
    return raw.timestamp
