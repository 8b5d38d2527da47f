"""Kernel of the window of a stream join: records are published with their positions, and put into the store when all went well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.fallback import Fallback
from penstock.batch.merge import binary
from penstock.kernels.kernel import Effects, Kernel, KernelContext, NodeFacts
from penstock.kernels.transaction import BatchTransaction, OnBatch
from penstock.operators.stream_join import JoinWindow
from penstock.serde import Serde
from penstock.serde.traits import is_canonical
from penstock.state.delta import StoreDelta
from penstock.state.duplicate_rows import DuplicateRows
from penstock.state.keys import MAX_SEQUENCE
from penstock.state.window import WindowStore


class PublishedRecords(NamedTuple):
    """Records that a batch is about to put into the store of a join: the rows, with the places of their records.

    ``at``: which of the records that have a key and a value each row is of; the others are too old.
    """

    delta: StoreDelta
    at: Any
    #: the values of all records that have one, as objects, and the bytes that were made of them; None where nobody can change them
    items: list[Any] | None
    data: pa.Array
    serde: Any

    def check(self, at: Any) -> None:
        """Refuse values that were changed meanwhile: the record path would put them as they are now."""
        if self.items is not None and len(at):
            now = binary(Column([self.items[place] for place in at.tolist()]).bytes_of(self.serde))
            if not now.equals(self.data.take(pa.array(at))):
                raise Fallback("value_changed")


def open_add(
    rows: DuplicateRows,
    name: str,
    serdes: tuple[Serde[Any], Serde[Any]],
    drop: Callable[[str], None],
    times_of: Callable[[Batch, Any], Any],
) -> OnBatch:
    """Return what puts the records that have a key, each as a row of its own.

    One without a value, and one that is too old, takes a sequence number, and is only logged.
    """

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        if batch.keys.has_nulls:
            batch = batch.pick(np.flatnonzero(_there(batch.keys)).tolist())
        if not len(batch):
            return
        whole, valued = _whole(rows, serdes, batch)
        taken = valued & (whole.starts >= rows.limits_of(times_of(batch, whole.starts))[0])
        published = PublishedRecords(
            whole.where(taken),
            np.flatnonzero(taken[valued]),
            _changeable(batch.values, serdes[1], valued),
            whole.values if valued.all() else whole.values.filter(pa.array(valued)),
            serdes[1],
        )
        transaction.published[name] = published
        gone = None if taken.all() else whole.where(~taken)

        def commit() -> None:
            rows.sequence = int(whole.sequences[-1])
            if gone is not None:
                _log_only(rows, gone, drop)
            if len(published.at):
                rows.lay(published.delta)

        transaction.on_commit(commit)

    return on_batch


def _whole(rows: DuplicateRows, serdes: tuple[Serde[Any], Serde[Any]], batch: Batch) -> tuple[StoreDelta, Any]:
    """Return all records as rows, whether or not they are kept, and which of them have a value."""
    count, valued = len(batch), _there(batch.values)
    if int(batch.timestamps.min()) < 0 or rows.sequence + count > MAX_SEQUENCE:
        raise Fallback("negative_time_or_sequence_over")
    if not rows.spec.persistent and not valued.all():  # a store in memory takes in their time
        raise Fallback("null_value")
    headers = batch.headers if batch.headers is not None and any(batch.headers) else None
    delta = StoreDelta(
        binary(batch.keys.bytes_of(serdes[0])),
        binary(batch.values.bytes_of(serdes[1])),
        batch.of_source(batch.provenance.times()),
        batch.timestamps,
        np.arange(rows.sequence + 1, rows.sequence + 1 + count),
        headers,
        batch.places,
    )
    return delta, valued


def _log_only(rows: DuplicateRows, gone: StoreDelta, drop: Callable[[str], None]) -> None:
    suffix, log_headers = rows.positions.suffix, rows.spec.log_headers
    for key, position, (value, time, headers, _, _) in gone.entries():
        if value is not None:
            drop("expired")
        rows.only_logged.append((key + suffix(position), value, time, headers if log_headers else ()))


def _changeable(values: Column, serde: Serde[Any], valued: Any) -> list[Any] | None:
    """Return the values of records that have one, if somebody may change them."""
    if is_canonical(serde) and values.is_bytes_of(serde):
        return None
    return values.items if valued.all() else [item for item in values.items if item is not None]


def _there(column: Column) -> Any:
    """Return a mask of the items that are not None."""
    if not column.has_nulls:
        return np.ones(len(column), dtype=bool)
    return np.array([item is not None for item in column.items], dtype=bool)


def open_join_window(operator: JoinWindow, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what publishes records before they go on, and keeps them when all went well."""
    store = context.store(operator.store)

    def times_of(batch: Batch, starts: Any) -> Any:
        return times_for(context, store, batch, lambda limits: limits[0], starts, included=True)

    publish = open_add(store.rows, store.name, store.serdes, store.drop, times_of)

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        publish(batch, transaction)
        forward(batch, transaction)

    return on_batch


def times_for(
    context: KernelContext,
    store: WindowStore,
    batch: Batch,
    limit: Callable[[Any], Any],
    starts: Any,
    *,
    included: bool,
) -> Any:
    """Return times of a store at many records, of which only a limit counts, and that only where it is later than ``starts``.

    Most records are far from being late: that a limit is not later is then seen without the time itself, which has to be searched for.
    """
    rows, clock = store.rows, f"store/{store.name}"
    assert isinstance(rows, DuplicateRows)
    at_most = context.times_at_most(batch, clock)
    if at_most is not None and (limit(rows.limits_of(at_most)) <= starts).all():
        return at_most
    return context.times_of(batch, clock, included=included)


def _refuses(operator: JoinWindow, facts: NodeFacts) -> str | None:
    spec = facts.spec(operator.store)
    if facts.late_policies:
        return "a source has a late policy, so that each record is asked for its source"
    if not spec.retain_duplicates or spec.time_ordered:
        return f"store {operator.store} does not keep duplicates, or is ordered by time"
    return None


def _effects(operator: JoinWindow) -> Effects:
    return Effects(writes=(operator.store,), publishes=True)


JOIN_WINDOW = Kernel(open_join_window, _refuses, _effects)
