"""Kernels of stateless operators: filter, map, flat_map, select_key, to_stream. One call of the user's function a record."""

from __future__ import annotations

from itertools import compress, repeat
from operator import not_
from typing import Any

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.kernels.kernel import Kernel, KernelContext, NodeFacts, before_calls
from penstock.kernels.transaction import BatchTransaction, OnBatch
from penstock.kernels.user_calls import FailedCall, apply_error_policy, call_each
from penstock.operators.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Map,
    MapValues,
    SelectKey,
    as_iterable,
    as_pair,
)
from penstock.operators.table import TableToStream


def open_filter(operator: Filter, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what forwards the records for which the predicate holds."""
    predicate, negate = operator.predicate, operator.negate

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        items = batch.keys.items, batch.values.items
        batch, answers = call_each(context, batch, transaction, predicate, *items)
        at = list(compress(range(len(batch)), map(not_, answers) if negate else answers))
        if at:
            forward(batch if len(at) == len(batch) else batch.pick(at), transaction)

    return on_batch


def open_select_key(operator: SelectKey, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what replaces keys."""
    mapper = operator.mapper

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        items = batch.keys.items, batch.values.items
        batch, keys = call_each(context, batch, transaction, mapper, *items)
        if keys:
            forward(batch.having(keys=Column(keys)), transaction)

    return on_batch


def open_map(operator: Map, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what replaces keys and values."""
    mapper = operator.mapper

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        items = batch.keys.items, batch.values.items
        batch, pairs = call_each(context, batch, transaction, mapper, *items)
        if not are_pairs(pairs):
            batch, pairs = call_each(context, batch, transaction, as_pair, pairs, repeat("map"))
        if pairs:
            forward(batch.having(*split_pairs(pairs)), transaction)

    return on_batch


def open_flat_map(operator: FlatMap, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what replaces each record by several."""
    mapper = operator.mapper

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        pairs: list[Any] = []
        at: list[int] = []
        failed: list[FailedCall] = []
        for i, (key, value) in enumerate(zip(batch.keys.items, batch.values.items, strict=True)):
            before = len(pairs)
            try:
                pairs += as_iterable(mapper(key, value), "flat_map")
            except Exception as error:  # what came before it was forwarded
                failed.append(FailedCall(i, error))
            at += [i] * (len(pairs) - before)
        if not are_pairs(pairs):
            pairs, at = _as_pairs(pairs, at, failed)
        apply_error_policy(context, batch, transaction, failed)
        if pairs:
            forward(batch.spread(at, *split_pairs(pairs)), transaction)

    return on_batch


def open_map_values(operator: MapValues, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what replaces values."""
    mapper, with_key = operator.mapper, operator.with_key

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        values = batch.values.items
        items = (batch.keys.items, values) if with_key else (values,)
        batch, mapped = call_each(context, batch, transaction, mapper, *items)
        if mapped:
            forward(batch.having(values=Column(mapped)), transaction)

    return on_batch


def open_flat_map_values(operator: FlatMapValues, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what replaces each record by several with its key."""
    mapper, with_key = operator.mapper, operator.with_key

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        items: list[Any] = []
        at: list[int] = []
        failed: list[FailedCall] = []
        keys = batch.keys.items if with_key else repeat(None)
        for i, (key, value) in enumerate(zip(keys, batch.values.items, strict=False)):
            before = len(items)
            try:
                items += mapper(key, value) if with_key else mapper(value)
            except Exception as error:  # what came before it was forwarded
                failed.append(FailedCall(i, error))
            at += [i] * (len(items) - before)
        apply_error_policy(context, batch, transaction, failed)
        if items:
            forward(batch.spread(at, batch.keys.pick(at), Column(items)), transaction)

    return on_batch


def open_pass_through(operator: Any, context: KernelContext, forward: OnBatch) -> OnBatch:
    """Return what forwards a batch as it is; the updates of a table are, as a batch, their new values."""
    return forward


def _refuses_to_stream(operator: TableToStream, facts: NodeFacts) -> str | None:
    return None if operator.mapper is None else "it maps keys while a table becomes a stream"


def _as_pairs(found: list[Any], at: list[int], failed: list[FailedCall]) -> tuple[list[Any], list[int]]:
    """Return as pairs what mappers have made of records; of a record nothing from the first on that is none, which is a failure."""
    pairs: list[Any] = []
    places: list[int] = []
    ended = -1
    for item, place in zip(found, at, strict=True):
        if place == ended:
            continue
        try:
            pairs.append(as_pair(item, "flat_map"))
            places.append(place)
        except TypeError as error:
            ended = place
            failed[:] = [other for other in failed if other.at != place]  # it was not called so far
            failed.append(FailedCall(place, error))
    failed.sort(key=lambda one: one.at)
    return pairs, places


def are_pairs(items: list[Any]) -> bool:
    """Whether all items are tuples of two.

    >>> are_pairs([(1, 2)]), are_pairs([(1, 2), [1, 2]])
    (True, False)
    """
    return all(item.__class__ is tuple and len(item) == 2 for item in items)


def split_pairs(pairs: list[Any]) -> tuple[Column, Column]:
    """Return pairs as two columns."""
    return Column([pair[0] for pair in pairs]), Column([pair[1] for pair in pairs])


FILTER = Kernel(open_filter, scope=before_calls)
SELECT_KEY = Kernel(open_select_key, scope=before_calls)
MAP = Kernel(open_map, scope=before_calls)
FLAT_MAP = Kernel(open_flat_map, scope=before_calls)
MAP_VALUES = Kernel(open_map_values, scope=before_calls)
FLAT_MAP_VALUES = Kernel(open_flat_map_values, scope=before_calls)
PASS_THROUGH = Kernel(open_pass_through, scope=before_calls)
TO_STREAM = Kernel(open_pass_through, _refuses_to_stream, scope=before_calls)
