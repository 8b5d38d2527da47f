"""Joins of a stream with a table by column: rows are looked up for thousands of records at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.base import OperatorContext
from penstock.serde.columns import Column, Columns, Commits, OnColumns
from penstock.state.as_of import ReadColumns


def present(commits: Commits, drop: Callable[[str], None], **needed: Column) -> list[int] | None:
    """Return the places of the records that miss nothing, None: all; the others are dropped, for the first thing missing.

    >>> dropped, commits = [], []
    >>> present(commits, dropped.append, null_value=Column([1, None, 3]), null_key=Column(["a", "b", None]))
    [0]
    >>> [commit() for commit in commits], dropped
    ([None], ['null_value', 'null_key'])
    """
    if not any(column.has_nulls for column in needed.values()):
        return None
    dropped: list[str] = []
    at: list[int] = []
    for place, items in enumerate(zip(*(column.items for column in needed.values()), strict=True)):
        if None not in items:
            at.append(place)
        else:
            dropped += [next(reason for reason, item in zip(needed, items, strict=True) if item is None)]

    def commit() -> None:
        for reason in dropped:
            drop(reason)

    commits.append(commit)
    return at


@dataclass(frozen=True, slots=True)
class JoinColumns:
    """Join records with the rows that ``read`` finds for their keys, or for those that ``select(key, value)`` gives."""

    read: ReadColumns
    joiner: Callable[..., Any]
    with_key: bool
    left: bool
    select: Callable[..., Any] | None = None

    def open(self, context: OperatorContext, forward: OnColumns) -> OnColumns:
        """Return what takes records by column; a left join's records without a key go one by one."""
        read, join, left, drop = self.read, self._join, self.left, context.drop

        def on_columns(columns: Columns, commits: Commits) -> None:
            keys = self._keys(columns)
            needed = {"null_value": columns.values} if left else {"null_value": columns.values, "null_key": keys}
            at = present(commits, drop, **needed)
            if at is not None:
                columns, keys = columns.pick(at), keys.pick(at)
            if not len(columns):
                return
            rows, gaps = read(keys, columns)
            if gaps and not left:
                at = [place for place, row in enumerate(rows) if row is not None]
                columns, rows = columns.pick(at), [rows[place] for place in at]
            if rows:
                forward(columns.having(values=Column(join(columns, rows))), commits)

        return on_columns

    def _keys(self, columns: Columns) -> Column:
        """Return the keys that are looked up."""
        if self.select is None:
            return columns.keys
        return Column(list(map(self.select, columns.keys.items, columns.values.items)))

    def _join(self, columns: Columns, rows: list[Any]) -> list[Any]:
        if self.with_key:
            return list(map(self.joiner, columns.keys.items, columns.values.items, rows))
        return list(map(self.joiner, columns.values.items, rows))
