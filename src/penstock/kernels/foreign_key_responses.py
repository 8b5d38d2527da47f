"""Kernels of foreign-key joins, the way back: subscriptions are answered, and responses joined with the rows they were asked for.

The row of the right table is put into a response as it is stored, and first read where it is joined.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.batch.batch import Batch
from penstock.batch.column import Column, spread_out
from penstock.batch.foreign_key import Responses, read_responses, read_subscriptions, write_combined, write_responses
from penstock.batch.murmur3 import murmur3_128_of
from penstock.kernels.foreign_key import LEAVE, LEAVE_AND_RESPOND, RESPOND_IF_FOUND, is_valid, refuses_serdes
from penstock.kernels.kernel import Effects, Kernel, KernelContext, NodeFacts
from penstock.kernels.table_rows import ReadBatch, ReadRaw, open_read_raw
from penstock.kernels.table_view import open_view, refuses_view
from penstock.kernels.transaction import BatchTransaction, OnBatch
from penstock.operators.foreign_key_join import ForeignKeySerdes, ForeignTableUpdate, ResponseJoin, SubscriptionJoin
from penstock.operators.views import StoreView
from penstock.serde import Serde


def answer_with(forward: OnBatch, sides: ForeignKeySerdes, read: ReadRaw) -> OnBatch:
    """Return what answers subscriptions with the rows of the right table."""

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        hashes, instructions, primary_keys = read_subscriptions(batch.values.arrow_of(sides.subscription, read=True))
        rows, row_times, at = _rows_of(read, batch.keys.arrow_of(sides.foreign_key), batch, transaction)
        found = is_valid(rows)[at]
        told = np.flatnonzero((instructions != LEAVE) & (found | (instructions != RESPOND_IF_FOUND)))
        if not len(told):
            return
        at, places = at[told], pa.array(told)
        values = rows.take(pa.array(at, mask=instructions[told] == LEAVE_AND_RESPOND))
        data = write_responses(Responses(hashes.take(places), values))
        keys = Column(data=primary_keys.take(places), serde=sides.primary_key, made=True)
        answers = batch.spread(told.tolist(), keys, Column(data=data, serde=sides.response, made=True))
        answers.timestamps = np.maximum(answers.timestamps, row_times[at])
        forward(answers, transaction)

    return on_batch


def _rows_of(read: ReadRaw, keys: pa.Array, batch: Batch, transaction: BatchTransaction) -> tuple[pa.Array, Any, Any]:
    """Return rows, their times, and which of them each record has; without a foreign key it has none."""
    if not keys.null_count:
        return read(keys, batch, transaction)
    known = is_valid(keys)
    nobody = pa.nulls(1, pa.binary())
    if not known.any():
        return nobody, np.array([-1]), np.zeros(len(keys), dtype=np.int64)
    rows, times, found = read(keys.drop_null(), batch.pick(np.flatnonzero(known).tolist()), transaction)
    at = np.full(len(keys), len(rows), dtype=np.int64)
    at[known] = found
    return pa.concat_arrays([rows, nobody]), np.append(times, -1), at


def update_subscribers(
    forward: OnBatch, sides: ForeignKeySerdes, subscribers: Callable[[list[bytes]], list[list[tuple[bytes, bytes]]]]
) -> OnBatch:
    """Return what sends updated rows of the right table to all who have subscribed to them."""

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        foreign = batch.keys.arrow_of(sides.foreign_key)
        values = batch.values.arrow_of(sides.foreign_value)
        prefixes = write_combined(foreign, pa.repeat(pa.scalar(b"", pa.binary()), len(foreign))).to_pylist()
        found = subscribers(prefixes)
        counts = np.fromiter(map(len, found), dtype=np.int64, count=len(found))
        if not counts.any():
            return
        primary = [key[len(prefix) :] for prefix, rows in zip(prefixes, found, strict=True) for key, _ in rows]
        subscriptions = read_subscriptions(pa.array([value for rows in found for _, value in rows], pa.binary()))
        at = np.repeat(np.arange(len(found)), counts)
        data = write_responses(Responses(subscriptions.hashes, values.take(pa.array(at))))
        keys = Column(data=pa.array(primary, pa.binary()), serde=sides.primary_key, made=True)
        responses = Column(data=data, serde=sides.response, made=True)
        forward(batch.spread(at.tolist(), keys, responses), transaction)

    return on_batch


class ResponseResolver(NamedTuple):
    """How responses are joined with the rows that they were asked for: ``read`` finds these."""

    read: ReadBatch
    value: Serde[Any]
    joiner: Callable[[Any, Any], Any]
    left: bool

    def open(self, context: KernelContext, forward: OnBatch, sides: ForeignKeySerdes) -> OnBatch:
        """Return what joins responses, unless their rows have changed since."""
        drop = context.drop

        def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
            hashes, values = read_responses(batch.values.arrow_of(sides.response, read=True))
            rows, gaps = self.read(batch.keys, batch, transaction)
            now = murmur3_128_of(Column(rows).arrow_of(self.value))
            same = pc.fill_null(pc.equal(hashes, now), False).to_numpy(zero_copy_only=False)
            if gaps:
                same = same | ~(is_valid(hashes) | is_valid(now))
            if not same.all():
                transaction.drop(drop, "stale_response", int((~same).sum()))
                at = np.flatnonzero(same).tolist()
                batch, rows, values = batch.pick(at), [rows[place] for place in at], values.filter(pa.array(same))
            if rows:
                forward(batch.having(values=Column(self._joined(rows, values, sides, gaps))), transaction)

        return on_batch

    def _joined(self, rows: list[Any], values: pa.Array, sides: ForeignKeySerdes, gaps: bool) -> list[Any]:
        """Return what the joiner makes of rows, None where there is nothing to join."""
        if self.left or gaps:
            found = Column(data=values, serde=sides.foreign_value).items
            return [
                None if value is None and (not self.left or row is None) else self.joiner(row, value)
                for row, value in zip(rows, found, strict=True)
            ]
        if not values.null_count:
            return self._joined_all(rows, Column(data=values, serde=sides.foreign_value).items)
        there = is_valid(values)
        known = [rows[place] for place in np.flatnonzero(there).tolist()]
        return spread_out(
            self._joined_all(known, Column(data=values.drop_null(), serde=sides.foreign_value).items), there
        )

    def _joined_all(self, rows: list[Any], found: list[Any]) -> list[Any]:
        if not any(map(is_, found, repeat(None))):
            return list(map(self.joiner, rows, found))
        return [None if value is None else self.joiner(row, value) for row, value in zip(rows, found, strict=True)]


def open_answer(operator: SubscriptionJoin, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what answers subscriptions, where the right rows are stored as they are answered with."""
    right, sides = operator.right, operator.sides
    assert isinstance(right, StoreView)
    assert sides is not None
    store = context.store(right.store)
    return answer_with(forward, sides, open_read_raw(store.rows, store.name))


def open_update(operator: ForeignTableUpdate, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what sends updated right rows to their subscribers."""
    assert operator.sides is not None
    return update_subscribers(forward, operator.sides, context.store(operator.store).rows.under)


def open_response(operator: ResponseJoin, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what joins responses with the left rows that they were asked for."""
    assert operator.sides is not None
    resolver = ResponseResolver(open_view(operator.table, context), operator.value, operator.joiner, operator.left)
    return resolver.open(context, forward, operator.sides)


def _refuses_bytes(sides: ForeignKeySerdes | None) -> str | None:
    if sides is not None and not sides.stay_bytes:
        return "a serde may write a value in several ways, so that stored bytes cannot go on as they are"
    return refuses_serdes(sides)


def _refuses_answer(operator: SubscriptionJoin, facts: NodeFacts) -> str | None:
    right, sides = operator.right, operator.sides
    if sides is None or not sides.stay_bytes:
        return _refuses_bytes(sides)
    if not isinstance(right, StoreView):
        return "the right table has no store"
    if facts.serdes(right.store) != (sides.foreign_key, sides.foreign_value):
        return "the right table is stored with other serdes than it is joined with"
    return facts.not_plain(right.store)


def _refuses_update(operator: ForeignTableUpdate, facts: NodeFacts) -> str | None:
    if operator.versioned:
        return "the right table is versioned"
    return _refuses_bytes(operator.sides) or facts.not_plain(operator.store)


def _refuses_response(operator: ResponseJoin, facts: NodeFacts) -> str | None:
    return refuses_serdes(operator.sides) or refuses_view(operator.table, facts)


ANSWER = Kernel(open_answer, _refuses_answer, lambda operator: Effects(reads=operator.right.stores))
UPDATE = Kernel(open_update, _refuses_update, lambda operator: Effects(reads=(operator.store,)))
RESPONSE = Kernel(open_response, _refuses_response, lambda operator: Effects(reads=operator.table.stores))
