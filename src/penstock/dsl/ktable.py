"""KTable: a stream of updates read as a table, the newest value per key; GlobalKTable: one that every lane has whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from penstock.dsl import foreign_key as foreign_keys
from penstock.dsl import joins
from penstock.dsl.checks import check_mapper
from penstock.dsl.graph import Graph, GraphNode, one, processor
from penstock.dsl.options import Suppressed
from penstock.dsl.stores import Materialized, table_store
from penstock.dsl.suppress import suppress
from penstock.dsl.tables import DerivedTable, Table
from penstock.dsl.types import K2, V2, R
from penstock.errors import TopologyError
from penstock.operators.base import Operator
from penstock.operators.stateless import SelectKey
from penstock.operators.table import (
    TableFilter,
    TableMapValues,
    TableRepartitionMap,
    TableToStream,
    TableTransformValues,
)
from penstock.operators.views import FilterView, MapValuesView, TransformValuesView
from penstock.processor.supplier import check_transformer_supplier
from penstock.serde import Serde
from penstock.state.spec import StoreSpec
from penstock.strict import strict_options
from penstock.topology.arguments import split_stores, supplied_stores
from penstock.topology.functions import check_function

if TYPE_CHECKING:
    from penstock.dsl.grouped_table import KGroupedTable
    from penstock.dsl.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
AnySerde = Serde[Any] | None
StoreOption = str | StoreSpec | None


class GlobalKTable(Generic[K, V]):
    """A table of which every lane has all rows; join streams with it by any key (``select=``)."""

    def __init__(self, spec: StoreSpec, named: str | None) -> None:
        self._spec = spec
        self.queryable_store_name = named

    def __repr__(self) -> str:
        return f"GlobalKTable({self._spec.name})"


@strict_options
class KTable(Generic[K, V]):
    """A table: the newest value per key, and the stream of its changes.

    >>> from penstock import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> users = builder.table("users", store="users")
    >>> users.filter(lambda key, user: user["age"] >= 18).queryable_store_name is None
    True
    >>> users.queryable_store_name
    'users'
    """

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        key: AnySerde,
        value: AnySerde,
        sources: frozenset[str],
        table: Table,
        queryable: str | None,
    ) -> None:
        self._graph = graph
        self._node = node
        self._name = node.name
        self._key = key
        self._value = value
        self._sources = sources
        self._table = table
        #: name of the store to query, where the table has one that was asked for
        self.queryable_store_name = queryable

    def __repr__(self) -> str:
        return f"KTable({self._name})"

    # row by row

    def filter(self, p: Callable[[K, V], Any], *, store: StoreOption = None, name: str | None = None,
               key: AnySerde = None, value: AnySerde = None) -> KTable[K, V]:  # fmt: skip
        """Keep the rows for which ``p(key, value)`` is true; another row is deleted downstream.

        >>> table.filter(lambda key, user: user["age"] >= 18)
        KTable(KTABLE-FILTER-...)
        """
        return self._filter(p, False, store, name, (key, value))

    def filter_not(self, p: Callable[[K, V], Any], *, store: StoreOption = None, name: str | None = None,
                   key: AnySerde = None, value: AnySerde = None) -> KTable[K, V]:  # fmt: skip
        """Keep the rows for which ``p(key, value)`` is false.

        >>> table.filter_not(lambda key, user: user["gone"])
        KTable(KTABLE-FILTER-...)
        """
        return self._filter(p, True, store, name, (key, value))

    @overload
    def map_values(self, f: Callable[[V], V2], *, store: StoreOption = None, name: str | None = None,
                   key: AnySerde = None, value: AnySerde = None) -> KTable[K, V2]: ...  # fmt: skip
    @overload
    def map_values(self, f: Callable[[K, V], V2], *, with_key: Literal[True], store: StoreOption = None,
                   name: str | None = None, key: AnySerde = None, value: AnySerde = None) -> KTable[K, V2]: ...  # fmt: skip
    @overload
    def map_values(self, f: Callable[..., V2], *, with_key: bool, store: StoreOption = None,
                   name: str | None = None, key: AnySerde = None, value: AnySerde = None) -> KTable[K, V2]: ...  # fmt: skip
    def map_values(self, f: Callable[..., Any], *, with_key: bool = False, store: StoreOption = None,
                   name: str | None = None, key: AnySerde = None, value: AnySerde = None) -> KTable[K, Any]:  # fmt: skip
        """Turn every value into ``f(value)``, or ``f(key, value)`` with ``with_key``.

        >>> table.map_values(lambda user: user["name"], store="names")
        KTable(KTABLE-MAPVALUES-...)
        """
        check_mapper(f, "map_values", with_key)
        kept = self._kept(store, "KTABLE-MAPVALUES-", (key, value), (self._key, None))
        named = self._graph.name(name, "KTABLE-MAPVALUES-")
        table = DerivedTable(
            self._table,
            kept and kept.spec,
            lambda parent: MapValuesView(parent=parent, mapper=f, with_key=with_key),
        )

        def operator(node: GraphNode) -> Operator:
            return TableMapValues(mapper=f, with_key=with_key, store=table.store, send_old=table.send_old)

        return self._derived(named, operator, table, kept, (key or self._key, value))

    def transform_values(self, supplier: Callable[[], Any], stores: str | StoreSpec | Iterable[str | StoreSpec] = (), *,
                         store: StoreOption = None, name: str | None = None, key: AnySerde = None,
                         value: AnySerde = None) -> KTable[K, Any]:  # fmt: skip
        """Turn every value into ``transform(key, value)`` of an object that ``supplier`` makes.

        It may have ``init(context)`` and ``close()``, and uses the named stores; a spec is added.
        """
        check_transformer_supplier(supplier)
        kept = self._kept(store, None, (key, value), (self._key, None))
        named = self._graph.name(name, "KTABLE-TRANSFORMVALUES-")
        table = DerivedTable(
            self._table, kept and kept.spec, lambda parent: TransformValuesView(parent=parent, supplier=supplier)
        )

        def operator(node: GraphNode) -> Operator:
            return TableTransformValues(supplier=supplier, store=table.store, send_old=table.send_old)

        names, specs = split_stores(stores)
        specs += supplied_stores(supplier)
        return self._derived(named, operator, table, kept, (key or self._key, value), names, specs)

    @overload
    def to_stream(self, key: None = None, *, name: str | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(self, key: Callable[[K, V], K2], *, name: str | None = None) -> KStream[K2, V]: ...
    def to_stream(self, key: Callable[[K, V], Any] | None = None, *, name: str | None = None) -> KStream[Any, V]:
        """Read the table's changes as a stream; ``key(key, value)`` gives them a new key.

        >>> table.to_stream(key=lambda key, user: user["country"])
        KStream(KSTREAM-KEY-SELECT-...)
        """
        from penstock.dsl.kstream import KStream  # a stream can become a table, so its module imports this one

        named = self._graph.name(name, "KTABLE-TOSTREAM-")
        node = self._graph.add(GraphNode(named, processor(one(TableToStream()))), self._node)
        stream: KStream[Any, V] = KStream(self._graph, node, named, self._key, self._value, self._sources)
        if key is None:
            return stream
        check_function(key, "to_stream", "key", "value")
        return stream._then(SelectKey(mapper=key), "KEY-SELECT", None, new_key=True)

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> KTable[K, V]:
        """Hold updates back: until their window closes, or for a time; see ``Suppressed``.

        >>> table.suppress(Suppressed.until_time_limit(5_000, Buffer.max_records(100)))
        KTable(KTABLE-SUPPRESS-...)
        """
        return suppress(self, suppressed, name)

    def group_by(
        self, f: Callable[[K, V], tuple[K2, V2]], *, key: AnySerde = None, value: AnySerde = None,
        name: str | None = None,
    ) -> KGroupedTable[K2, V2]:  # fmt: skip
        """Group the rows by ``f(key, value)``, which gives a pair of new key and new value.

        >>> table.group_by(lambda key, user: (user["country"], user)).count()
        KTable(KTABLE-AGGREGATE-...)
        """
        from penstock.dsl.grouped_table import (
            KGroupedTable,
        )  # its aggregations are tables, so its module imports this one

        check_function(f, "group_by", "key", "value")
        named = self._graph.name(name, "KTABLE-SELECT-")
        write = processor(lambda node: TableRepartitionMap(mapper=f, versioned=bool(node.versioned_parents)))
        node = self._graph.add(GraphNode(named, write, looks_at_versions=True), self._node)
        self._table.enable_old(force=True)
        return KGroupedTable(self._graph, node, key, value, name)

    # joins

    def join(self, other: KTable[Any, V2], joiner: Callable[[V, V2], R], *,
             foreign_key: Callable[..., Any] | None = None, store: StoreOption = None, name: str | None = None,
             key: AnySerde = None, value: AnySerde = None) -> KTable[K, R]:  # fmt: skip
        """Join rows of the same key, or with the row that ``foreign_key(value)`` or ``(key, value)`` names.

        >>> table.join(accounts, lambda user, account: [user, account], foreign_key=lambda user: user["account"])
        KTable(KTABLE-FK-JOIN-OUTPUT-...)
        """
        return self._join("inner", other, joiner, foreign_key, store, name, (key, value))

    def left_join(self, other: KTable[Any, V2], joiner: Callable[[V, V2 | None], R], *,
                  foreign_key: Callable[..., Any] | None = None, store: StoreOption = None, name: str | None = None,
                  key: AnySerde = None, value: AnySerde = None) -> KTable[K, R]:  # fmt: skip
        """Join as ``join`` does; a row of this table without a match is joined with None.

        >>> table.left_join(accounts, lambda user, account: account is not None)
        KTable(KTABLE-MERGE-...)
        """
        return self._join("left", other, joiner, foreign_key, store, name, (key, value))

    def outer_join(self, other: KTable[K, V2], joiner: Callable[[V | None, V2 | None], R], *, store: StoreOption = None,
                   name: str | None = None, key: AnySerde = None, value: AnySerde = None) -> KTable[K, R]:  # fmt: skip
        """Join rows of the same key; a row of either table without a match is joined with None.

        >>> table.outer_join(accounts, lambda user, account: [user, account])
        KTable(KTABLE-MERGE-...)
        """
        return self._join("outer", other, joiner, None, store, name, (key, value))

    def _join(self, kind: Any, other: Any, joiner: Any, foreign_key: Any, store: StoreOption, name: str | None,
              serdes: tuple[AnySerde, AnySerde]) -> KTable[K, Any]:  # fmt: skip
        if not isinstance(other, KTable):
            raise TopologyError(f"a table can join another KTable, but not {other!r}: turn it into one with to_table()")
        if other._graph is not self._graph:
            raise TopologyError(f"{self!r} and {other!r} come from different builders: make both with the same one")
        if foreign_key is not None:
            return foreign_keys.join(self, other, joiner, foreign_key, kind == "left", store, name, serdes)
        return joins.table_table(self, other, joiner, kind, store, name, serdes)

    # making handles

    def _filter(self, predicate: Any, negate: bool, store: StoreOption, name: str | None,
                serdes: tuple[AnySerde, AnySerde]) -> KTable[K, V]:  # fmt: skip
        check_function(predicate, "filter_not" if negate else "filter", "key", "value")
        kept = self._kept(store, "KTABLE-FILTER-", serdes, (self._key, self._value))
        named = self._graph.name(name, "KTABLE-FILTER-")
        table = DerivedTable(
            self._table,
            kept and kept.spec,
            lambda parent: FilterView(parent=parent, predicate=predicate, negate=negate),
        )
        # with old values a row that never passed need not be deleted; they are taken if they cost nothing
        table.send_old = self._table.enable_old(force=False)

        def operator(node: GraphNode) -> Operator:
            return TableFilter(
                predicate=predicate,
                negate=negate,
                store=table.store,
                send_old=table.send_old,
                versioned=bool(node.versioned_parents),
            )

        inherited = (serdes[0] or self._key, serdes[1] or self._value)
        return self._derived(named, operator, table, kept, inherited, looks_at_versions=True)

    def _kept(self, store: StoreOption, prefix: str | None, given: tuple[AnySerde, AnySerde],
              upstream: tuple[AnySerde, AnySerde]) -> Materialized | None:  # fmt: skip
        """Return the store of a derived table: only a named one is made, but asking with serdes alone uses up a number."""
        if store is not None:
            return table_store(self._graph, store, "", given, upstream)
        if given != (None, None) and prefix is not None:
            self._graph.new_store(prefix)
        return None

    def _derived(
        self,
        name: str,
        operator: Callable[[GraphNode], Operator],
        table: DerivedTable,
        kept: Materialized | None,
        serdes: tuple[AnySerde, AnySerde],
        connect: tuple[str, ...] = (),
        specs: tuple[StoreSpec, ...] = (),
        *,
        looks_at_versions: bool = False,
    ) -> KTable[Any, Any]:
        write = processor(operator, stores=lambda: (*table.specs(), *specs), connect=connect)
        versioned = None if kept is None else kept.versioned
        node = GraphNode(name, write, versioned=versioned, looks_at_versions=looks_at_versions)
        self._graph.add(node, self._node)
        if kept is not None:
            serdes = (kept.spec.key, kept.spec.value)
        return KTable(self._graph, node, *serdes, self._sources, table, kept and kept.queryable)
