"""Table operators: source, filter, map_values, transform_values, to_stream, group_by, aggregate, reduce.

The value between table nodes is a ``Change``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.base import Forward, Operator, OperatorContext, TableView


def zero() -> int:
    """Begin a count."""
    return 0


def count_up(key: Any, value: Any, agg: int) -> int:
    """Count a row in."""
    return agg + 1


def count_down(key: Any, value: Any, agg: int) -> int:
    """Count a row out."""
    return agg - 1


@dataclass(frozen=True, slots=True)
class TableSource(Operator):
    """Turn a stream of records into the updates of a table, kept in ``store`` if there is one."""

    store: str | None = None
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


#: ``KStream.to_table``: the same node under another name.
StreamToTable = TableSource


@dataclass(frozen=True, slots=True)
class TableFilter(Operator):
    """Keep the rows for which ``predicate(key, value)`` holds; rows that stop to hold become tombstones."""

    predicate: Callable[[Any, Any], Any]
    negate: bool = False
    store: str | None = None
    send_old: bool = False
    parent: TableView | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TableMapValues(Operator):
    """Map every row's value; tombstones stay tombstones."""

    mapper: Callable[..., Any]
    with_key: bool = False
    store: str | None = None
    send_old: bool = False
    parent: TableView | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TableTransformValues(Operator):
    """Map every row's value, tombstones too, with an object that has state: ``transform(key, value)``."""

    supplier: Callable[[], Any]
    store: str | None = None
    send_old: bool = False
    parent: TableView | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TableToStream(Operator):
    """Forward the new value of every update."""

    mapper: Callable[[Any, Any], Any] | None = None

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TableRepartitionMap(Operator):
    """Re-key a table's updates: ``mapper(key, value) -> (key, value)`` of the old row and of the new one."""

    mapper: Callable[[Any, Any], tuple[Any, Any]]

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TableAggregate(Operator):
    """Aggregate re-keyed updates: take the old row out, put the new row in."""

    store: str
    initializer: Callable[[], Any]
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TableReduce(Operator):
    """Combine re-keyed updates: take the old row out, put the new row in."""

    store: str
    adder: Callable[[Any, Any], Any]
    subtractor: Callable[[Any, Any], Any]
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError
