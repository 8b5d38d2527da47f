"""Kernels with a meter: a batch is counted at its node once its transaction is committed, and the time of each kernel is measured."""

from __future__ import annotations

from functools import partial

from penstock.batch.batch import Batch
from penstock.kernels.transaction import BatchTransaction, OnBatch
from penstock.processor.node_meter import NodeMeter


def metered(meter: NodeMeter, node: str, on_batch: OnBatch) -> OnBatch:
    """Return a kernel whose records and time are counted for its node."""

    def take(batch: Batch, transaction: BatchTransaction) -> None:
        transaction.on_commit(partial(meter.count_in, node, batch.count))
        transaction.run_at(node, meter.run, on_batch, batch)

    return take


def counted_out(meter: NodeMeter, node: str, forward: OnBatch) -> OnBatch:
    """Return what takes the batches that a node forwards, and counts their records."""

    def take(batch: Batch, transaction: BatchTransaction) -> None:
        transaction.on_commit(partial(meter.count_out, node, batch.count))
        forward(batch, transaction)

    return take
