"""Kernel of a table's source: records become updates of rows, published with their positions, so that joins may go along."""

from __future__ import annotations

from penstock.batch.batch import Batch
from penstock.kernels.kernel import Effects, Kernel, KernelContext, NodeFacts
from penstock.kernels.table_rows import open_put_to
from penstock.kernels.transaction import BatchTransaction, OnBatch, forwarding, with_keys
from penstock.operators.table_source import TableSource


def open_table_source(operator: TableSource, context: KernelContext, forward: OnBatch | None) -> OnBatch:
    """Return what puts records into the rows of their keys; as a batch, updates are their new values."""
    if operator.store is None:
        assert forward is not None
        return with_keys(forward, context.drop)
    store = context.store(operator.store)
    put = open_put_to(store)
    if store.cached:
        if forward is not None:
            store.on_flush_batch(forwarding(forward))
        return with_keys(put, context.drop)

    def put_and_forward(batch: Batch, transaction: BatchTransaction) -> None:
        assert forward is not None
        put(batch, transaction)
        forward(batch, transaction)

    return with_keys(put_and_forward, context.drop)


def _refuses(operator: TableSource, facts: NodeFacts) -> str | None:
    if operator.store is None:
        return None
    if operator.send_old and not facts.is_cached(operator.store):
        return (
            f"store {operator.store} is not cached, and old values are asked for: each row is read before it is written"
        )
    return facts.not_plain(operator.store)


def _effects(operator: TableSource) -> Effects:
    return Effects(writes=() if operator.store is None else (operator.store,), publishes=True)


TABLE_SOURCE = Kernel(open_table_source, _refuses, _effects, ends=True)
