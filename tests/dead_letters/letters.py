"""Letters as the library writes them."""

from __future__ import annotations

from typing import Any

from penstock.log.base import Log, LogRecord
from penstock.protocol.failure import error_headers
from penstock.record import Origin


def letter_row(
    topic: str,
    number: int,
    *,
    source: str = "orders",
    partition: int = 1,
    node: str = "parse",
    error: type[Exception] = ValueError,
    headers: Any = (("own", b"1"),),
    to: int = 0,
) -> Any:
    """A row of a dead-letter topic, of the record with this offset and this number as its key, value and time."""
    key, value = f"k{number}".encode(), b'{"n": %d}' % number
    origin = Origin(source, partition, number, number, key, value, headers)
    return topic, to, key, value, number, error_headers(headers, origin, node, error(f"bad {number}"))


def write(log: Log, rows: list[Any]) -> None:
    producer = log.producer(None)
    producer.begin()
    producer.produce(rows)
    producer.commit()


def records(log: Log, topic: str, *, settled: bool = True) -> list[LogRecord]:
    """The committed records of a topic. ``settled``: no transaction is left open, the end of the last one is waited for."""
    count = log.admin.partitions([topic])[topic]
    places = [(topic, number) for number in range(count)]
    ends = log.admin.end_offsets(places) if settled else log.admin.stable_offsets(places)
    return [record for place in places for record in log.reader().read(*place, 0, ends[place])]
