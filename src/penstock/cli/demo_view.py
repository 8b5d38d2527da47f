"""What the demo shows: a live view while it runs, a summary when it is done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from penstock.cli.output import console, table_of

if TYPE_CHECKING:
    from penstock.cli.demo_progress import Progress, Watch

ROWS = 8


@contextmanager
def live() -> Iterator[Watch]:
    """Show the state of a run on the terminal; gives the function that is called with it."""
    spinner = Spinner("dots")
    with Live(spinner, console=console(), refresh_per_second=8, transient=True) as view:

        def watch(progress: Progress) -> None:
            view.update(shown(progress, spinner))

        yield watch


def phases(quiet: bool) -> Watch:
    """Return a watch that says each phase once, in a line on standard error; or nothing."""
    said, page = "", None

    def watch(progress: Progress) -> None:
        nonlocal said, page
        if progress.page != page and not quiet:
            page = progress.page
            print(f"{progress.milliseconds / 1000:5.1f} s  the page is at {page}", file=sys.stderr, flush=True)
        if progress.phase != said and not quiet:
            said = progress.phase
            print(f"{progress.milliseconds / 1000:5.1f} s  {said}", file=sys.stderr, flush=True)

    return watch


def shown(progress: Progress, spinner: Spinner) -> RenderableType:
    """Show a run: what it does, how fast, and its results so far."""
    spinner.update(text=f" {progress.milliseconds / 1000:.0f} s  {progress.phase}")
    parts: list[RenderableType] = [spinner]
    if progress.total is not None:
        parts.append(ProgressBar(total=progress.total, completed=progress.purchases, width=60))
    parts.append(Text(f"{progress.purchases:,} purchases written, {progress.written:,} committed results read"))
    if progress.reading is not None and progress.reading.epochs:
        parts.append(gauges(progress))
    if progress.written:
        parts.append(tables(progress))
    if progress.page is not None:
        parts.append(Text(f"The page: {progress.page}"))
    parts.append(Text("Ctrl-C ends it, and compares the results with plain Python.", style="dim"))
    return Group(*parts)


def gauges(progress: Progress) -> Table:
    """Show the application in numbers."""
    reading = progress.reading
    assert reading is not None
    table = Table(box=box.SIMPLE_HEAD)
    for title in ("records in/s", "results out/s", "lag", "epoch", "took", "dropped"):
        table.add_column(title, justify="right", min_width=8)
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reading.dropped.items())) or "0"
    table.add_row(
        f"{reading.in_rate:,}", f"{reading.out_rate:,}", f"{reading.lag:,}", f"{reading.epoch:,}", f"{reading.epoch_ms:,} ms", dropped,
    )  # fmt: skip
    return table


def print_summary(progress: Progress) -> None:
    """Print the outcome of a run."""
    out = console()
    out.print(tables(progress))
    out.print(outcome(progress))
    differences = progress.differences()
    if not differences:
        out.print("All results equal those of plain Python.", style="green")
        return
    out.print(f"{len(differences)} results differ from those of plain Python:", style="red")
    for line in differences[:20]:
        out.print(f"  {line}", markup=False)


def outcome(progress: Progress) -> str:
    """Explain what was done, in numbers."""
    said = f"{progress.purchases:,} purchases in {progress.milliseconds / 1000:.1f} s"
    if progress.reading is not None:
        said += f" and {progress.reading.epochs:,} epochs"
    said += f", {progress.written:,} results written, {len(progress.spend)} customers, {len(progress.revenue)} windows."
    if progress.first_result_ms is not None:
        said += f" First committed result after {progress.first_result_ms / 1000:.1f} s."
    return said


def tables(progress: Progress) -> Columns:
    """Show the customers who spent most beside the newest windows."""
    return Columns([top_customers(progress.spend), newest_windows(progress.revenue)], padding=(0, 4))


def top_customers(spend: dict[str, int]) -> Table:
    """Return the customers who spent most."""
    most = sorted(dict(spend).items(), key=lambda row: (-row[1], row[0]))[:ROWS]
    rows = [(customer, _money(cents)) for customer, cents in most]
    return table_of(("customer", "spent"), rows, numbers=("spent",), name="Top customers (a table)")


def newest_windows(revenue: dict[Any, int]) -> Table:
    """Return the windows that began last."""
    newest = sorted(dict(revenue).items(), key=lambda row: (-row[0].start, row[0].key))[:ROWS]
    rows = [(f"{datetime.fromtimestamp(w.start / 1000, UTC):%H:%M:%S}", w.key, _money(cents)) for w, cents in newest]
    return table_of(("from", "category", "revenue"), rows, numbers=("revenue",), name="Revenue (windows of 10 s)")


def _money(cents: int) -> str:
    """Write cents as an amount.

    >>> _money(123450)
    '1,234.50'
    """
    return f"{cents // 100:,}.{cents % 100:02d}"
