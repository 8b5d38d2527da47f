"""How one node reads another node's table by key: from its store, or through its parent's where it has none.

A table without a store is computed at each read, from the nearest table above it that has one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from penstock.operators.base import Lookup, OperatorContext, TableView
from penstock.operators.process import open_transformer
from penstock.processor.supplier import check_transformer_supplier
from penstock.record import NO_ORIGIN
from penstock.state.spec import StoreKind

#: reads a versioned table: (key, as of) -> (value, timestamp) | None
LookupAsOf: TypeAlias = Callable[[Any, int], "tuple[Any, int] | None"]
#: maps a row found in the parent: (key, row or None) -> row or None
Derive: TypeAlias = Callable[[Any, "tuple[Any, int] | None"], "tuple[Any, int] | None"]


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
        """Bind to one shard; return ``lookup(key)``; the key of a windowed table is ``Windowed``."""
        store = context.store(self.store)
        if self.kind is StoreKind.WINDOW:
            return _by_window(store)
        if self.kind is StoreKind.SESSION:
            return _by_session(store)
        read: Lookup = store.read
        return read

    def open_as_of(self, context: OperatorContext) -> LookupAsOf | None:
        """Return ``lookup(key, as_of)`` of a versioned store."""
        if self.kind is not StoreKind.VERSIONED and not self.versioned:
            return None
        get = context.store(self.store).get

        def lookup(key: Any, as_of: int) -> tuple[Any, int] | None:
            version = get(key, as_of)
            return None if version is None else (version.value, version.timestamp)

        return lookup


def _by_window(store: Any) -> Lookup:
    read = store.read

    def lookup(key: Any) -> tuple[Any, int] | None:
        row: tuple[Any, int] | None = read(key.key, key.start)
        return row

    return lookup


def _by_session(store: Any) -> Lookup:
    fetch_session = store.fetch_session

    def lookup(key: Any) -> tuple[Any, int] | None:
        value = fetch_session(key.key, key.start, key.end)
        return None if value is None else (value, key.end)

    return lookup


@dataclass(frozen=True, slots=True)
class DerivedView(TableView):
    """Read a table that has no store of its own through its parent."""

    #: a row follows from its key and the parent's row alone; where there is none, none follows
    pure: ClassVar[bool] = False

    parent: TableView

    @property
    def stores(self) -> tuple[str, ...]:
        """Stores that the reading node must be connected to: the parent's."""
        return self.parent.stores

    def open(self, context: OperatorContext) -> Lookup:
        """Bind to one shard; return ``lookup(key)``."""
        find, derive = self.parent.open(context), self.derive(context)

        def lookup(key: Any) -> tuple[Any, int] | None:
            return derive(key, find(key))

        return lookup

    def open_as_of(self, context: OperatorContext) -> LookupAsOf | None:
        """Return ``lookup(key, as_of)`` if the parent is versioned, else None."""
        find = self.parent.open_as_of(context)
        if find is None:
            return None
        derive = self.derive(context)

        def lookup(key: Any, as_of: int) -> tuple[Any, int] | None:
            return derive(key, find(key, as_of))

        return lookup

    def derive(self, context: OperatorContext) -> Derive:
        """Return how a row follows from the parent's row."""
        raise NotImplementedError(f"{type(self).__name__} does not say how its rows follow from its parent's")


@dataclass(frozen=True, slots=True)
class FilterView(DerivedView):
    """Read a filtered table."""

    pure: ClassVar[bool] = True

    predicate: Callable[[Any, Any], Any]
    negate: bool = False

    def derive(self, context: OperatorContext) -> Derive:
        """Return the row if it is kept."""
        predicate, negate = self.predicate, self.negate

        def derived(key: Any, row: tuple[Any, int] | None) -> tuple[Any, int] | None:
            return row if row is not None and bool(predicate(key, row[0])) is not negate else None

        return derived


@dataclass(frozen=True, slots=True)
class MapValuesView(DerivedView):
    """Read a mapped table."""

    pure: ClassVar[bool] = True

    mapper: Callable[..., Any]
    with_key: bool = False

    def derive(self, context: OperatorContext) -> Derive:
        """Return the mapped row, with the timestamp of its parent."""
        mapper, with_key = self.mapper, self.with_key

        def derived(key: Any, row: tuple[Any, int] | None) -> tuple[Any, int] | None:
            if row is None:
                return None
            value = mapper(key, row[0]) if with_key else mapper(row[0])
            return None if value is None else (value, row[1])

        return derived


@dataclass(frozen=True, slots=True)
class TransformValuesView(DerivedView):
    """Read a transformed table, with a transformer of the reading node's own.

    The transformer is called for absent rows too; such a result has the timestamp −1. It sees no record metadata.
    """

    supplier: Callable[[], Any]

    def __post_init__(self) -> None:
        """Refuse a supplier that cannot work while the program is built."""
        check_transformer_supplier(self.supplier)

    def derive(self, context: OperatorContext) -> Derive:
        """Return the transformed row."""
        transform = open_transformer(self.supplier, context)

        def derived(key: Any, row: tuple[Any, int] | None) -> tuple[Any, int] | None:
            value, timestamp = (None, -1) if row is None else row
            origin = context.origin
            context.origin = NO_ORIGIN._replace(timestamp=timestamp)
            try:
                result = transform(key, value)
            finally:
                context.origin = origin
            return None if result is None else (result, timestamp)

        return derived
