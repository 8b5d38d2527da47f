"""The two ends of a test: typed handles on input and output topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from penstock.durations import millis
from penstock.errors import DeserializationError
from penstock.record import Headers, Record, as_headers
from penstock.serde import Serde
from penstock.serde.registry.framing import HEADER, with_header, without_frame
from penstock.serde.registry.serde import header_parts
from penstock.strict import strict_options


class ProducedRecord(NamedTuple):
    """A record that was written to a topic, as bytes."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    partition: int


@strict_options
class InputTopic:
    """Pipes typed records into a topic. Without a timestamp a record gets the driver's wall-clock time."""

    def __init__(
        self, name: str, key: Serde[Any], value: Serde[Any], pipe: Callable[..., None], now: Callable[[], int]
    ) -> None:
        self.name = name
        self._key = key
        self._value = value
        self._pipe = pipe
        self._now = now

    def pipe(
        self,
        key: Any,
        value: Any,
        timestamp: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None] = (),
        partition: int = 0,
    ) -> None:
        """Send one record."""
        key_bytes = None if key is None else self._key.serialize(key)
        value_bytes = None if value is None else self._value.serialize(value)
        at = self._now() if timestamp is None else timestamp
        given = as_headers(headers)
        for part, indexed in header_parts(self._key, self._value).items():
            data = key_bytes if part == "key" else value_bytes
            if data is not None:
                frame, data = without_frame(data, indexed=indexed)
                key_bytes, value_bytes = (data, value_bytes) if part == "key" else (key_bytes, data)
                given = (*given, (HEADER[part], frame))
        self._pipe(self.name, partition, key_bytes, value_bytes, at, given)

    def pipe_all(
        self, pairs: Iterable[tuple[Any, Any]], start: int | None = None, step: timedelta | int = 0, partition: int = 0
    ) -> None:
        """Send (key, value) pairs, the first at ``start``, each ``step`` later than the one before."""
        at = self._now() if start is None else start
        for key, value in pairs:
            self.pipe(key, value, at, partition=partition)
            at += millis(step, "step")


@strict_options
class OutputTopic:
    """Reads typed records from a topic, in the order they were written.

    Each record is read once: handles of the same topic share one position, as in Kafka's driver.
    """

    def __init__(
        self,
        name: str,
        key: Serde[Any],
        value: Serde[Any],
        records: Callable[[str], list[ProducedRecord]],
        positions: dict[str, int],
    ) -> None:
        self.name = name
        self._key = key
        self._value = value
        self._records = records
        self._positions = positions

    def read(self) -> Record[Any, Any] | None:
        """Return the next record, or None if there is none yet."""
        records, position = self._records(self.name), self._positions.get(self.name, 0)
        if position >= len(records):
            return None
        produced = records[position]
        self._positions[self.name] = position + 1
        framed = header_parts(self._key, self._value)
        raw_key = with_header(produced.key, produced.headers, "key") if "key" in framed else produced.key
        raw_value = with_header(produced.value, produced.headers, "value") if "value" in framed else produced.value
        key, value = self._decoded("key", self._key, raw_key), self._decoded("value", self._value, raw_value)
        return Record(key, value, produced.timestamp, produced.headers)

    def _decoded(self, part: str, serde: Serde[Any], raw: bytes | None) -> Any:
        try:
            return None if raw is None else serde.deserialize(raw)
        except Exception as error:
            raise DeserializationError(
                f"output_topic({self.name!r}) reads the {part} with {serde!r}, which refused {raw!r}: {error}\n"
                f"  remedy:   give it the serde that the topic is written with: output_topic({self.name!r}, {part}=...)"
            ) from error

    def read_all(self) -> list[Record[Any, Any]]:
        """Return all records not read yet."""
        records = []
        while (record := self.read()) is not None:
            records.append(record)
        return records

    def read_values(self) -> list[Any]:
        """Return the values of all records not read yet."""
        return [record.value for record in self.read_all()]

    def read_table(self) -> dict[Any, Any]:
        """Return the records not read yet as a table: the last value of each key, without the deleted ones."""
        table: dict[Any, Any] = {}
        for record in self.read_all():
            table[record.key] = record.value
        return {key: value for key, value in table.items() if value is not None}

    def __len__(self) -> int:
        return len(self._records(self.name)) - self._positions.get(self.name, 0)

    def __bool__(self) -> bool:
        return True
