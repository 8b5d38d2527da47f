"""Progress bars on standard error, where that is a terminal; elsewhere they say nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.dev.jars import Progress as Tell


def stderr_console() -> Console:
    """Return standard error as a terminal; plain text, never cut short, where it is none."""
    from rich.console import Console

    out = Console(stderr=True, highlight=False)
    return out if out.is_terminal else Console(stderr=True, highlight=False, width=160)


@contextmanager
def counting(text: str, total: int, *, numbers: bool = False, most_quiet: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal, if there is more than ``most_quiet``. Gives the function that is told how much of it is done by now."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    quiet = total < most_quiet or not sys.stderr.isatty()
    columns = (
        TextColumn(text),
        BarColumn(),
        MofNCompleteColumn() if numbers else TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=stderr_console(), transient=True, disable=quiet) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def downloading(what: str, jars: int) -> Iterator[Tell]:
    """Show a bar while jars are fetched; nothing if they are there. Gives the function that is told of each."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn(f"Fetching {what}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=stderr_console(), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=jars, visible=False)

        def tell(line: str) -> None:
            bar.update(task, advance=1, description=line.rpartition("!")[2], visible=True)

        yield tell


def fetch(what: str, coordinates: Iterable[str], jars: int) -> None:
    """Bring jars onto this machine, with a bar if it takes a while."""
    from penstock.dev.jars import resolve

    with downloading(what, jars) as tell:
        resolve(coordinates, progress=tell)
