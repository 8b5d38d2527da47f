"""KGroupedTable: rows grouped by a new key. An update takes the old row out of its group and adds the new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.dsl.graph import Graph, GraphNode, Repartition, processor
from penstock.dsl.ktable import AnySerde, KTable, StoreOption
from penstock.dsl.repartition import SUFFIX, write_repartition
from penstock.dsl.stores import Materialized, table_store
from penstock.dsl.tables import StoredTable
from penstock.dsl.types import R
from penstock.operators.base import Operator
from penstock.operators.table import TableAggregate, TableReduce, count_down, count_up, zero
from penstock.serde import Serdes
from penstock.strict import strict_options
from penstock.topology.functions import check_function

K = TypeVar("K")
V = TypeVar("V")
AGGREGATE = "KTABLE-AGGREGATE-"


@strict_options
class KGroupedTable(Generic[K, V]):
    """Rows grouped by a new key.

    >>> from penstock import StreamsBuilder
    >>> users = StreamsBuilder().table("users")
    >>> by_country = users.group_by(lambda key, user: (user["country"], user))
    >>> by_country.count(store="users-per-country").queryable_store_name
    'users-per-country'
    """

    def __init__(self, graph: Graph, node: GraphNode, key: AnySerde, value: AnySerde, name: str | None) -> None:
        self._graph = graph
        self._node = node
        self._key = key
        self._value = value
        self._given_name = name
        self._repartition: GraphNode | None = None

    def count(self, *, store: StoreOption = None, name: str | None = None, key: AnySerde = None,
              value: AnySerde = None) -> KTable[K, int]:  # fmt: skip
        """Count the rows per group.

        >>> by_country.count(store="users-per-land")
        KTable(KTABLE-AGGREGATE-...)
        """
        kept = table_store(self._graph, store, AGGREGATE, (key, value), (self._key, Serdes.int64))
        return self._aggregated(
            kept,
            name,
            AGGREGATE,
            lambda old: TableAggregate(
                store=kept.spec.name, initializer=zero, adder=count_up, subtractor=count_down, send_old=old
            ),
        )

    def reduce(self, adder: Callable[[V, V], V], subtractor: Callable[[V, V], V], *, store: StoreOption = None,
               name: str | None = None, key: AnySerde = None, value: AnySerde = None) -> KTable[K, V]:  # fmt: skip
        """Combine the rows per group: ``adder(aggregate, new)``, ``subtractor(aggregate, old)``.

        >>> by_country.reduce(lambda total, age: total + age, lambda total, age: total - age)
        KTable(KTABLE-REDUCE-...)
        """
        check_function(adder, "reduce", "aggregate", "value")
        check_function(subtractor, "reduce", "aggregate", "value")
        kept = table_store(self._graph, store, AGGREGATE, (key, value), (self._key, self._value))
        return self._aggregated(
            kept,
            name,
            "KTABLE-REDUCE-",
            lambda old: TableReduce(store=kept.spec.name, adder=adder, subtractor=subtractor, send_old=old),
        )

    def aggregate(self, init: Callable[[], Any], adder: Callable[[K, V, Any], R],
                  subtractor: Callable[[K, V, Any], R], *, store: StoreOption = None, name: str | None = None,
                  key: AnySerde = None, value: AnySerde = None) -> KTable[K, R]:  # fmt: skip
        """Fold the rows per group: ``adder(key, new, aggregate)``, ``subtractor(key, old, aggregate)``.

        >>> by_country.aggregate(list, lambda k, user, all: [*all, user], lambda k, user, all: [u for u in all if u != user])
        KTable(KTABLE-AGGREGATE-...)
        """
        check_function(init, "aggregate")
        check_function(adder, "aggregate", "key", "value", "aggregate")
        check_function(subtractor, "aggregate", "key", "value", "aggregate")
        kept = table_store(self._graph, store, AGGREGATE, (key, value), (self._key, None))
        return self._aggregated(
            kept,
            name,
            AGGREGATE,
            lambda old: TableAggregate(
                store=kept.spec.name, initializer=init, adder=adder, subtractor=subtractor, send_old=old
            ),
        )

    def _aggregated(
        self, kept: Materialized, name: str | None, prefix: str, operator: Callable[[bool], Operator]
    ) -> KTable[Any, Any]:
        graph = self._graph
        sink = graph.name(name, "KSTREAM-SINK-", "-sink")
        source = graph.name(name, "KSTREAM-SOURCE-", "-source")
        named = graph.name(name, prefix)
        if self._repartition is None or self._given_name is None:
            topic = (self._given_name or kept.spec.name) + SUFFIX
            plan = Repartition(topic, sink, source, None, self._key, self._value, changes=True)
            self._repartition = GraphNode(source, write_repartition, repartition=plan)
        graph.add(self._repartition, self._node)
        table = StoredTable(kept.spec)
        write = processor(lambda node: operator(table.send_old), stores=table.specs)
        node = graph.add(GraphNode(named, write, versioned=kept.versioned), self._repartition)
        sources = frozenset([self._repartition.name])
        return KTable(graph, node, kept.spec.key, kept.spec.value, sources, table, kept.queryable)
