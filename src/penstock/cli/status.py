"""``penstock status``: where an application stands, from outside."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.kafka import BootstrapOption, ClientOption, connected
from penstock.cli.output import JsonOption, console, print_json, table_of
from penstock.clock import SystemClock

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

    from penstock.cli.application_status import ApplicationStatus
    from penstock.log.kafka import KafkaLog


#: columns of a partition of the input
NUMBERS = ("position", "stable end", "end", "lag")


def status(
    application_id: Annotated[str, typer.Option("--application-id", help="Name of the application.")],
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.2)] = 2.0,
    bootstrap: BootstrapOption = None,
    client: ClientOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the last barrier of an application, how far it has read, what waits, and its changelogs. Needs no Spark.

    Whether it runs cannot be seen from outside, only how old its last barrier is: without input there are no barriers.
    """
    from penstock.cli.application_status import look

    with connected(bootstrap, client, timeout=30) as log:
        if not watch:
            status = look(log, application_id, SystemClock())
            print_json(status.data()) if as_json else console().print(shown(status))
            return
        with suppress(KeyboardInterrupt):
            _watch(looks(log, application_id, every), as_json)


def looks(log: KafkaLog, application_id: str, every: float) -> Iterator[ApplicationStatus]:
    """Look at an application again and again."""
    from penstock.cli.application_status import look

    pause = threading.Event()
    while True:
        yield look(log, application_id, SystemClock())
        pause.wait(every)


def _watch(statuses: Iterator[ApplicationStatus], as_json: bool) -> None:
    if as_json or not sys.stdout.isatty():
        for status in statuses:
            typer.echo(json.dumps(status.data()) if as_json else line(status))
        return
    from rich.live import Live

    with Live(console=console(), auto_refresh=False) as live:
        for status in statuses:
            live.update(shown(status), refresh=True)


def line(status: ApplicationStatus) -> str:
    """Say it in one line, for logs."""
    return f"{status.application_id}: {headline(status)}, lag {status.lag:,}"


def headline(status: ApplicationStatus) -> str:
    """Describe where the last barrier is."""
    if status.age_ms is None:
        return "no epoch committed yet"
    more = ", a transaction is open" if status.transaction_open else ""
    return f"epoch {status.epoch:,} committed {age(status.age_ms)} ago{more}"


def age(milliseconds: int) -> str:
    """Describe how long something is ago.

    >>> age(900), age(90_000), age(7_300_000)
    ('0.9 s', '1 min 30 s', '2 h 1 min')
    """
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def shown(status: ApplicationStatus) -> Group:
    """Show everything, in tables."""
    from rich.console import Group

    parts: list[RenderableType] = [f"{status.application_id}: {headline(status)}"]
    if status.shards is not None:
        parts.append(
            f"{status.shards} shards, {status.lanes} lanes, topology {status.fingerprint[:12]}, lag {status.lag:,}"
        )
    places = [
        (f"{p.topic}-{p.partition}", "-" if p.position is None else f"{p.position:,}", f"{p.stable:,}", f"{p.end:,}", f"{p.lag:,}")
        for p in status.places
    ]  # fmt: skip
    changelogs = [(c.store, f"{c.partitions}", f"{c.offsets:,}", c.topic) for c in status.changelogs]
    if places:
        parts.append(table_of(("input", *NUMBERS), places, numbers=NUMBERS))
    if changelogs:
        parts.append(
            table_of(("store", "partitions", "offsets", "changelog"), changelogs, numbers=("partitions", "offsets"))
        )
    if status.profile:
        spent = [(name, f"{us / 1000:,.1f}") for name, us in status.profile.items()]
        parts.append(table_of((f"epoch {status.epoch - 1:,}: time went to", "ms"), spent, numbers=("ms",)))
    return Group(*parts)
