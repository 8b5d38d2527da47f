"""How one node reads another node's table by key: from its store, or through its parent's where it has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.operators.base import Lookup, OperatorContext, TableView
from penstock.state.spec import StoreKind


@dataclass(frozen=True, slots=True)
class StoreView(TableView):
    """Read a materialized table from its store."""

    store: str
    kind: StoreKind
    versioned: bool = False

    @property
    def stores(self) -> tuple[str, ...]:
        """Stores that the reading node must be connected to."""
        return (self.store,)

    def open(self, context: OperatorContext) -> Lookup:
        """Bind to one shard; return ``lookup(key)``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class FilterView(TableView):
    """Read a filtered table that has no store of its own."""

    parent: TableView
    predicate: Callable[[Any, Any], Any]
    negate: bool = False

    @property
    def stores(self) -> tuple[str, ...]:
        """Stores that the reading node must be connected to."""
        return self.parent.stores

    def open(self, context: OperatorContext) -> Lookup:
        """Bind to one shard; return ``lookup(key)``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class MapValuesView(TableView):
    """Read a mapped table that has no store of its own."""

    parent: TableView
    mapper: Callable[..., Any]
    with_key: bool = False

    @property
    def stores(self) -> tuple[str, ...]:
        """Stores that the reading node must be connected to."""
        return self.parent.stores

    def open(self, context: OperatorContext) -> Lookup:
        """Bind to one shard; return ``lookup(key)``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TransformValuesView(TableView):
    """Read a transformed table that has no store of its own."""

    parent: TableView
    supplier: Callable[[], Any]

    @property
    def stores(self) -> tuple[str, ...]:
        """Stores that the reading node must be connected to."""
        return self.parent.stores

    def open(self, context: OperatorContext) -> Lookup:
        """Bind to one shard; return ``lookup(key)``."""
        raise NotImplementedError
