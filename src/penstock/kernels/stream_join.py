"""Stream-stream joins by column: the records of both sides, thousands at a time, each with what lies in front of its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.merge import binary, merge_batches
from penstock.kernels.join_window import times_for
from penstock.kernels.kernel import JoinResult, KernelContext
from penstock.kernels.transaction import BatchTransaction, present
from penstock.state.duplicate_rows import Matches, SpanQuery
from penstock.state.window import WindowStore


@dataclass(frozen=True, slots=True)
class InnerJoinSide:
    """One side of an inner join: ``joiner(left, right)``, or ``(key, left, right)`` with ``with_key``."""

    context: KernelContext
    own: str
    other: WindowStore
    before: int
    after: int
    joiner: Callable[..., Any]
    with_key: bool
    left: bool

    def join_batches(self, parts: Sequence[tuple[Any, Batch]], transaction: BatchTransaction) -> JoinResult:
        """Join the records of both sides; the results in the order of their places."""
        found: list[Batch] = []
        checks: list[Callable[[], None]] = []
        for side, batch in parts:
            assert isinstance(side, InnerJoinSide)
            joined = side.join(batch, transaction, checks)
            if joined is not None:
                found.append(joined)
                transaction.on_commit(partial(side.context.count_out, len(joined)))

        def check() -> None:
            for unchanged in checks:
                unchanged()

        return JoinResult(merge_batches(found) if found else None, check)

    def join(self, batch: Batch, transaction: BatchTransaction, checks: list[Callable[[], None]]) -> Batch | None:
        """Return the results of this side's records, in order."""
        at = present(transaction, self.context.drop, null_key=batch.keys, null_value=batch.values)
        if at is not None:
            batch = batch.pick(at)
        matches = self.find(batch, transaction) if len(batch) else None
        if matches is None:
            return None
        published = transaction.published.get(self.own)
        if published is not None:
            checks.append(lambda: published.check(np.unique(matches.at)))
        return self.results(batch, matches)

    def find(self, batch: Batch, transaction: BatchTransaction) -> Matches | None:
        """Return the rows of the other side that records meet."""
        times = batch.timestamps
        asked = SpanQuery(
            binary(batch.keys.bytes_of(self.other.serdes[0])),
            batch.places,
            np.maximum(times - self.before, 0),
            np.maximum(times + self.after, 0),
        )
        before = times_for(self.context, self.other, batch, lambda limits: limits[1], asked.since, included=False)
        published = transaction.published.get(self.other.name)
        return self.other.find(asked, None if published is None else published.delta, before)

    def results(self, batch: Batch, matches: Matches) -> Batch:
        """Return a record for each row that was met; the row is decoded anew for each."""
        at = matches.at.tolist()
        keys, mine = batch.keys.pick(at), batch.values.pick(at).items
        others = Column(data=matches.values, serde=self.other.serdes[1]).items
        pair = (mine, others) if self.left else (others, mine)
        values = list(map(self.joiner, keys.items, *pair) if self.with_key else map(self.joiner, *pair))
        spread = batch.spread(at, keys, Column(values))
        spread.timestamps = np.maximum(spread.timestamps, matches.starts)
        return spread
