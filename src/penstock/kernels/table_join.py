"""Kernels of stream-table joins: rows are looked up for thousands of records at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.kernels.kernel import Effects, Kernel, KernelContext, NodeFacts
from penstock.kernels.table_rows import ReadBatch, open_read
from penstock.kernels.table_view import open_view, refuses_view
from penstock.kernels.transaction import BatchTransaction, OnBatch, present
from penstock.kernels.user_calls import call_each
from penstock.operators.stream_table_join import StreamGlobalTableJoin, StreamTableJoin


@dataclass(frozen=True, slots=True)
class TableJoin:
    """Join records with the rows that ``read`` finds for their keys, or for those that ``select(key, value)`` gives."""

    read: ReadBatch
    joiner: Callable[..., Any]
    with_key: bool
    left: bool
    select: Callable[..., Any] | None = None

    def open(self, context: KernelContext, forward: OnBatch) -> OnBatch:
        """Return what takes records by column; a left join's records without a key go one by one."""
        read, left, drop = self.read, self.left, context.drop

        def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
            batch, keys = self._keys(context, batch, transaction)
            needed = {"null_value": batch.values} if left else {"null_value": batch.values, "null_key": keys}
            at = present(transaction, drop, **needed)
            if at is not None:
                batch, keys = batch.pick(at), keys.pick(at)
            if not len(batch):
                return
            rows, gaps = read(keys, batch, transaction)
            if gaps and not left:
                at = [place for place, row in enumerate(rows) if row is not None]
                batch, rows = batch.pick(at), [rows[place] for place in at]
            items = (batch.values.items, rows)
            given = (batch.keys.items, *items) if self.with_key else items
            batch, joined = call_each(context, batch, transaction, self.joiner, *given)
            if joined:
                forward(batch.having(values=Column(joined)), transaction)

        return on_batch

    def _keys(self, context: KernelContext, batch: Batch, transaction: BatchTransaction) -> tuple[Batch, Column]:
        """Return the records, and the keys that are looked up."""
        if self.select is None:
            return batch, batch.keys
        items = batch.keys.items, batch.values.items
        batch, keys = call_each(context, batch, transaction, self.select, *items)
        return batch, Column(keys)


def open_table_join(operator: StreamTableJoin, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what joins records with a table, as it is at the position of each."""
    read = open_view(operator.table, context)
    return TableJoin(read, operator.joiner, operator.with_key, operator.left).open(context, forward)


def open_global_join(operator: StreamGlobalTableJoin, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what joins records with a global table; nobody writes to it meanwhile."""
    store = context.store(operator.store)
    read = open_read(store.rows, store.name, store.serdes)
    return TableJoin(read, operator.joiner, operator.with_key, operator.left, operator.select).open(context, forward)


def _refuses(operator: StreamTableJoin, facts: NodeFacts) -> str | None:
    if operator.grace is not None:
        return "it has a grace: records wait in a buffer"
    return refuses_view(operator.table, facts)


def _refuses_global(operator: StreamGlobalTableJoin, facts: NodeFacts) -> str | None:
    return facts.not_plain(operator.store)


def _effects(operator: StreamTableJoin) -> Effects:
    return Effects(reads=operator.table.stores)


TABLE_JOIN = Kernel(open_table_join, _refuses, _effects)
GLOBAL_TABLE_JOIN = Kernel(open_global_join, _refuses_global)
