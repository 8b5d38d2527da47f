"""A node in which records of several sources meet: by column it waits until the chains of all of them have run."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.batch.batch import Batch, Commits, OnBatch
from penstock.operators.base import Side


class Meeting:
    """What the parents of a node have brought, until it is taken together; where nobody waits it is taken as it comes."""

    def __init__(self, tail: OnBatch) -> None:
        self._tail = tail
        self._parts: list[tuple[Side, Batch]] | None = None

    def brings(self, side: Side) -> OnBatch:
        """Return what takes the records of one of the parents."""

        def on_batch(batch: Batch, commits: Commits) -> None:
            if self._parts is None:
                self._run([(side, batch)], commits)
            else:
                self._parts.append((side, batch))

        return on_batch

    def wait(self) -> None:
        """Take nothing until all have come."""
        self._parts = []

    def give_up(self) -> None:
        """Forget what was brought."""
        self._parts = None

    def run(self, commits: Commits) -> None:
        """Take what was brought."""
        parts, self._parts = self._parts, None
        if parts:
            self._run(parts, commits)

    def _run(self, parts: Sequence[tuple[Side, Batch]], commits: Commits) -> None:
        met = parts[0][0].meet(parts, commits)
        if met.batch is not None:
            self._tail(met.batch, commits)
        met.check()
