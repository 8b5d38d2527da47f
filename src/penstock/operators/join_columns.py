"""Joins of a stream with a table by column: rows are looked up for thousands of records at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.base import OperatorContext
from penstock.operators.each import call_each
from penstock.serde.columns import Column, Columns, Commits, OnColumns, present
from penstock.state.as_of import ReadColumns


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
        read, left, drop = self.read, self.left, context.drop

        def on_columns(columns: Columns, commits: Commits) -> None:
            columns, keys = self._keys(context, columns, commits)
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
            items = (columns.values.items, rows)
            given = (columns.keys.items, *items) if self.with_key else items
            columns, joined = call_each(context, columns, commits, self.joiner, *given)
            if joined:
                forward(columns.having(values=Column(joined)), commits)

        return on_columns

    def _keys(self, context: OperatorContext, columns: Columns, commits: Commits) -> tuple[Columns, Column]:
        """Return the records, and the keys that are looked up."""
        if self.select is None:
            return columns, columns.keys
        items = columns.keys.items, columns.values.items
        columns, keys = call_each(context, columns, commits, self.select, *items)
        return columns, Column(keys)
