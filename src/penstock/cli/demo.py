"""``penstock demo``: run a program on generated purchases, watch it, and check what it came to."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.dev import interruptible
from penstock.cli.exits import FAILED, INTERRUPTED
from penstock.cli.output import JsonOption, print_json

if TYPE_CHECKING:
    from penstock.cli.demo_progress import Progress, Watch

#: purchases of a demo in the test driver, which has no end of its own
DRIVER_RECORDS = 20_000


def demo(
    records: Annotated[int | None, typer.Option(help="Stop after so many purchases.", min=1)] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after so many seconds of running.", min=1)] = None,
    rate: Annotated[int, typer.Option(help="Purchases a second.", min=1)] = 2000,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[2]",
    driver: Annotated[bool, typer.Option("--driver", help="In the test driver: no Kafka, Spark or Java.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="No live view, only the summary: for pipes.")] = False,
    browse: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open",
            help="Open the page in a browser. Default: on a desktop, with the live view.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
    seed: Annotated[int, typer.Option(help="Another seed makes other purchases.")] = 1,
) -> None:
    """Start Kafka and Spark, run a program on generated purchases, and watch it until Ctrl-C.

    The program has a re-key, a join with a table, a table of sums and a tumbling window. At the end the committed results are
    compared with those of plain Python (exit code 1: they differ). The address of the application's page is printed. Nothing is
    left behind.
    """
    from penstock.cli import demo_view

    live = not (as_json or plain) and sys.stdout.isatty()
    if not driver:
        fetch_jars()
    with demo_view.live() if live else nullcontext(demo_view.phases(quiet=as_json)) as watch:
        try:
            opens = live and has_desktop() if browse is None else browse
            progress = _run(watch, records, seconds, rate, master, driver, seed, opens)
        except KeyboardInterrupt:  # a second one, or one before there was anything to compare
            raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(progress.summary())
    else:
        demo_view.print_summary(progress)
    if progress.differences():
        raise typer.Exit(FAILED)


def has_desktop() -> bool:
    """Whether a browser could show something here."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def fetch_jars() -> None:
    """Bring what Kafka needs, with a bar, once."""
    from penstock.cli.bars import fetch
    from penstock.dev.server import COORDINATES, JARS

    fetch("Kafka", COORDINATES, JARS)


def _run(
    watch: Watch,
    records: int | None,
    seconds: float | None,
    rate: int,
    master: str,
    driver: bool,
    seed: int,
    opens: bool,
) -> Progress:
    if driver:
        from penstock.cli import demo_driver

        return demo_driver.run(records or DRIVER_RECORDS, seed, watch)
    from penstock.cli import demo_engine

    with interruptible():
        return demo_engine.run(demo_engine.DemoPlan(records, seconds, rate, seed, master, opens), watch)
