"""What was found, for people: a table for each workload in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.columns import COLUMNS, number, spread
from bench.command import Outcome, machine
from bench.peers.system import SYSTEMS
from bench.registry import WORKLOADS
from bench.runs import HEADLINES, Run, middles, ratios, said


def names() -> dict[str, dict[str, str]]:
    """Return the names of workloads and systems, and what they are."""
    return {
        "workloads": {name: each.title for name, each in WORKLOADS.items()},
        "systems": {name: each.label for name, each in SYSTEMS.items()},
    }


def show_list(console: Console) -> None:
    """Print the names of workloads and systems."""
    for heading, rows in names().items():
        table = Table(heading.removesuffix("s"), "", box=None)
        for name, title in rows.items():
            table.add_row(name, title)
        console.print(table)


def show(outcome: Outcome, name: str, console: Console) -> None:
    """Print what is known of one workload."""
    _show_runs(outcome, name, console)
    for heading, reasons in (("skipped", outcome.skipped), ("FAILED", outcome.failed)):
        for (workload, system), why in reasons.items():
            if workload == name:
                console.print(f"{system}: {heading}, {why}", markup=False)


def _show_runs(outcome: Outcome, name: str, console: Console) -> None:
    workload, size, runs = WORKLOADS[name], outcome.sizes[name], outcome.of(name)
    console.print(
        f"\n[bold]{name}[/]: {workload.title}. {size.records:,} records, {workload.partitions} partitions, "
        f"{outcome.plan.threads} threads or lanes, {machine()['cores']} cores with the broker"
    )
    if not runs:
        return
    columns, found = COLUMNS[workload.kind], middles(runs)
    headline = HEADLINES[workload.kind][0]
    table = Table(box=None)
    table.add_column("system", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    labels = {run.row: run.title for run in runs}
    for row, figures in found.items():
        cells = [
            spread(figures[each]) if each == headline else number(figures[each].median) for each in columns.values()
        ]
        table.add_row(labels[row], *cells)
    console.print(table)
    for pair, ratio in ratios(found, workload.kind).items():
        console.print(f"{pair}: {said(ratio, workload.kind) or '-'}")
    if outcome.plan.profile:
        show_profile(runs, console)


def show_profile(runs: Sequence[Run], console: Console) -> None:
    """Print where the time of an epoch goes: microseconds a record, by step of the driver and by phase of the lanes."""
    for run in runs:
        if not run.profile:
            continue
        of_driver = sum(us for name, us in run.profile.items() if not name.startswith("lane: "))
        table = Table(f"{run.label}, round {run.round + 1}", box=None)
        for column in ("µs a record", "of the epoch"):
            table.add_column(column, justify="right")
        for name, us in run.profile.items():
            share = "" if name.startswith("lane: ") else f"{us / of_driver:.0%}"
            table.add_row(name, f"{us:.3f}", share)
        console.print(table)
