"""CogroupedKStream: several groups of streams, each with its own function, aggregated into one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.dsl.aggregation import GroupedInput
from penstock.dsl.graph import Graph, GraphNode, one, processor
from penstock.dsl.ktable import AnySerde, KTable, StoreOption
from penstock.dsl.stores import AnyWindows, Materialized, Serdes2, table_store, window_store, windowed_key
from penstock.dsl.tables import StoredTable
from penstock.dsl.types import R
from penstock.dsl.windowed import check_merger, check_windows, closing_grace, window_operator
from penstock.errors import TopologyError
from penstock.operators.aggregate import StreamAggregate, TablePassThrough
from penstock.operators.base import Operator
from penstock.operators.emit import EmitStrategy
from penstock.strict import strict_options
from penstock.topology.functions import check_function

if TYPE_CHECKING:
    from penstock.dsl.grouped import KGroupedStream

K = TypeVar("K")
AGGREGATE = "COGROUPKSTREAM-AGGREGATE-"


@strict_options
class CogroupedKStream(Generic[K]):
    """Groups of streams with the function that adds their values to the common aggregate.

    >>> from penstock import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> clicks, orders = (builder.stream(topic).group_by_key() for topic in ("clicks", "orders"))
    >>> both = clicks.cogroup(lambda key, click, total: total + 1).cogroup(orders, lambda key, order, total: total + 10)
    >>> both.aggregate(lambda: 0, store="interest").queryable_store_name
    'interest'
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._inputs: dict[GroupedInput, Callable[..., Any]] = {}
        self._parents: dict[GroupedInput, GraphNode] = {}
        self._windows: AnyWindows | None = None

    def cogroup(self, grouped: KGroupedStream[K, Any], f: Callable[[K, Any, Any], Any]) -> CogroupedKStream[K]:
        """Add a group with its ``f(key, value, aggregate)``; adding it again replaces the function."""
        check_function(f, "cogroup", "key", "value", "aggregate")
        if self._windows is not None:
            raise TopologyError("cogroup() must come before windowed_by()")
        if getattr(grouped, "_graph", None) is not self._graph:
            raise TopologyError(f"cogroup() takes a grouped stream of the same builder, but got {grouped!r}")
        self._inputs[grouped._grouped] = f
        return self

    def windowed_by(self, w: AnyWindows) -> CogroupedKStream[K]:
        """Aggregate by windows."""
        result: CogroupedKStream[K] = CogroupedKStream(self._graph)
        result._inputs, result._parents = self._inputs, self._parents
        result._windows = check_windows(w)
        return result

    def aggregate(self, init: Callable[[], R], merger: Callable[[K, Any, Any], Any] | None = None, *,
                  store: StoreOption = None, name: str | None = None, key: AnySerde = None,
                  value: AnySerde = None) -> KTable[Any, R]:  # fmt: skip
        """Fold the values of all groups per key (and window), from ``init()`` on.

        After session windows, ``merger(key, one, other)`` combines two sessions that grow together.
        """
        check_function(init, "aggregate")
        if self._windows is not None:
            check_merger(self._windows, merger)
        elif merger is not None:
            raise TopologyError(
                "only session windows have a merger: leave it out, or put windowed_by() before aggregate()"
            )
        if sum(grouped.rekeyed and grouped.given_name is None for grouped in self._inputs) > 1:
            raise TopologyError(
                "several groups of this cogroup need a repartition topic, and would get the same one: "
                "give each group_by() or group_by_key() a name="
            )
        kept = self._store(store, (key, value), (self._common_key(), None))
        parents = [grouped.once(kept.spec.name, self._parents) for grouped in self._inputs]
        # every number of the repartition topics is used up before the first of the aggregations
        sources = self._graph.copartition(
            *(grouped.sources_below(parent) for grouped, parent in zip(self._inputs, parents, strict=True))
        )
        table = StoredTable(kept.spec)
        nodes = [
            self._aggregation(position, parent, aggregator, init, merger, kept, table, name)
            for position, (parent, aggregator) in enumerate(zip(parents, self._inputs.values(), strict=True))
        ]
        named = self._graph.name(name, "COGROUPKSTREAM-MERGE-", "-cogroup-merge")
        node = self._graph.add(GraphNode(named, processor(one(TablePassThrough()))), *nodes)
        key_serde = kept.spec.key if self._windows is None else windowed_key(self._windows, kept.spec.key)
        return KTable(self._graph, node, key_serde, kept.spec.value, sources, table, kept.queryable)

    def _store(self, store: StoreOption, given: Serdes2, upstream: Serdes2) -> Materialized:
        if self._windows is None:
            return table_store(self._graph, store, AGGREGATE, given, upstream)
        emit = EmitStrategy.on_window_update
        return window_store(self._graph, store, AGGREGATE, self._windows, emit, given, upstream)

    def _aggregation(
        self,
        position: int,
        parent: GraphNode,
        aggregator: Callable[..., Any],
        initializer: Callable[[], Any],
        merger: Any,
        kept: Materialized,
        table: StoredTable,
        name: str | None,
    ) -> GraphNode:
        """Add the aggregation of one group; all write the same store."""
        windows, store = self._windows, kept.spec.name

        def operator(node: GraphNode) -> Operator:
            if windows is None:
                return StreamAggregate(
                    store=store, initializer=initializer, aggregator=aggregator, send_old=table.send_old
                )
            emit = EmitStrategy.on_window_update
            return window_operator(store, windows, initializer, aggregator, merger, emit, table.send_old)

        named = self._graph.name(name, AGGREGATE, f"-cogroup-agg-{position}")
        grace = None if windows is None else closing_grace(windows)
        versioned = kept.versioned if windows is None else None
        node = GraphNode(named, processor(operator, stores=table.specs), versioned=versioned, grace=grace)
        return self._graph.add(node, parent)

    def _common_key(self) -> AnySerde:
        """The serde of the key, where all groups agree on it."""
        serdes = {grouped.serdes[0] for grouped in self._inputs}
        return serdes.pop() if len(serdes) == 1 else None
