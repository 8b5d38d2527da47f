"""Rows of stores and queries as tables: in a notebook, and as frames of pandas."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.errors import MissingExtra, WrongQuery
from penstock.record import ValueAndTimestamp, VersionedRecord, Windowed
from penstock.state.spec import StoreKind, StoreSpec
from penstock.state.verbs import Rows

if TYPE_CHECKING:
    import pandas

#: rows that a notebook shows of a store, and characters of a cell
SHOWN, WIDTH = 20, 80
#: columns of milliseconds, which are times in a frame
TIMES = ("window_start", "window_end", "timestamp", "valid_to")


class RowTable(NamedTuple):
    """Rows with names of their columns; ``more``: there are others."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    more: bool


def table_of(rows: Iterable[Any], first: str = "key", limit: int | None = None) -> RowTable:
    """Return rows with windows, timestamps and versions in columns of their own; ``first`` names what a plain row begins with.

    >>> table_of([(Windowed("a", 0, 10), ValueAndTimestamp(3, 5))])
    RowTable(columns=('key', 'window_start', 'window_end', 'value', 'timestamp'), rows=[('a', 0, 10, 3, 5)], more=False)
    >>> table_of([("a", 1), ("b", 2)], limit=1)
    RowTable(columns=('key', 'value'), rows=[('a', 1)], more=True)
    """
    columns: dict[str, None] = {}
    cells: list[dict[str, Any]] = []
    more = False
    for number, row in enumerate(rows):
        if number == limit:
            more = True
            break
        cells.append(_cells(row, first))
        columns.update(dict.fromkeys(cells[-1]))
    names = tuple(columns) or (first, "value")
    return RowTable(names, [tuple(row.get(name) for name in names) for row in cells], more)


def _cells(row: Any, first: str) -> dict[str, Any]:
    if isinstance(row, VersionedRecord):
        return {"value": row.value, "timestamp": row.timestamp, "valid_to": row.valid_to}
    key, value = row
    cells = (
        {"key": key.key, "window_start": key.start, "window_end": key.end}
        if isinstance(key, Windowed)
        else {first: key}
    )
    if isinstance(value, ValueAndTimestamp):
        return cells | {"value": value.value, "timestamp": value.timestamp}
    return cells | {"value": value}


def rows_of(spec: StoreSpec, view: Any) -> Rows:
    """Iterate all rows of a store; raise `WrongQuery` for one that cannot be listed."""
    if spec.kind is StoreKind.VERSIONED:
        raise WrongQuery(
            f"store {spec.name!r} (versioned) has no list of all rows: ask for one key, "
            "query(store, MultiVersionedKeyQuery(key)).to_pandas()"
        )
    rows: Rows = view.fetch_range(None, None) if spec.kind is StoreKind.SESSION else view.all()
    return rows


def frame_of(table: RowTable) -> pandas.DataFrame:
    """Return a table as a frame of pandas; its times are times, UTC."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra(
            "to_pandas() needs pandas, which is not installed: pip install 'penstock-streams[notebook]'"
        ) from None
    frame = pd.DataFrame.from_records(table.rows, columns=list(table.columns))
    for name in TIMES:
        if name in table.columns:
            given = pd.to_numeric(frame[name])
            frame[name] = pd.to_datetime(given.where(given >= 0), unit="ms", utc=True, errors="coerce")
    return frame


def html_of(title: str, table: RowTable) -> str:
    """Return a table as HTML: what a notebook shows."""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    more = "<p>There are more rows; to_pandas() has all of them.</p>" if table.more else ""
    return f"<div><strong>{escape(title)}</strong><table><tr>{head}</tr>{body}</table>{more}</div>"


def _cell(value: Any) -> str:
    text = str(value)
    return escape(text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…")


def store_html(spec: StoreSpec, view: Any) -> str:
    """Show the first rows of a store; of one that cannot be listed, how to ask it."""
    title = f"store {spec.name} ({spec.kind.value})"
    try:
        rows = rows_of(spec, view)
    except WrongQuery as error:
        return f"<div><strong>{escape(title)}</strong><p>{escape(str(error))}</p></div>"
    try:
        return html_of(title, table_of(rows, limit=SHOWN))
    finally:
        rows.close()
