"""``penstock demo``: run a program on generated purchases, watch it, and check what it came to.

It runs in the test driver, with the operators and stores that the lanes use; no broker, no Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import JsonOption, print_json

if TYPE_CHECKING:
    from penstock.cli.demo_topology import Results


@dataclass(slots=True)
class Progress:
    """How far a run has come, and its results so far."""

    total: int
    done: int = 0
    milliseconds: int = 0
    written: int = 0
    spend: dict[str, int] = field(default_factory=dict)
    revenue: dict[Any, int] = field(default_factory=dict)

    @property
    def rate(self) -> int:
        """Records a second."""
        return self.done * 1000 // max(1, self.milliseconds)


Watch = Callable[[Progress], None]


def demo(
    records: Annotated[int, typer.Option(help="Number of purchases to make.", min=1)] = 20_000,
    plain: Annotated[bool, typer.Option("--plain", help="No live view, only the summary.")] = False,
    as_json: JsonOption = False,
    seed: Annotated[int, typer.Option(help="Another seed makes other purchases.")] = 1,
) -> None:
    """Run a program on generated purchases, watch it, and compare its results with plain Python (exit code 1: differ)."""
    from penstock.cli import demo_view
    from penstock.cli.demo_topology import events, expected

    if as_json or plain or not sys.stdout.isatty():
        progress = run(records, seed, lambda progress: None)
    else:
        with demo_view.live(records) as watch:
            progress = run(records, seed, watch)
    differences = compare(progress, expected(events(records, seed)))
    if as_json:
        print_json(summary(progress, differences))
    else:
        demo_view.print_summary(progress, differences)
    if differences:
        raise typer.Exit(1)


def run(purchases: int, seed: int, watch: Watch) -> Progress:
    """Send all events through the topology; call ``watch`` about ten times a second."""
    from penstock.cli.demo_topology import REVENUE_KEY, events, topology
    from penstock.clock import SystemClock
    from penstock.serde import Serdes
    from penstock.testing import TopologyTestDriver

    progress, now_ms = Progress(total=purchases), SystemClock().now_ms
    with TopologyTestDriver(topology()) as driver:
        topics = {name: driver.input_topic(name) for name in ("products", "purchases")}
        spend = driver.output_topic("customer-spend", value=Serdes.int64)
        revenue = driver.output_topic("category-revenue", key=REVENUE_KEY, value=Serdes.int64)

        def catch_up(at: int) -> None:
            progress.milliseconds = at - began
            for topic, table in ((spend, progress.spend), (revenue, progress.revenue)):
                news = topic.read_all()
                progress.written += len(news)
                table.update((record.key, record.value) for record in news)
            watch(progress)

        began = seen = now_ms()
        for event in events(purchases, seed):
            topics[event.topic].pipe(event.key, event.value, event.timestamp)
            progress.done += event.topic == "purchases"
            if (at := now_ms()) - seen >= 100:
                seen = at
                catch_up(at)
        catch_up(now_ms())
    return progress


def compare(progress: Progress, wanted: Results) -> list[str]:
    """Say in what the results of a run differ from those wanted."""
    return [*differing(progress.spend, wanted.spend), *differing(progress.revenue, wanted.revenue)]


def differing(got: Mapping[Any, int], want: Mapping[Any, int]) -> Iterator[str]:
    """Say which rows of a table differ.

    >>> list(differing({"a": 1, "b": 2}, {"a": 1, "b": 3}))
    ['b: Penstock says 2, plain Python says 3']
    """
    for key in sorted(got.keys() | want.keys()):
        if got.get(key) != want.get(key):
            yield f"{key}: Penstock says {got.get(key)}, plain Python says {want.get(key)}"


def summary(progress: Progress, differences: list[str]) -> dict[str, Any]:
    """Return the outcome as plain data."""
    return {
        "purchases": progress.done,
        "results_written": progress.written,
        "milliseconds": progress.milliseconds,
        "records_per_second": progress.rate,
        "spend_cents": dict(sorted(progress.spend.items())),
        "revenue_cents": [
            {"category": window.key, "start": window.start, "end": window.end, "cents": cents}
            for window, cents in sorted(progress.revenue.items())
        ],
        "equal_to_plain_python": not differences,
        "differences": differences,
    }
