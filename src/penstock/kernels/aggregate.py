"""Kernels of aggregations by key: count, reduce, aggregate. The row of a key is read once and written once for a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.kernels.fold import Fold, Folding, open_fold
from penstock.kernels.kernel import FallbackScope, Kernel, KernelContext, NodeFacts, before_calls, own_store
from penstock.kernels.transaction import OnBatch, forwarding
from penstock.operators.aggregate import StreamAggregate, StreamCount, StreamReduce
from penstock.operators.folds import none_init, zero
from penstock.state.rows import RowStore


def fold_values(aggregator: Callable[[Any, Any, Any], Any]) -> Fold:
    """Return the fold of many values of one key by an aggregator.

    >>> fold_values(lambda key, value, total: total + value).many("a", [1, 2, 3], 10, frozenset({int}), lambda value: value)
    16
    """

    def fold(key: Any, values: list[Any], old: Any, kept: frozenset[type], settle: Callable[[Any], Any]) -> Any:
        old = aggregator(key, values[0], old)
        for value in values[1:]:
            if old.__class__ not in kept:
                old = settle(old)
            old = aggregator(key, value, old)
        return old

    return Fold(aggregator, fold)


def reduce_values(reducer: Callable[[Any, Any], Any]) -> Fold:
    """Return the fold of many values of one key by a reducer; the first value is taken as it is."""

    def one(key: Any, value: Any, old: Any) -> Any:
        return value if old is None else reducer(old, value)

    def many(key: Any, values: list[Any], old: Any, kept: frozenset[type], settle: Callable[[Any], Any]) -> Any:
        old = values[0] if old is None else reducer(old, values[0])
        for value in values[1:]:
            if old.__class__ not in kept:
                old = settle(old)
            old = reducer(old, value)
        return old

    return Fold(one, many)


def open_aggregate(operator: StreamAggregate, context: KernelContext, forward: OnBatch | None) -> OnBatch:
    """Return what folds records into the rows of their keys."""
    return _open(context, operator, forward, operator.initializer, fold_values(operator.aggregator))


def open_count(operator: StreamCount, context: KernelContext, forward: OnBatch | None) -> OnBatch:
    """Return what counts records by key."""
    return _open(context, operator, forward, zero, None)


def open_reduce(operator: StreamReduce, context: KernelContext, forward: OnBatch | None) -> OnBatch:
    """Return what reduces the values of each key."""
    return _open(context, operator, forward, none_init, reduce_values(operator.reducer))


def _open(
    context: KernelContext, operator: Any, forward: OnBatch | None, initializer: Callable[[], Any], fold: Fold | None
) -> OnBatch:
    store: RowStore = context.store(operator.store)
    if forward is not None:
        store.on_flush_batch(forwarding(forward))
    if fold is not None:
        fold = fold._replace(single=context.one_by_one)
    return open_fold(store.rows, Folding(*store.serdes, initializer, fold), store.next_number, context.drop)


def refuses_uncached(store: str, facts: NodeFacts) -> str | None:
    """Return why updates of a store cannot leave together; None if they can."""
    return None if facts.is_cached(store) else f"store {store} is not cached, so that each update leaves by itself"


def _refuses(operator: Any, facts: NodeFacts) -> str | None:
    return facts.not_plain(operator.store) or refuses_uncached(operator.store, facts)


def _node(operator: StreamCount) -> FallbackScope:
    return FallbackScope.node


AGGREGATE = Kernel(open_aggregate, _refuses, own_store, before_calls, ends=True)
COUNT = Kernel(open_count, _refuses, own_store, _node, ends=True)
REDUCE = Kernel(open_reduce, _refuses, own_store, before_calls, ends=True)
