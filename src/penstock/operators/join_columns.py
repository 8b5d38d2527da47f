"""Joins of a stream with a table by column: rows are looked up for thousands of records at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.batch.batch import Batch, Commits, OnBatch, present
from penstock.batch.column import Column
from penstock.operators.base import OperatorContext
from penstock.operators.each import call_each
from penstock.state.as_of import ReadBatch


@dataclass(frozen=True, slots=True)
class JoinColumns:
    """Join records with the rows that ``read`` finds for their keys, or for those that ``select(key, value)`` gives."""

    read: ReadBatch
    joiner: Callable[..., Any]
    with_key: bool
    left: bool
    select: Callable[..., Any] | None = None

    def open(self, context: OperatorContext, forward: OnBatch) -> OnBatch:
        """Return what takes records by column; a left join's records without a key go one by one."""
        read, left, drop = self.read, self.left, context.drop

        def on_batch(batch: Batch, commits: Commits) -> None:
            batch, keys = self._keys(context, batch, commits)
            needed = {"null_value": batch.values} if left else {"null_value": batch.values, "null_key": keys}
            at = present(commits, drop, **needed)
            if at is not None:
                batch, keys = batch.pick(at), keys.pick(at)
            if not len(batch):
                return
            rows, gaps = read(keys, batch)
            if gaps and not left:
                at = [place for place, row in enumerate(rows) if row is not None]
                batch, rows = batch.pick(at), [rows[place] for place in at]
            items = (batch.values.items, rows)
            given = (batch.keys.items, *items) if self.with_key else items
            batch, joined = call_each(context, batch, commits, self.joiner, *given)
            if joined:
                forward(batch.having(values=Column(joined)), commits)

        return on_batch

    def _keys(self, context: OperatorContext, batch: Batch, commits: Commits) -> tuple[Batch, Column]:
        """Return the records, and the keys that are looked up."""
        if self.select is None:
            return batch, batch.keys
        items = batch.keys.items, batch.values.items
        batch, keys = call_each(context, batch, commits, self.select, *items)
        return batch, Column(keys)
