"""Table operators: filter, map_values, transform_values, to_stream; the source has a file of its own.

The value between table nodes is a ``Change``. A node with a store writes every result there, and forwards through it;
one without a store forwards at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.operators.base import Forward, Operator, OperatorContext, TableView
from penstock.operators.materialized import open_rows
from penstock.operators.process import open_transformer
from penstock.operators.table_aggregate import (
    TableAggregate,
    TableReduce,
    TableRepartitionMap,
    count_down,
    count_up,
    zero,
)
from penstock.operators.table_source import StreamToTable, TableSource
from penstock.processor.supplier import check_transformer_supplier
from penstock.record import Change, Headers

__all__ = [
    "StreamToTable",
    "TableAggregate",
    "TableFilter",
    "TableMapValues",
    "TableReduce",
    "TableRepartitionMap",
    "TableSource",
    "TableToStream",
    "TableTransformValues",
    "count_down",
    "count_up",
    "zero",
]


@dataclass(frozen=True, slots=True)
class TableFilter(Operator):
    """Keep the rows for which ``predicate(key, value)`` holds; a row that is filtered out becomes a tombstone.

    Where old values are known, a tombstone for a row that was not there before is not forwarded, unless ``versioned``:
    the table is versioned, and an older version may have to be taken out.
    """

    calls: ClassVar[tuple[str, ...]] = ("predicate",)

    predicate: Callable[[Any, Any], Any]
    negate: bool = False
    store: str | None = None
    send_old: bool = False
    parent: TableView | None = None
    versioned: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        predicate, negate, send_old = self.predicate, self.negate, self.send_old
        skips_nothing = send_old and not self.versioned

        def kept(key: Any, value: Any) -> Any:
            return value if value is not None and bool(predicate(key, value)) is not negate else None

        if self.store is None:

            def on_record_unstored(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
                new = kept(key, change.new)
                old = kept(key, change.old) if send_old else None
                if new is None and old is None and skips_nothing:
                    return
                forward(key, Change(new, old, change.is_latest), timestamp, headers)

            return on_record_unstored

        read, update = open_rows(context.store(self.store), forward, send_old)

        def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            new = kept(key, change.new)
            row = read(key) if send_old else None
            if new is None and row is None and skips_nothing:
                return
            update(key, new, None if row is None else row[0], timestamp, headers, timestamp)

        return on_record


@dataclass(frozen=True, slots=True)
class TableMapValues(Operator):
    """Map every row's value; a tombstone stays one, without a call of ``mapper``."""

    calls: ClassVar[tuple[str, ...]] = ("mapper",)

    mapper: Callable[..., Any]
    with_key: bool = False
    store: str | None = None
    send_old: bool = False
    parent: TableView | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        mapper, with_key = self.mapper, self.with_key

        def mapped(key: Any, value: Any) -> Any:
            if value is None:
                return None
            return mapper(key, value) if with_key else mapper(value)

        return _open_mapped(context, forward, mapped, self.store, self.send_old)


@dataclass(frozen=True, slots=True)
class TableTransformValues(Operator):
    """Map every row's value, tombstones too, with an object that may use stores: ``transform(key, value)``.

    ``supplier`` makes the object; ``init(context)`` and ``close()`` are optional.
    """

    timed: ClassVar[bool] = True
    scheduling: ClassVar[bool] = True

    calls: ClassVar[tuple[str, ...]] = ("supplier",)

    supplier: Callable[[], Any]
    store: str | None = None
    send_old: bool = False
    parent: TableView | None = None

    def __post_init__(self) -> None:
        """Refuse a supplier that cannot work while the program is built."""
        check_transformer_supplier(self.supplier)

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        transform = open_transformer(self.supplier, context)
        inner = _open_mapped(context, forward, transform, self.store, self.send_old)

        def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            origin = context.origin
            if origin.timestamp == timestamp and origin.headers == headers:
                inner(key, change, timestamp, headers)
                return
            context.origin = origin._replace(timestamp=timestamp, headers=headers)
            try:
                inner(key, change, timestamp, headers)
            finally:
                context.origin = origin

        return on_record


@dataclass(frozen=True, slots=True)
class TableToStream(Operator):
    """Forward the new value of every update, tombstones too; with ``mapper(key, value)``, under another key."""

    calls: ClassVar[tuple[str, ...]] = ("mapper",)

    mapper: Callable[[Any, Any], Any] | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        mapper = self.mapper
        if mapper is None:

            def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
                forward(key, change.new, timestamp, headers)

            return on_record

        def on_record_mapped(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            forward(mapper(key, change.new), change.new, timestamp, headers)

        return on_record_mapped


def _open_mapped(
    context: OperatorContext,
    forward: Forward,
    mapped: Callable[[Any, Any], Any],
    store: str | None,
    send_old: bool,
) -> Forward:
    """Open a node that maps the new value, and the old one too where it has no store to read it from."""
    if store is None:

        def on_record_unstored(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
            new = mapped(key, change.new)
            forward(
                key, Change(new, mapped(key, change.old) if send_old else None, change.is_latest), timestamp, headers
            )

        return on_record_unstored

    rows = context.store(store)
    read, update = open_rows(rows, forward, send_old)
    reads = send_old and not rows.cached

    def on_record(key: Any, change: Any, timestamp: int, headers: Headers) -> None:
        new = mapped(key, change.new)
        row = read(key) if reads else None
        update(key, new, None if row is None else row[0], timestamp, headers, timestamp)

    return on_record
