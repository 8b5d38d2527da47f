"""KStream: a stream of records. Every method adds one node to the graph and returns a handle on what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, TypeVar

from penstock.dsl import joins
from penstock.dsl.branch import BranchedKStream
from penstock.dsl.deduplicate import deduplicate
from penstock.dsl.graph import GraphNode, one, processor
from penstock.dsl.grouped import KGroupedStream
from penstock.dsl.ktable import GlobalKTable, KTable
from penstock.dsl.repartition import repartition_node
from penstock.dsl.stateless import AnySerde, StatelessVerbs
from penstock.dsl.stores import JoinStore, table_store
from penstock.dsl.stream_joins import stream_stream
from penstock.dsl.tables import SourceTable
from penstock.dsl.types import K2, R
from penstock.errors import TopologyError
from penstock.operators.process import Process, ProcessValues
from penstock.operators.stateless import (
    PassThrough,
    SelectKey,
)
from penstock.operators.table import TableSource
from penstock.serde.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.state.spec import StoreSpec
from penstock.strict import strict_options
from penstock.topology.arguments import split_destination, split_stores, supplied_stores
from penstock.topology.functions import check_function, check_partitioner
from penstock.topology.names import check_name
from penstock.topology.node import Partitioner, SinkNode
from penstock.topology.partitioners import default_partitioner
from penstock.windows import JoinWindows

K = TypeVar("K")
V = TypeVar("V")
Duration = timedelta | int


@strict_options
class KStream(StatelessVerbs[K, V]):
    """A stream of records.

    >>> from penstock import Serdes, StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> builder.stream("lines", value=Serdes.string).map_values(str.upper).to("loud")
    >>> print(builder.build().describe())
    Topologies:
       Sub-topology: 0
        Source: KSTREAM-SOURCE-0000000000 (topics: [lines])
          --> KSTREAM-MAPVALUES-0000000001
        Processor: KSTREAM-MAPVALUES-0000000001 (stores: [])
          --> KSTREAM-SINK-0000000002
          <-- KSTREAM-SOURCE-0000000000
        Sink: KSTREAM-SINK-0000000002 (topic: loud)
          <-- KSTREAM-MAPVALUES-0000000001
    <BLANKLINE>
    <BLANKLINE>
    """

    def __repr__(self) -> str:
        return f"KStream({self._name})"

    # branches

    def split(self, name: str | None = None) -> BranchedKStream[K, V]:
        """Begin branches: ``split().branch(p).branch(q).default()``; every record goes to the first that takes it.

        >>> stream.split("by-").branch(lambda key, order: order["paid"], name="paid").default(name="open")
        {'by-paid': KStream(by-paid), 'by-open': KStream(by-open)}
        """
        return BranchedKStream(self, name)

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """Put the records of two streams into one; no order between them is promised.

        >>> stream.merge(other)
        KStream(KSTREAM-MERGE-...)
        """
        if not isinstance(other, KStream):
            raise TopologyError(f"merge() takes another KStream, but got {other!r}")
        self._same_graph(other)
        named = self._graph.name(name, "KSTREAM-MERGE-")
        node = GraphNode(named, processor(one(PassThrough())), merges=True)
        self._graph.add(node, self._node, other._node)
        return KStream(
            self._graph,
            node,
            named,
            self._key if self._key == other._key else None,
            self._value if self._value == other._value else None,
            self._sources | other._sources,
            self._rekeyed or other._rekeyed,
        )

    # topics and tables

    def repartition(
        self,
        *,
        key: AnySerde = None,
        value: AnySerde = None,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """Send the records through a topic, so that they are partitioned by their key again.

        >>> stream.repartition(partitions=6, name="orders-again")
        KStream(orders-again-repartition-source)
        """
        if partitions is not None and partitions < 1:
            raise TopologyError(f"repartition() needs at least one partition, but partitions is {partitions}")
        prefix = self._graph.new_name("KSTREAM-REPARTITION-") if name is None else check_name(name, "name")
        key, value = key or self._key, value or self._value
        node = repartition_node(
            self._graph,
            prefix,
            key,
            value,
            optimizable=False,
            partitions=partitions,
            partitioner=check_partitioner(partitioner),
        )
        self._graph.add(node, self._node)
        return KStream(self._graph, node, node.name, key, value, frozenset([node.name]))

    def to(
        self,
        topic_or_extractor: str | Callable[..., str],
        *,
        key: AnySerde = None,
        value: AnySerde = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> None:
        """Write the records to a topic, or to the one that ``topic_or_extractor(key, value)`` or ``(key, value, origin)`` names.

        ``partitioner(topic, key, value, partitions)`` chooses a partition, several, or None for the usual one; it may take the
        headers before the number, or leave out the topic.

        >>> stream.to("copies")
        """
        destination, extractor = split_destination(topic_or_extractor)
        key_serde, value_serde = key or self._key or DEFAULT_KEY, value or self._value or DEFAULT_VALUE
        partitioner = check_partitioner(partitioner) or default_partitioner(key_serde)
        named = self._graph.name(name, "KSTREAM-SINK-")

        def write(topology: Any, node: GraphNode) -> None:
            parents = node.parent_names
            topology.add(SinkNode(named, destination, parents, key_serde, value_serde, extractor, partitioner))

        self._graph.add(GraphNode(named, write), self._node)

    def to_table(
        self,
        *,
        key: AnySerde = None,
        value: AnySerde = None,
        store: str | StoreSpec | None = None,
        name: str | None = None,
    ) -> KTable[K, V]:
        """Read the stream as a table: each record replaces the row of its key, None deletes it.

        >>> stream.to_table(store="last-orders")
        KTable(KSTREAM-TOTABLE-...)
        """
        named = self._graph.name(name, "KSTREAM-TOTABLE-")
        kept = table_store(self._graph, store, "KSTREAM-TOTABLE-", (key, value), (self._key, self._value))
        parent, sources = self._node, self._sources
        if self._rekeyed:
            parent = repartition_node(self._graph, named, kept.spec.key, kept.spec.value)
            self._graph.add(parent, self._node)
            sources = frozenset([parent.name])
        table = SourceTable(kept.spec, kept.named)
        write = processor(lambda node: TableSource(store=table.store, send_old=table.send_old), stores=table.specs)
        node = self._graph.add(GraphNode(named, write, versioned=kept.versioned), parent)
        return KTable(self._graph, node, kept.spec.key, kept.spec.value, sources, table, kept.queryable)

    # groups

    def group_by_key(
        self, *, key: AnySerde = None, value: AnySerde = None, name: str | None = None
    ) -> KGroupedStream[K, V]:
        """Group the records by their key, to aggregate them.

        >>> stream.group_by_key().count()
        KTable(KSTREAM-AGGREGATE-...)
        """
        serdes = (key or self._key, value or self._value)
        return KGroupedStream(self._graph, self._node, serdes, self._sources, self._rekeyed, name)

    def group_by(
        self,
        f: Callable[[K, V], K2],
        *,
        key: AnySerde = None,
        value: AnySerde = None,
        name: str | None = None,
    ) -> KGroupedStream[K2, V]:
        """Group the records by ``f(key, value)``.

        >>> stream.group_by(lambda key, order: order["user"]).count()
        KTable(KSTREAM-AGGREGATE-...)
        """
        check_function(f, "group_by", "key", "value")
        selected = self._then(SelectKey(mapper=f), "KEY-SELECT", name, new_key=True)
        serdes = (key, value or self._value)
        return KGroupedStream(self._graph, selected._node, serdes, self._sources, True, name)

    # joins

    def join(self, other: Any, joiner: Callable[..., R], *, window: JoinWindows | None = None,
             grace: Duration | None = None, select: Callable[[K, V], Any] | None = None, with_key: bool = False,
             key: AnySerde = None, value: AnySerde = None, other_value: AnySerde = None,
             store: JoinStore = None, name: str | None = None) -> KStream[K, R]:  # fmt: skip
        """Join with a KStream (needs ``window``), a KTable (may have ``grace``) or a GlobalKTable (needs ``select``).

        ``joiner(value, other_value)``; with ``with_key`` it gets the key first.

        >>> stream.join(table, lambda order, user: {**order, "user": user})
        KStream(KSTREAM-JOIN-...)
        """
        how = joins.JoinOptions(window, grace, select, with_key, key, value, other_value, store, name)
        return self._join("inner", other, joiner, how)

    def left_join(self, other: Any, joiner: Callable[..., R], *, window: JoinWindows | None = None,
                  grace: Duration | None = None, select: Callable[[K, V], Any] | None = None, with_key: bool = False,
                  key: AnySerde = None, value: AnySerde = None, other_value: AnySerde = None,
                  store: JoinStore = None, name: str | None = None) -> KStream[K, R]:  # fmt: skip
        """Join as ``join`` does; a record without a match is joined with None.

        >>> stream.left_join(other, lambda order, payment: payment is None, window=JoinWindows(60_000))
        KStream(KSTREAM-MERGE-...)
        """
        how = joins.JoinOptions(window, grace, select, with_key, key, value, other_value, store, name)
        return self._join("left", other, joiner, how)

    def outer_join(self, other: KStream[K, Any], joiner: Callable[..., R], *, window: JoinWindows | None = None,
                   with_key: bool = False, key: AnySerde = None, value: AnySerde = None, other_value: AnySerde = None,
                   store: JoinStore = None, name: str | None = None) -> KStream[K, R]:  # fmt: skip
        """Join with a KStream; a record of either side without a match is joined with None.

        >>> stream.outer_join(other, lambda order, payment: [order, payment], window=JoinWindows(60_000))
        KStream(KSTREAM-MERGE-...)
        """
        how = joins.JoinOptions(window, None, None, with_key, key, value, other_value, store, name)
        return self._join("outer", other, joiner, how)

    def _join(self, kind: Any, other: Any, joiner: Callable[..., Any], how: joins.JoinOptions) -> KStream[K, Any]:
        if isinstance(other, KStream):
            self._same_graph(other)
            return stream_stream(self, other, joiner, kind, how)
        if isinstance(other, KTable):
            self._same_graph(other)
            return joins.stream_table(self, other, joiner, kind, how)
        if isinstance(other, GlobalKTable):
            return joins.stream_global_table(self, other, joiner, kind, how)
        raise TopologyError(f"a stream can join a KStream, a KTable or a GlobalKTable, but not {other!r}")

    # processors

    def process(
        self, supplier: Callable[[], Any], *, stores: str | StoreSpec | Iterable[str | StoreSpec] = (),
        name: str | None = None,
    ) -> KStream[Any, Any]:  # fmt: skip
        """Run a Processor (a class, or any callable that makes one) with the named stores; a spec is added.

        >>> stream.process(Remember, stores=[Stores.key_value("seen")])
        KStream(KSTREAM-PROCESSOR-...)
        """
        return self._process(Process(supplier=supplier), "KSTREAM-PROCESSOR-", stores, name, None, rekeyed=True)

    def process_values(
        self, supplier: Callable[[], Any], *, stores: str | StoreSpec | Iterable[str | StoreSpec] = (),
        name: str | None = None,
    ) -> KStream[K, Any]:  # fmt: skip
        """Run a FixedKeyProcessor: the key cannot change, so nothing is repartitioned after it.

        >>> stream.process_values(Double)
        KStream(KSTREAM-PROCESSVALUES-...)
        """
        operator = ProcessValues(supplier=supplier)
        return self._process(operator, "KSTREAM-PROCESSVALUES-", stores, name, self._key, rekeyed=self._rekeyed)

    def deduplicate(
        self, *, by: Callable[[K, V], Any], within: Duration, store: str | StoreSpec | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:  # fmt: skip
        """Drop a record if one with the same key and ``by(key, value)`` was let pass within the time before it.

        >>> stream.deduplicate(by=lambda key, order: order["id"], within=60_000)
        KStream(KSTREAM-...)
        """
        return deduplicate(self, by, within, store, name)

    # making handles

    def _handle(
        self, node: GraphNode, *, key: AnySerde, value: AnySerde, rekeyed: bool, sources: frozenset[str] | None = None
    ) -> KStream[Any, Any]:
        return KStream(self._graph, node, node.name, key, value, sources or self._sources, rekeyed)

    def _process(
        self,
        operator: Process | ProcessValues,
        prefix: str,
        stores: str | StoreSpec | Iterable[str | StoreSpec],
        name: str | None,
        key: AnySerde,
        *,
        rekeyed: bool,
    ) -> KStream[Any, Any]:
        named = self._graph.new_name(prefix) if name is None else check_name(name, "name")
        names, specs = split_stores(stores)
        specs += supplied_stores(operator.supplier)
        node = GraphNode(named, processor(one(operator), stores=lambda: specs, connect=names))
        self._graph.add(node, self._node)
        return self._handle(node, key=key, value=None, rekeyed=rekeyed)

    def _repartitioned(self, prefix: str, key: AnySerde, value: AnySerde) -> KStream[K, V]:
        """Return this stream behind a repartition topic, for a join; without a name of its own, one topic serves all."""
        key, value = key or self._key, value or self._value
        node = repartition_node(self._graph, prefix, key, value)
        if self._repartition is None or self._name != prefix:
            self._repartition = node
            self._graph.add(node, self._node)
        sources = frozenset([self._repartition.name])
        return KStream(self._graph, self._repartition, node.name, key, value, sources)

    def _same_graph(self, other: KStream[Any, Any] | KTable[Any, Any]) -> None:
        if other._graph is not self._graph:
            raise TopologyError(f"{self!r} and {other!r} come from different builders: make both with the same one")
