"""``penstock bench``: Penstock side by side with Kafka Streams and others. The code is in ``bench/``, beside ``src/``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli.dev import interruptible
from penstock.cli.exits import FAILED, INTERRUPTED, WrongUse
from penstock.cli.output import JsonOption, console, print_json

#: where the benchmarks are in a checkout: this file is in src/penstock/cli
CHECKOUT = Path(__file__).resolve().parents[3]


def bench(
    workloads: Annotated[list[str] | None, typer.Argument(help="Names; without one, all.", show_default=False)] = None,
    systems: Annotated[
        str | None,
        typer.Option(
            help="Names, with commas between them.",
            show_default="Penstock, and Kafka Streams at the same distance between commits",
        ),
    ] = None,
    records: Annotated[
        int | None, typer.Option(help="Records of each workload.", min=1, show_default="its own")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Of which medians are taken.", min=1, show_default="3")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few records, few workloads, one round: a check.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Tell where the time of an epoch goes.")] = False,
    threads: Annotated[
        int | None, typer.Option(help="Threads of Java, lanes of Penstock.", min=1, show_default="cores")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, a setting of Penstock.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write everything to this file, as JSON.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write tables to this file.")] = None,
    pictures: Annotated[Path | None, typer.Option(help="Write pictures into this folder.")] = None,
    saved: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Run nothing: write what an --output FILE has.", show_default=False),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the workloads and systems.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure Penstock and other systems on one broker and one set of data, and check that the results are equal.

    Needs a checkout of the sources and, for Kafka Streams, a JDK. Exit code 1: results differ, or a system has failed.
    """
    command, report = _load("bench.command"), _load("bench.report")
    if listing:
        print_json(report.names()) if as_json else report.show_list(console())
        return
    if saved:
        _write(command.together(saved), None, markdown, pictures, as_json=as_json)
        return
    given: dict[str, Any] = {"threads": threads, "rounds": rounds or (1 if quick else 3)}
    plan = command.Plan(
        workloads=workloads or (),
        systems=systems.split(",") if systems else (),
        records=records,
        quick=quick,
        profile=profile,
        settings=setting or (),
        **{name: value for name, value in given.items() if value is not None},
    )

    def tell(outcome: Any, workload: str) -> None:
        """Show what was found so far, and keep it: all of it may take hours."""
        if not as_json:
            report.show(outcome, workload, console())
        _write(command.as_data(outcome), output, None, None)

    with interruptible():
        try:
            outcome = command.perform(plan, tell)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    _write(command.as_data(outcome), output, markdown, pictures, as_json=as_json)
    if outcome.failed:
        raise typer.Exit(FAILED)


def _write(
    data: dict[str, Any], output: Path | None, markdown: Path | None, pictures: Path | None, *, as_json: bool = False
) -> None:
    """Write what was found wherever it was asked for."""
    if as_json:
        print_json(data)
    if output is not None:
        _load("bench.command").save(data, output)
    if markdown is not None:
        _load("bench.markdown").save(data, markdown)
    if pictures is not None:
        _load("bench.pictures").save(data, pictures)


def _load(name: str) -> Any:
    """Import a module of the benchmarks; say what to do where there are none."""
    if (CHECKOUT / "bench" / "command.py").is_file() and str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if not name.startswith(error.name or "?"):
            raise
        raise WrongUse(
            "the benchmarks are not installed with the package: they are in the folder bench/ of its sources. "
            "Clone them, and run this in the clone after pip install --editable ."
        ) from error
