"""KGroupedStream: records grouped by key, to be aggregated as they are, by windows, or together with other groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.dsl.aggregation import GroupedInput, aggregated
from penstock.dsl.cogrouped import CogroupedKStream
from penstock.dsl.graph import Graph, GraphNode
from penstock.dsl.ktable import AnySerde, KTable, StoreOption
from penstock.dsl.stores import AnyWindows, Serdes2, table_store
from penstock.dsl.types import R
from penstock.dsl.windowed import WindowedKStream, check_windows
from penstock.operators.aggregate import StreamAggregate, StreamCount, StreamReduce
from penstock.serde import Serdes
from penstock.strict import strict_options
from penstock.topology.functions import check_function
from penstock.topology.names import check_name

K = TypeVar("K")
V = TypeVar("V")


@strict_options
class KGroupedStream(Generic[K, V]):
    """Records grouped by key.

    >>> from penstock import StreamsBuilder
    >>> words = StreamsBuilder().stream("words")
    >>> words.group_by_key().count(store="counts").queryable_store_name
    'counts'
    """

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        serdes: Serdes2,
        sources: frozenset[str],
        rekeyed: bool,
        name: str | None,
    ) -> None:
        name = None if name is None else check_name(name, "name")
        self._graph = graph
        self._grouped = GroupedInput(graph, node, serdes, sources, rekeyed, name)

    def count(self, *, store: StoreOption = None, name: str | None = None, key: AnySerde = None,
              value: AnySerde = None) -> KTable[K, int]:  # fmt: skip
        """Count the records per key.

        >>> grouped.count(store="orders-per-user")
        KTable(KSTREAM-AGGREGATE-...)
        """
        burn_for_count(self._graph, store, key, value)
        upstream = (self._grouped.serdes[0], Serdes.int64)
        kept = table_store(self._graph, store, "KSTREAM-AGGREGATE-", (key, value), upstream)
        named = self._graph.name(name, "KSTREAM-AGGREGATE-")
        return aggregated(self._grouped, named, kept, lambda store, old: StreamCount(store=store, send_old=old))

    def reduce(self, f: Callable[[V, V], V], *, store: StoreOption = None, name: str | None = None,
               key: AnySerde = None, value: AnySerde = None) -> KTable[K, V]:  # fmt: skip
        """Combine the values per key: the first is the aggregate, then ``f(aggregate, value)``.

        >>> grouped.reduce(lambda first, order: max(first, order, key=lambda o: o["amount"]))
        KTable(KSTREAM-REDUCE-...)
        """
        check_function(f, "reduce", "aggregate", "value")
        kept = table_store(self._graph, store, "KSTREAM-REDUCE-", (key, value), self._grouped.serdes)
        named = self._graph.name(name, "KSTREAM-REDUCE-")
        return aggregated(
            self._grouped, named, kept, lambda store, old: StreamReduce(store=store, reducer=f, send_old=old)
        )

    def aggregate(self, init: Callable[[], Any], f: Callable[[K, V, Any], R], *,
                  store: StoreOption = None, name: str | None = None, key: AnySerde = None,
                  value: AnySerde = None) -> KTable[K, R]:  # fmt: skip
        """Fold the values per key, from ``init()`` on, with ``f(key, value, aggregate)``.

        >>> grouped.aggregate(lambda: 0, lambda key, order, total: total + order["amount"], value=Serdes.int64)
        KTable(KSTREAM-AGGREGATE-...)
        """
        check_function(init, "aggregate")
        check_function(f, "aggregate", "key", "value", "aggregate")
        upstream = (self._grouped.serdes[0], None)
        kept = table_store(self._graph, store, "KSTREAM-AGGREGATE-", (key, value), upstream)
        named = self._graph.name(name, "KSTREAM-AGGREGATE-")
        return aggregated(
            self._grouped,
            named,
            kept,
            lambda store, old: StreamAggregate(store=store, initializer=init, aggregator=f, send_old=old),
        )

    def windowed_by(self, w: AnyWindows) -> WindowedKStream[K, V]:
        """Aggregate by windows: ``TimeWindows``, ``SlidingWindows``, ``SessionWindows`` or ``UnlimitedWindows``.

        >>> grouped.windowed_by(TimeWindows(60_000)).count()
        KTable(KSTREAM-AGGREGATE-...)
        """
        return WindowedKStream(self._graph, self._grouped, check_windows(w))

    def cogroup(self, f: Callable[[K, V, Any], Any]) -> CogroupedKStream[K]:
        """Begin an aggregation of several groups of streams, each with its own function, into one table.

        >>> grouped.cogroup(lambda key, order, total: total + 1).aggregate(lambda: 0)
        KTable(COGROUPKSTREAM-MERGE-...)
        """
        cogrouped: CogroupedKStream[K] = CogroupedKStream(self._graph)
        return cogrouped.cogroup(self, f)


def burn_for_count(graph: Graph, store: StoreOption, key: AnySerde, value: AnySerde) -> None:
    """Use up the number that Kafka uses up for a count with serdes but without a store's name."""
    if store is None and (key is not None or value is not None):
        graph.new_store("KSTREAM-AGGREGATE-")
