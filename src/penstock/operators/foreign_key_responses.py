"""Foreign-key joins by column, the way back: subscriptions are answered, and responses joined with the rows they were asked for.

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

from penstock.batch.batch import Batch, Commits, OnBatch
from penstock.batch.column import Column, spread_out
from penstock.batch.foreign_key import Responses, read_responses, read_subscriptions, write_combined, write_responses
from penstock.batch.murmur3 import murmur3_128_of
from penstock.operators.base import OperatorContext
from penstock.operators.foreign_key_columns import LEAVE, LEAVE_AND_TELL, TELL_IF_FOUND, Sides, drop_all, is_valid
from penstock.serde import Serde
from penstock.state.as_of import ReadBatch, ReadRaw


def open_answer(forward: OnBatch, sides: Sides, read: ReadRaw) -> OnBatch:
    """Return what answers subscriptions with the rows of the right table."""

    def on_batch(batch: Batch, commits: Commits) -> None:
        hashes, instructions, primary_keys = read_subscriptions(batch.values.arrow_of(sides.subscription, read=True))
        rows, row_times, at = _rows_of(read, batch.keys.arrow_of(sides.foreign_key), batch)
        found = is_valid(rows)[at]
        told = np.flatnonzero((instructions != LEAVE) & (found | (instructions != TELL_IF_FOUND)))
        if not len(told):
            return
        at, places = at[told], pa.array(told)
        values = rows.take(pa.array(at, mask=instructions[told] == LEAVE_AND_TELL))
        data = write_responses(Responses(hashes.take(places), values))
        keys = Column(data=primary_keys.take(places), serde=sides.primary_key, made=True)
        answers = batch.spread(told.tolist(), keys, Column(data=data, serde=sides.response, made=True))
        answers.timestamps = np.maximum(answers.timestamps, row_times[at])
        forward(answers, commits)

    return on_batch


def _rows_of(read: ReadRaw, keys: pa.Array, batch: Batch) -> tuple[pa.Array, Any, Any]:
    """Return rows, their times, and which of them each record has; without a foreign key it has none."""
    if not keys.null_count:
        return read(keys, batch)
    known = is_valid(keys)
    nobody = pa.nulls(1, pa.binary())
    if not known.any():
        return nobody, np.array([-1]), np.zeros(len(keys), dtype=np.int64)
    rows, times, found = read(keys.drop_null(), batch.pick(np.flatnonzero(known).tolist()))
    at = np.full(len(keys), len(rows), dtype=np.int64)
    at[known] = found
    return pa.concat_arrays([rows, nobody]), np.append(times, -1), at


def open_update(
    forward: OnBatch, sides: Sides, subscribers: Callable[[list[bytes]], list[list[tuple[bytes, bytes]]]]
) -> OnBatch:
    """Return what sends updated rows of the right table to all who have subscribed to them."""

    def on_batch(batch: Batch, commits: Commits) -> None:
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
        forward(batch.spread(at.tolist(), keys, responses), commits)

    return on_batch


class Resolving(NamedTuple):
    """How responses are joined with the rows that they were asked for: ``read`` finds these."""

    read: ReadBatch
    value: Serde[Any]
    joiner: Callable[[Any, Any], Any]
    left: bool

    def open(self, context: OperatorContext, forward: OnBatch, sides: Sides) -> OnBatch:
        """Return what joins responses, unless their rows have changed since."""
        drop = context.drop

        def on_batch(batch: Batch, commits: Commits) -> None:
            hashes, values = read_responses(batch.values.arrow_of(sides.response, read=True))
            rows, gaps = self.read(batch.keys, batch)
            now = murmur3_128_of(Column(rows).arrow_of(self.value))
            same = pc.fill_null(pc.equal(hashes, now), False).to_numpy(zero_copy_only=False)
            if gaps:
                same = same | ~(is_valid(hashes) | is_valid(now))
            if not same.all():
                drop_all(commits, drop, "stale_response", int((~same).sum()))
                at = np.flatnonzero(same).tolist()
                batch, rows, values = batch.pick(at), [rows[place] for place in at], values.filter(pa.array(same))
            if rows:
                forward(batch.having(values=Column(self._joined(rows, values, sides, gaps))), commits)

        return on_batch

    def _joined(self, rows: list[Any], values: pa.Array, sides: Sides, gaps: bool) -> list[Any]:
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
