"""The inputs of a join: the batches of several parents, which wait until the chains of all of them have run."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.batch.batch import Batch
from penstock.kernels.kernel import JoinSide
from penstock.kernels.transaction import BatchTransaction, OnBatch


class JoinInputs:
    """The batches that the parents of a node have brought, until they are joined; where nobody waits they are joined as they come."""

    def __init__(self, downstream: OnBatch) -> None:
        self._downstream = downstream
        self._parts: list[tuple[JoinSide, Batch]] | None = None

    def accepts(self, side: JoinSide) -> OnBatch:
        """Return what takes the batches of one of the parents."""

        def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
            if self._parts is None:
                self._run([(side, batch)], transaction)
            else:
                self._parts.append((side, batch))

        return on_batch

    def wait(self) -> None:
        """Join nothing until all parents have run."""
        self._parts = []

    def discard(self) -> None:
        """Forget the batches: they fall back."""
        self._parts = None

    def run(self, transaction: BatchTransaction) -> None:
        """Join the batches."""
        parts, self._parts = self._parts, None
        if parts:
            self._run(parts, transaction)

    def _run(self, parts: Sequence[tuple[JoinSide, Batch]], transaction: BatchTransaction) -> None:
        joined = parts[0][0].join_batches(parts, transaction)
        if joined.batch is not None:
            self._downstream(joined.batch, transaction)
        joined.check()
