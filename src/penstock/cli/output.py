"""What every command prints with: JSON for scripts, a terminal for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from penstock.masking import scrubbed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

#: the option that every command has whose output a script may want
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def print_json(data: Any) -> None:
    """Print plain data as JSON on standard output."""
    typer.echo(json.dumps(clean(data), indent=2, ensure_ascii=False, default=str))


def clean(data: Any) -> Any:
    """Return plain data without the secrets that are known."""
    if isinstance(data, dict):
        return {name: clean(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [clean(value) for value in data]
    return scrubbed(data) if isinstance(data, str) else data


def console() -> Console:
    """Return the terminal: plain text, never cut short, where standard output is not one."""
    from rich.console import Console

    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=160)


def table_of(
    titles: Sequence[str], rows: Iterable[Sequence[str | Text]], *, numbers: Sequence[str] = (), name: str | None = None
) -> Table:
    """Return a table. ``numbers``: the columns that are. Strings are shown as they are; what has a style is a `Text`."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=name, box=box.SIMPLE_HEAD, title_justify="left")
    for title in titles:
        table.add_column(title, justify="right" if title in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(each) if isinstance(each, str) else each for each in row))
    return table


def print_table(titles: Sequence[str], rows: Iterable[Sequence[str | Text]], *, numbers: Sequence[str] = ()) -> None:
    """Print a table, if there are rows."""
    table = table_of(titles, rows, numbers=numbers)
    if table.row_count:
        console().print(table)
