"""How a kernel reads another node's table: from its store, or through the parent's where it has none."""

from __future__ import annotations

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.kernels.kernel import KernelContext, NodeFacts
from penstock.kernels.table_rows import FoundRows, ReadBatch, open_read
from penstock.kernels.transaction import BatchTransaction
from penstock.operators.base import TableView
from penstock.operators.views import DerivedView, StoreView


def refuses_view(view: TableView, facts: NodeFacts) -> str | None:
    """Return why a table cannot be read by batch; None if it can."""
    if isinstance(view, StoreView):
        return (
            "the table is versioned: it is read as of each record's time"
            if view.versioned
            else facts.not_plain(view.store)
        )
    if isinstance(view, DerivedView) and view.pure:
        return refuses_view(view.parent, facts)
    return "the table has no store, and its rows are made by a transformer"


def open_view(view: TableView, context: KernelContext) -> ReadBatch:
    """Return what reads the rows of many keys."""
    if isinstance(view, StoreView):
        store = context.store(view.store)
        return open_read(store.rows, store.name, store.serdes)
    assert isinstance(view, DerivedView), view
    derive, read = view.derive(context), open_view(view.parent, context)

    def derived(keys: Column, batch: Batch, transaction: BatchTransaction) -> FoundRows:
        found = [
            None if row is None else derive(key, (row, -1))
            for key, row in zip(keys.items, read(keys, batch, transaction).rows, strict=True)
        ]
        return FoundRows([None if row is None else row[0] for row in found], any(row is None for row in found))

    return derived
