"""What the demo shows: a live view while it runs, a summary when it is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich import box
from rich.columns import Columns
from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from penstock.cli.output import console

if TYPE_CHECKING:
    from penstock.cli.demo import Progress, Watch

ROWS = 8


@contextmanager
def live(total: int) -> Iterator[Watch]:
    """Show the state of a run on the terminal; gives the function that is called with it."""
    bar = Bar(
        TextColumn("purchases"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]:,} a second"),
        TimeRemainingColumn(),
    )  # fmt: skip
    task = bar.add_task("purchases", total=total, rate=0)
    with Live(bar, console=console(), auto_refresh=False, transient=True) as view:

        def watch(progress: Progress) -> None:
            bar.update(task, completed=progress.done, rate=progress.rate)
            view.update(Group(bar, tables(progress)), refresh=True)

        yield watch


def print_summary(progress: Progress, differences: list[str]) -> None:
    """Print the outcome of a run."""
    out = console()
    out.print(tables(progress))
    out.print(
        f"{progress.done:,} purchases in {progress.milliseconds / 1000:.1f} s ({progress.rate:,} a second), "
        f"{progress.written:,} results written, {len(progress.spend)} customers, {len(progress.revenue)} windows."
    )
    if not differences:
        out.print("All results equal those of plain Python.", style="green")
        return
    out.print(f"{len(differences)} results differ from those of plain Python:", style="red")
    for line in differences[:20]:
        out.print(f"  {line}", markup=False)


def tables(progress: Progress) -> Columns:
    """Show the customers who spent most beside the newest windows."""
    return Columns([top_customers(progress.spend), newest_windows(progress.revenue)], padding=(0, 4))


def top_customers(spend: dict[str, int]) -> Table:
    """Return the customers who spent most."""
    table = _table("Top customers (a table)", "customer", "spent")
    for customer, cents in sorted(spend.items(), key=lambda row: (-row[1], row[0]))[:ROWS]:
        table.add_row(customer, _money(cents))
    return table


def newest_windows(revenue: dict[Any, int]) -> Table:
    """Return the windows that began last."""
    table = _table("Revenue (windows of a minute)", "minute", "category", "revenue")
    newest = sorted(revenue.items(), key=lambda row: (-row[0].start, row[0].key))[:ROWS]
    for window, cents in newest:
        table.add_row(f"{datetime.fromtimestamp(window.start / 1000, UTC):%H:%M}", window.key, _money(cents))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number == len(columns) - 1 else "left")
    return table


def _money(cents: int) -> str:
    """Write cents as an amount.

    >>> _money(123450)
    '1,234.50'
    """
    return f"{cents // 100:,}.{cents % 100:02d}"
