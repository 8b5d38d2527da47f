"""Aggregation of a stream by key: aggregate, count, reduce, and the merge node of cogroup.

Records without a key or a value are dropped and counted. A result has the later timestamp of the record and the row,
and the headers of the record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.operators.base import Forward, Operator, OperatorContext
from penstock.operators.materialized import open_rows
from penstock.record import Headers
from penstock.state.rows import RowStore


@dataclass(frozen=True, slots=True)
class StreamAggregate(Operator):
    """Fold each record into the row of its key: ``aggregator(key, value, agg)``, begun with ``initializer()``.

    A result of None deletes the row. The old value of the first update is the initializer's, as in Kafka Streams.
    """

    calls: ClassVar[tuple[str, ...]] = ("aggregator", "initializer")

    store: str
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        store = context.store(self.store)
        read, update = open_rows(store, forward, self.send_old)
        initializer, aggregator, drop = self.initializer, self.aggregator, context.drop
        fold = store.make_fold(initializer, aggregator, drop) if isinstance(store, RowStore) else None
        if fold is not None:
            return fold

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop("null_key" if key is None else "null_value")
                return
            row = read(key)
            if row is None:
                old, later = initializer(), timestamp
            else:
                old, later = row[0], row[1]
                if later < timestamp:
                    later = timestamp
            update(key, aggregator(key, value, old), old, later, headers, timestamp)

        return on_record


@dataclass(frozen=True, slots=True)
class StreamCount(Operator):
    """Count the records of each key, without a Python function per record."""

    store: str
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        read, update = open_rows(context.store(self.store), forward, self.send_old)
        drop = context.drop

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop("null_key" if key is None else "null_value")
                return
            row = read(key)
            if row is None:
                update(key, 1, 0, timestamp, headers, timestamp)
            else:
                later = row[1]
                update(key, row[0] + 1, row[0], timestamp if later < timestamp else later, headers, timestamp)

        return on_record


@dataclass(frozen=True, slots=True)
class StreamReduce(Operator):
    """Combine the values of each key: ``reducer(agg, value)``; the first value is taken as it is."""

    calls: ClassVar[tuple[str, ...]] = ("reducer",)

    store: str
    reducer: Callable[[Any, Any], Any]
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        read, update = open_rows(context.store(self.store), forward, self.send_old)
        reducer, drop = self.reducer, context.drop

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None or value is None:
                drop("null_key" if key is None else "null_value")
                return
            row = read(key)
            if row is None:
                update(key, value, None, timestamp, headers, timestamp)
            else:
                old, later = row[0], row[1]
                new = reducer(old, value)
                update(key, new, old, timestamp if later < timestamp else later, headers, timestamp)

        return on_record


@dataclass(frozen=True, slots=True)
class TablePassThrough(Operator):
    """Forward changes as they are: the node that merges the inputs of a cogroup."""

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""

        def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            forward(key, value, timestamp, headers)

        return on_record
