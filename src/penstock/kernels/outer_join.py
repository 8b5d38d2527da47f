"""Kernel of stream-stream joins; left and outer ones are as inner ones, and what waits for a match leaves when its window is closed.

A record that finds nothing waits, until the first record of the other side that finds it, or the first one, of any side, that finds
its window closed. Both are found for all records at once; of those that are still waiting at the end rows are written.

Only where nothing of it goes on to another step, or to a node that acts on time: there a row that leaves because time has come has a
place of its own in the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from penstock.batch.batch import Batch
from penstock.batch.fallback import Fallback
from penstock.batch.merge import merge_batches
from penstock.kernels.kernel import Effects, JoinKernel, JoinResult, JoinSide, KernelContext, NodeFacts
from penstock.kernels.outer_join_parts import (
    NEVER,
    ClosedRow,
    Looks,
    Part,
    Staying,
    UnmatchedRows,
    check_disjoint,
    closed_results,
    found_before,
    matched,
    note_waiting,
    results_alone,
    waiting_of,
)
from penstock.kernels.stream_join import InnerJoinSide
from penstock.kernels.transaction import BatchTransaction, present
from penstock.operators.stream_join import StreamStreamJoin
from penstock.state.keys import parse_join_side_key, parse_list
from penstock.state.outer_join import OuterJoinStore


@dataclass(frozen=True, slots=True)
class OuterJoinSide(InnerJoinSide):
    """One side of a left or outer join. ``outer``: its records give a result without a match, too. ``waits``: right, left."""

    outer: bool
    other_outer: bool
    parked: OuterJoinStore
    clock: str
    waits: tuple[int, int]

    def join_batches(self, parts: Sequence[tuple[Any, Batch]], transaction: BatchTransaction) -> JoinResult:
        """Join the records of both sides; in the order of their places what each finds closed, and then its own results."""
        known, looks = self._timed(parts, transaction)
        waiting = [one for one in (waiting_of(part, known, looks) for part in known) if one is not None]
        closed = self._settle(known, waiting, looks, transaction)
        given = [(part, closed_results(part, number, closed, looks)) for number, part in enumerate(known)]
        checks: list[Callable[[], None]] = []
        for part in known:
            given += [(part, matched(part)), (part, results_alone(part))]
            published = part.published
            met = np.unique(np.concatenate([part.lone(), [] if part.matches is None else part.matches.at]))
            if published is not None:
                checks.append(partial(published.check, met.astype(np.int64)))

        def check() -> None:
            for unchanged in checks:
                unchanged()

        found = [(part, *one) for part, one in given if one is not None]
        for part, batch, _ in found:
            transaction.on_commit(partial(part.side.context.count_out, len(batch)))
        results, turns = [batch for _, batch, _ in found], [turn for _, _, turn in found]
        return JoinResult(merge_batches(results, turns) if results else None, check)

    def closed_at(self, time: int, left: bool) -> int:
        """Return the time at which a row without a match is closed: that of the first move past its window."""
        return self.context.time_reaching(time + self.waits[left] + 1, self.clock)

    def _timed(self, parts: Sequence[tuple[Any, Batch]], transaction: BatchTransaction) -> tuple[list[Part], Looks]:
        """Let all records move the clock; return those that have a key and a value, and what they have found."""
        now = np.concatenate([self.context.times_of(batch, self.clock) for _, batch in parts])
        order = np.argsort(np.concatenate([batch.places for _, batch in parts]), kind="stable")
        if (np.diff(now[order]) < 0).any():  # what was closed would be open again
            raise Fallback("time_went_back")
        turns = np.empty(len(order), dtype=np.int64)
        turns[order] = np.arange(len(order))
        edges = np.cumsum([len(batch) for _, batch in parts])[:-1]
        split = zip(parts, np.split(turns, edges), np.split(now, edges), strict=True)
        known = [_part(part, turn, after, transaction) for part, turn, after in split]
        return known, _looks(known)

    def _settle(
        self, known: list[Part], waiting: list[UnmatchedRows], looks: Looks, transaction: BatchTransaction
    ) -> list[ClosedRow]:
        """Return the rows that leave, in order; the store is told of them, and of those that stay, when all went well."""
        last = int(looks.now[-1]) if len(looks.now) else None
        stored = {} if last is None else self.parked.closed_by(last, self.waits)
        found = found_before(known)
        stored |= self.parked.waiting(raw_key for raw_key in found if raw_key not in stored)
        closed: list[ClosedRow] = []
        gone: list[tuple[bytes, int]] = []
        for raw_key, raw in stored.items():
            time, left, key = parse_join_side_key(raw_key)
            look = int(looks.first(time + self.waits[left], -1))
            turn, at = found.get(raw_key, (NEVER, 0))
            if look < len(looks.turns) and int(looks.turns[look]) <= turn:
                reached = self.closed_at(time, left)
                gone.append((raw_key, reached))
                items = (item for item in parse_list(raw) if item is not None)
                closed += [
                    ClosedRow(look, reached, time, left, key, number, item[1:]) for number, item in enumerate(items)
                ]
            else:
                gone.append((raw_key, at))
        staying: list[Staying] = []
        for one in waiting:
            check_disjoint(one, stored)
            note_waiting(one, looks, closed, staying)
        staying.sort()
        parked, waits = self.parked, self.waits

        def commit() -> None:
            parked.settle(gone, [row for _, row in staying])
            for side in (False, True):
                times = [one.part.batch.timestamps[one.at] for one in waiting if one.part.side.left is side]
                parked.note(side, times[0] if times else (), None if last is None else last - waits[side])

        transaction.on_commit(commit)
        return sorted(closed)


def _part(part: tuple[Any, Batch], turns: Any, now: Any, transaction: BatchTransaction) -> Part:
    side, batch = part
    if side.outer and batch.keys.has_nulls:  # they give a result of their own
        raise Fallback("null_key")
    at = present(transaction, side.context.drop, null_key=batch.keys, null_value=batch.values)
    if at is not None:
        batch, turns, now = batch.pick(at), turns[at], now[at]
    published = transaction.published.get(side.own)
    if len(batch) and (published is None or published.serde != side.parked.side_serdes[side.left]):
        raise Fallback("other_serde")
    return Part(side, batch, turns, now, side.find(batch, transaction) if len(batch) else None, published)


def _looks(known: list[Part]) -> Looks:
    at = [np.arange(len(part.turns)) for part in known]
    turns = np.concatenate([part.turns for part in known])
    order = np.argsort(turns, kind="stable")
    now = np.concatenate([part.now for part in known])
    number = np.repeat(np.arange(len(known)), [len(mine) for mine in at])
    return Looks(turns[order], now[order], number[order], np.concatenate(at)[order])


def open_join(operator: StreamStreamJoin, context: KernelContext) -> JoinSide:
    """Return one side of a join."""
    other, windows = context.store(operator.store_other), operator.windows
    inner = (
        context,
        operator.store_own,
        other,
        *operator.reach(),
        operator.joiner,
        operator.with_key,
        operator.left_side,
    )
    if operator.shared_store is None:
        return InnerJoinSide(*inner)
    return OuterJoinSide(
        *inner,
        operator.outer,
        operator.kind == "outer" or not operator.left_side,
        context.store(operator.shared_store),
        operator.clock,
        (windows.before + windows.grace, windows.after + windows.grace),
    )


def _refuses(operator: StreamStreamJoin, facts: NodeFacts) -> str | None:
    if operator.shared_store is None:
        return "an outer join without a store of unmatched records has no kernel" if operator.outer else None
    if facts.leads_on:
        return "what it emits because of time goes on to a later step, or to a node that acts on time"
    return None


def _effects(operator: StreamStreamJoin) -> Effects:
    shared = () if operator.shared_store is None else (operator.shared_store,)
    return Effects(writes=shared, reads=(operator.store_other,))


STREAM_JOIN = JoinKernel(open_join, _refuses, _effects)
