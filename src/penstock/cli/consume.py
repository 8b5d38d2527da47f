"""``penstock consume``: records become lines."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.kafka import (
    BadOption,
    BootstrapOption,
    ClientOption,
    RegistryOption,
    SerdeName,
    connected,
    decoded,
    use_registry,
)
from penstock.clock import SystemClock
from penstock.record import raw_name

if TYPE_CHECKING:
    from penstock.log.base import Admin, LogRecord, Offsets


def consume(
    topic: Annotated[str, typer.Argument(help="Topic to read.", show_default=False)],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Begin with the first record, not the next.")
    ] = False,
    most: Annotated[int | None, typer.Option("--max", "-n", help="Stop after so many records.", min=1)] = None,
    committed: Annotated[
        bool, typer.Option("--committed/--uncommitted", help="Only what is committed, or everything.")
    ] = True,
    timeout: Annotated[float | None, typer.Option(help="Stop when nothing came for so many seconds.", min=0.1)] = None,
    until_end: Annotated[bool, typer.Option("--until-end", help="Stop at what is the end now.")] = False,
    partition: Annotated[int | None, typer.Option(help="Only this partition.", min=0)] = None,
    key: Annotated[SerdeName, typer.Option(help="Form of the keys.")] = SerdeName.string,
    value: Annotated[SerdeName, typer.Option(help="Form of the values.")] = SerdeName.string,
    bootstrap: BootstrapOption = None,
    client: ClientOption = None,
    registry: RegistryOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each record.")] = False,
) -> None:
    """Print the records of a topic as they come: key, a tab, value; or everything about them, in JSON. Ctrl-C ends it."""
    use_registry(registry)
    show = json_line if as_json else text_line
    with connected(bootstrap, client, timeout=30) as log:
        starts, ends = bounds(log.admin, topic, partition, from_beginning, committed)
        reader = log.reader(committed=committed)
        if until_end:
            records: Iterator[LogRecord] = itertools.chain.from_iterable(
                reader.read(*place, start, ends[place]) for place, start in starts.items()
            )
        else:
            records = until_quiet(reader.follow(starts), timeout)
        try:
            for record in itertools.islice(records, most):
                typer.echo(show(record, key, value))
        except KeyboardInterrupt:
            return


def bounds(
    admin: Admin, topic: str, partition: int | None, from_beginning: bool, committed: bool
) -> tuple[Offsets, Offsets]:
    """Return where each partition is to be read from, and where it ends now."""
    count = admin.partitions([topic])[topic]
    if partition is not None and partition >= count:
        raise BadOption(f"topic {topic} has no partition {partition}: it has {count}, from 0 on")
    places = [(topic, number) for number in (range(count) if partition is None else [partition])]
    ends = admin.stable_offsets(places) if committed else admin.end_offsets(places)
    return (admin.earliest_offsets(places) if from_beginning else ends), ends


def until_quiet(records: Iterable[LogRecord | None], timeout: float | None) -> Iterator[LogRecord]:
    """Yield records until none came for so many seconds."""
    now_ms = SystemClock().now_ms
    last = now_ms()
    for record in records:
        if record is not None:
            yield record
            last = now_ms()
        elif timeout is not None and now_ms() - last > timeout * 1000:
            return


def text_line(record: LogRecord, key: SerdeName, value: SerdeName) -> str:
    """Write a record as key, tab, value; what is missing is null."""
    said = (_decoded(record, "key", key), _decoded(record, "value", value))
    return "\t".join(part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in said)


def json_line(record: LogRecord, key: SerdeName, value: SerdeName) -> str:
    """Write everything about a record as one line of JSON."""
    return json.dumps(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "headers": [
                [_shown(raw_name(name)), None if data is None else data.decode(errors="replace")]
                for name, data in record.headers
            ],
            "key": _decoded(record, "key", key),
            "value": _decoded(record, "value", value),
        },
        ensure_ascii=False,
    )


def _shown(name: bytes) -> str:
    r"""Return the name of a header; what is not UTF-8 is escaped.

    >>> _shown(b"caf\xe9")
    'caf\\xe9'
    """
    return name.decode(errors="backslashreplace")


def _decoded(record: LogRecord, part: str, form: SerdeName) -> Any:
    where = f"the {part} of {record.topic}-{record.partition}@{record.offset}"
    return decoded(getattr(record, part), form, where)
