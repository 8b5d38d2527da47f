"""Fallback at a node: what a kernel cannot take goes record by record through its node and all below; what was before it stays done.

Whatever the node would write is written when all chains of the batch have run, so nothing that comes to it there is called again. It must
not publish, nor read what others publish, as then it has its turn after all of them.

Functions may have changed the values of records that they were called for: such go on as they were, decoded again from their bytes.
Where there are none, and where other nodes have the same values, all records of the batch go again from their source.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

from penstock.batch.batch import Batch
from penstock.batch.fallback import Fallback, FallbackAfterCall, InputChanged, Undecodable
from penstock.kernels.kernel import FallbackScope, KernelHost
from penstock.kernels.transaction import BatchTransaction, OnBatch, reason_of, run_or_fall_back

logger = logging.getLogger("penstock.batch")

#: records that go to the record path together, if one of them is not for the kernel
SMALL = 256


def with_fallback(host: KernelHost, node: str, on_batch: OnBatch, scope: FallbackScope) -> OnBatch:
    """Return what takes a batch, and gives what the kernel cannot take to the record path, as far as the scope allows it."""

    def take(batch: Batch, transaction: BatchTransaction) -> None:
        mark = transaction.savepoint()
        try:
            on_batch(batch, transaction)
        except Exception as error:
            transaction.failed_at = transaction.failed_at or node
            if not _is_contained(error, batch, scope):
                raise
            unchanged = batch.unchanged()
            if unchanged is None:
                raise InputChanged from error
            if scope is FallbackScope.node_as_a_whole or isinstance(error, FallbackAfterCall):
                rest = partial(host.process_at, node, unchanged)
            else:
                rest = partial(_run_separately, host, node, on_batch, unchanged)
            logger.debug("records of %s go one by one", node, exc_info=True)
            transaction.rollback_to(mark)
            transaction.on_commit(partial(host.fell_back, node, reason_of(error)))
            transaction.on_commit(rest)

    return take


def _is_contained(error: Exception, batch: Batch, scope: FallbackScope) -> bool:
    """Whether what was raised at a node concerns this node only."""
    if scope is FallbackScope.source or isinstance(error, Undecodable | InputChanged):
        return False
    if batch.counts is not None:  # there is no record path for what stands for many records
        return False
    return scope is FallbackScope.node or isinstance(error, Fallback)


def _run_separately(host: KernelHost, node: str, on_batch: OnBatch, batch: Batch) -> None:
    """Run few records at a time as a batch, and where that fails one by one."""
    for part in _parts(batch, SMALL):
        if len(part) == len(batch) or not run_or_fall_back([partial(on_batch, part)]):
            host.process_at(node, part)


def _parts(batch: Batch, size: int) -> Iterator[Batch]:
    if len(batch) <= size:
        yield batch
        return
    for begin in range(0, len(batch), size):
        yield batch.pick(list(range(begin, min(begin + size, len(batch)))))
