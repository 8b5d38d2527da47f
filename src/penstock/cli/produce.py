"""``penstock produce``: lines become records."""

from __future__ import annotations

import io
import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.bars import counting
from penstock.cli.kafka import (
    BadInput,
    BadOption,
    BootstrapOption,
    ClientOption,
    RegistryOption,
    SerdeName,
    connected,
    encoded,
    pairs,
    use_registry,
)
from penstock.cli.output import JsonOption, print_json
from penstock.clock import SystemClock

if TYPE_CHECKING:
    from penstock.log.base import Producer, Row

#: records that are handed over at a time, and bytes that are read at a time
BATCH, CHUNK = 5_000, 1 << 16


#: forms of which a line has JSON
_PARSED = (SerdeName.json, SerdeName.registry)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a line becomes a record."""

    topic: str
    key: SerdeName
    value: SerdeName
    records: bool
    separator: str | None
    key_from: str | None
    partition: int | None
    timestamp: int | None
    headers: tuple[tuple[str, bytes | None], ...]


def produce(
    topic: Annotated[str, typer.Argument(help="Topic to write to.", show_default=False)],
    file: Annotated[Path | None, typer.Option("--file", "-f", help="File to read; without it: standard input.")] = None,
    key: Annotated[SerdeName, typer.Option(help="Form of the keys.")] = SerdeName.string,
    value: Annotated[SerdeName, typer.Option(help="Form of the values.")] = SerdeName.string,
    separator: Annotated[str | None, typer.Option(help="A line is a key, this text, and a value.")] = None,
    key_from: Annotated[str | None, typer.Option(help="Take the key from this field of values that are JSON.")] = None,
    records: Annotated[
        bool, typer.Option("--records", help="A line is a record as `consume --json` prints it.")
    ] = False,
    partition: Annotated[int | None, typer.Option(help="Partition to write to; without it: by the key.", min=0)] = None,
    timestamp: Annotated[int | None, typer.Option(help="Timestamp in milliseconds; without it: now.", min=1)] = None,
    header: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header of every record.")] = None,
    bootstrap: BootstrapOption = None,
    client: ClientOption = None,
    registry: RegistryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write lines to a topic: each is a value, a key and a value (--separator), or a whole record in JSON (--records)."""
    use_registry(registry)
    headers = tuple((name, text.encode()) for name, text in pairs(header or (), "--header").items())
    shape = Shape(topic, key, value, records, separator, key_from, partition, timestamp, headers)
    if separator is not None and (records or key_from is not None):
        raise BadOption("--separator does not go with --records or --key-from: a line has one key")
    if separator == "":
        raise BadOption("--separator must not be empty")
    with connected(bootstrap, client, timeout=30) as log, opened(file) as (lines, more, told):
        log.admin.partitions([topic])
        producer = log.producer(None)
        producer.begin()
        try:
            written = write(producer, rows_of(lines, shape), more, told)
        finally:  # what was read before a bad line or Ctrl-C is written
            producer.commit()
    if as_json:
        print_json({"topic": topic, "records": written})
    else:
        print(f"{written:,} record(s) written to {topic}.")


def write(producer: Producer, rows: Iterator[Row], more: Callable[[], bool], told: Callable[[], None]) -> int:
    """Hand over rows as they come, those together that are there; return how many there were. Ctrl-C is an end like any other.

    ``more``: whether another line is there.
    """
    written = 0
    batch: list[Row] = []

    def hand_over() -> None:
        nonlocal written, batch
        some, batch = batch, []
        if some:
            producer.produce(some)
        written += len(some)
        told()

    try:
        for row in rows:
            batch.append(row)
            if len(batch) >= BATCH or not more():
                hand_over()
    except KeyboardInterrupt:
        pass
    finally:  # what was read before a bad line is written, too
        hand_over()
    return written


class Arriving:
    """Lines of standard input; knows whether another one has come. Text without a line break at the end is the last line.

    >>> lines = Arriving(io.BytesIO(b"a\\nb\\nc"))
    >>> [(line, lines.has_more()) for line in lines]
    [('a', True), ('b', False), ('c', False)]
    """

    def __init__(self, data: Any) -> None:
        self._data = data
        self._lines: deque[bytes] = deque()

    def __iter__(self) -> Iterator[str]:
        rest = b""
        while came := self._data.read1(CHUNK):
            *lines, rest = (rest + came).split(b"\n")
            self._lines.extend(lines)
            while self._lines:
                yield self._lines.popleft().decode()
        if rest:
            yield rest.decode()

    def has_more(self) -> bool:
        """Whether another line is there."""
        return bool(self._lines)


@contextmanager
def opened(file: Path | None) -> Iterator[tuple[Iterable[str], Callable[[], bool], Callable[[], None]]]:
    """Open the input; gives functions, too, that tell if more of it is there, and show how much of a file is read."""
    if file is None:
        lines = Arriving(sys.stdin.buffer)
        yield lines, lines.has_more, lambda: None
        return
    if not file.is_file():
        raise BadOption(f"there is no file {str(file)!r}")
    with (
        file.open("rb") as data,
        io.TextIOWrapper(data, encoding="utf-8") as text,
        counting(file.name, file.stat().st_size) as told,
    ):
        yield text, lambda: True, lambda: told(data.tell())


def rows_of(lines: Iterable[str], shape: Shape) -> Iterator[Row]:
    """Make a row of every line that is not empty."""
    now = SystemClock().now_ms
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if not text:
            continue
        where = f"line {number}"
        yield _record_row(text, shape, where, now) if shape.records else _value_row(text, shape, where, now)


def _value_row(text: str, shape: Shape, where: str, now: Callable[[], int]) -> Row:
    key: Any = None
    if shape.separator is not None:
        key, found, text = text.partition(shape.separator)
        if not found:
            raise BadInput(f"{where} has no {shape.separator!r}: {text or key!r}")
    plain = shape.value in _PARSED
    value = _parsed(text, where) if plain or shape.key_from is not None else text
    if shape.key_from is not None:
        if not isinstance(value, dict) or shape.key_from not in value:
            raise BadInput(f"{where} is not a JSON object with the field {shape.key_from!r}")
        key = value[shape.key_from]
    return (
        shape.topic,
        shape.partition,
        encoded(
            _parsed(key, where) if shape.key in _PARSED and shape.separator else key,
            shape.key,
            where,
            (shape.topic, "key"),
        ),
        encoded(value if plain else text, shape.value, where, (shape.topic, "value")),
        shape.timestamp or now(),
        shape.headers,
    )


def _record_row(text: str, shape: Shape, where: str, now: Callable[[], int]) -> Row:
    record = _parsed(text, where)
    if not isinstance(record, dict) or "value" not in record:
        raise BadInput(
            f"{where} is not a record: write a JSON object with value, and key, timestamp, headers if wanted"
        )
    headers = tuple((name, None if said is None else said.encode()) for name, said in record.get("headers") or ())
    return (
        shape.topic,
        shape.partition,
        encoded(record.get("key"), shape.key, where, (shape.topic, "key")),
        encoded(record["value"], shape.value, where, (shape.topic, "value")),
        shape.timestamp or record.get("timestamp") or now(),
        headers + shape.headers,
    )


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadInput(f"{where} is not JSON ({error}): {text[:80]!r}") from None
