"""What was found, for people: a table for each workload in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.command import Outcome, machine
from bench.peers.system import SYSTEMS
from bench.registry import WORKLOADS
from bench.runs import HEADLINES, Middle, Run, middles, ratios
from bench.workloads.base import Kind

#: by kind: columns of the table, and the figures in them
COLUMNS: dict[Kind, dict[str, str]] = {
    Kind.RATE: {
        "steady/s": "steady",
        "from RUNNING/s": "from_running",
        "from start/s": "from_start",
        "CPU µs": "cpu_us_per_record",
        "broker CPU µs": "broker_cpu_us_per_record",
        "CPU s": "cpu_seconds",
        "peak MB": "peak_mb",
        "shared once": "peak_proportional_mb",
        "commit s": "seconds_between_commits",
        "outputs": "outputs",
        "others' cores": "cores_of_others",
        "machine": "machine_speed",
    },
    Kind.LATENCY: {
        "p50 ms": "p50_ms",
        "p95 ms": "p95_ms",
        "p99 ms": "p99_ms",
        "longest ms": "longest_ms",
        "results": "results",
        "CPU s": "cpu_seconds",
        "peak MB": "peak_mb",
    },
    Kind.RESTORE: {
        "rows/s": "restored_per_second",
        "rows": "restored",
        "restore s": "seconds_of_restore",
        "to RUNNING s": "seconds_to_running",
        "CPU s": "cpu_seconds",
        "peak MB": "peak_mb",
    },
    Kind.RESTART: {
        "to result s": "seconds_to_result",
        "to RUNNING s": "seconds_to_running",
        "caught up s": "seconds_to_caught_up",
        "CPU s": "cpu_seconds",
        "peak MB": "peak_mb",
    },
    Kind.GROWTH: {
        "CPU µs": "cpu_us_per_record",
        "steady/s": "steady",
        "broker CPU µs": "broker_cpu_us_per_record",
        "peak MB": "peak_mb",
        "commit s": "seconds_between_commits",
    },
}


def number(value: float) -> str:
    """Write a number with as many digits as matter.

    >>> number(123456.7), number(12.345), number(1.2345), number(math.nan)
    ('123,457', '12.3', '1.23', '-')
    """
    if math.isnan(value):
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spread(found: Middle) -> str:
    """Write a median, and the spread if there is one.

    >>> spread(Middle(2, 1, 3)), spread(Middle(2, 2, 2))
    ('2.00 (1.00 to 3.00)', '2.00')
    """
    if found.least == found.most or math.isnan(found.median):
        return number(found.median)
    return f"{number(found.median)} ({number(found.least)} to {number(found.most)})"


def show_list(console: Console) -> None:
    """Print the names of workloads and systems."""
    for heading, rows in (
        ("workload", {name: each.title for name, each in WORKLOADS.items()}),
        ("system", {name: each.label for name, each in SYSTEMS.items()}),
    ):
        table = Table(heading, "", box=None)
        for name, title in rows.items():
            table.add_row(name, title)
        console.print(table)


def show(outcome: Outcome, console: Console) -> None:
    """Print everything."""
    for name in outcome.sizes:
        _show_workload(outcome, name, console)
    for (workload, system), why in outcome.skipped.items():
        console.print(f"{workload}, {system}: skipped, {why}", markup=False)
    for (workload, system), why in outcome.failed.items():
        console.print(f"{workload}, {system}: FAILED, {why}", markup=False)


def _show_workload(outcome: Outcome, name: str, console: Console) -> None:
    workload, size, runs = WORKLOADS[name], outcome.sizes[name], outcome.of(name)
    console.print(
        f"\n[bold]{name}[/]: {workload.title}. {size.records:,} records, {workload.partitions} partitions, "
        f"{outcome.plan.threads} threads or lanes, {machine()['cores']} cores with the broker"
    )
    if not runs:
        return
    columns, found = COLUMNS[workload.kind], middles(runs)
    headline, _ = HEADLINES[workload.kind]
    table = Table("system", box=None)
    for column in columns:
        table.add_column(column, justify="right")
    labels = {run.row: f"{run.label}, {run.variant}" if run.variant else run.label for run in runs}
    for row, figures in found.items():
        cells = [
            spread(figures[each]) if each == headline else number(figures[each].median) for each in columns.values()
        ]
        table.add_row(labels[row], *cells)
    console.print(table)
    for pair, ratio in ratios(found, workload.kind).items():
        console.print(f"{pair}: {number(ratio)} by {headline.replace('_', ' ')}")
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
