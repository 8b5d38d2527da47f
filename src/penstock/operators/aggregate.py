"""Aggregation of a stream by key: aggregate, count, reduce, and the merge node of cogroup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.base import Forward, Operator, OperatorContext


@dataclass(frozen=True, slots=True)
class StreamAggregate(Operator):
    """Fold each record into the row of its key: ``aggregator(key, value, agg)``, begun with ``initializer()``."""

    store: str
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class StreamCount(Operator):
    """Count the records of each key, without a Python function per record."""

    store: str
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class StreamReduce(Operator):
    """Combine the values of each key: ``reducer(agg, value)``; the first value is taken as it is."""

    store: str
    reducer: Callable[[Any, Any], Any]
    send_old: bool = False

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TablePassThrough(Operator):
    """Forward changes as they are: the node that merges the inputs of a cogroup."""

    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""
        raise NotImplementedError
