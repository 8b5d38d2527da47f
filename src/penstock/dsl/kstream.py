"""KStream: a stream of records. Every method adds one node to the graph and returns a handle on what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Generic, TypeVar

from penstock.dsl import joins
from penstock.dsl.branch import BranchedKStream
from penstock.dsl.checks import check_function, check_mapper, check_supplier
from penstock.dsl.deduplicate import deduplicate
from penstock.dsl.graph import Graph, GraphNode, one, processor
from penstock.dsl.grouped import KGroupedStream
from penstock.dsl.ktable import GlobalKTable, KTable
from penstock.dsl.repartition import repartition_node
from penstock.dsl.stores import table_store
from penstock.dsl.stream_joins import stream_stream
from penstock.dsl.tables import SourceTable
from penstock.errors import TopologyError
from penstock.operators.base import Operator
from penstock.operators.process import Process, ProcessValues
from penstock.operators.stateless import (
    Filter,
    FlatMap,
    FlatMapValues,
    Foreach,
    Map,
    MapValues,
    PassThrough,
    Peek,
    Print,
    SelectKey,
)
from penstock.operators.table import TableSource
from penstock.serde import Serde, Serdes
from penstock.state.spec import StoreSpec
from penstock.topology.arguments import split_destination, split_stores, supplied_stores
from penstock.topology.names import check_name
from penstock.topology.node import Partitioner, SinkNode
from penstock.topology.partitioners import default_partitioner
from penstock.topology.strict import strict_options
from penstock.windows import JoinWindows

K = TypeVar("K")
V = TypeVar("V")
AnySerde = Serde[Any] | None
Duration = timedelta | int


@strict_options
class KStream(Generic[K, V]):
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

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        name: str,
        key: AnySerde,
        value: AnySerde,
        sources: frozenset[str],
        rekeyed: bool = False,
    ) -> None:
        self._graph = graph
        self._node = node
        self._name = name
        self._key = key
        self._value = value
        self._sources = sources
        #: the key may have changed since the records were partitioned by it
        self._rekeyed = rekeyed
        self._repartition: GraphNode | None = None

    def __repr__(self) -> str:
        return f"KStream({self._name})"

    # stateless

    def filter(self, predicate: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
        """Keep the records for which ``predicate(key, value)`` is true."""
        check_function(predicate, "filter", "key", "value")
        return self._then(Filter(predicate=predicate), "FILTER", name)

    def filter_not(self, predicate: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
        """Drop the records for which ``predicate(key, value)`` is true."""
        check_function(predicate, "filter_not", "key", "value")
        return self._then(Filter(predicate=predicate, negate=True), "FILTER", name)

    def select_key(self, mapper: Callable[[K, V], Any], *, name: str | None = None) -> KStream[Any, V]:
        """Set a new key, ``mapper(key, value)``."""
        check_function(mapper, "select_key", "key", "value")
        return self._then(SelectKey(mapper=mapper), "KEY-SELECT", name, new_key=True)

    def map(self, mapper: Callable[[K, V], tuple[Any, Any]], *, name: str | None = None) -> KStream[Any, Any]:
        """Turn every record into ``mapper(key, value)``, a pair of key and value."""
        check_function(mapper, "map", "key", "value")
        return self._then(Map(mapper=mapper), "MAP", name, new_key=True, new_value=True)

    def map_values(
        self, mapper: Callable[..., Any], *, with_key: bool = False, name: str | None = None
    ) -> KStream[K, Any]:
        """Turn every value into ``mapper(value)``, or ``mapper(key, value)`` with ``with_key``."""
        check_mapper(mapper, "map_values", with_key)
        return self._then(MapValues(mapper=mapper, with_key=with_key), "MAPVALUES", name, new_value=True)

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[Any, Any]]], *, name: str | None = None
    ) -> KStream[Any, Any]:
        """Turn every record into any number of pairs."""
        check_function(mapper, "flat_map", "key", "value")
        return self._then(FlatMap(mapper=mapper), "FLATMAP", name, new_key=True, new_value=True)

    def flat_map_values(
        self, mapper: Callable[..., Iterable[Any]], *, with_key: bool = False, name: str | None = None
    ) -> KStream[K, Any]:
        """Turn every value into any number of values."""
        check_mapper(mapper, "flat_map_values", with_key)
        return self._then(FlatMapValues(mapper=mapper, with_key=with_key), "FLATMAPVALUES", name, new_value=True)

    def foreach(self, action: Callable[[K, V], Any], *, name: str | None = None) -> None:
        """Call ``action(key, value)`` for every record; the stream ends here."""
        check_function(action, "foreach", "key", "value")
        self._then(Foreach(action=action), "FOREACH", name)

    def peek(self, action: Callable[[K, V], Any], *, name: str | None = None) -> KStream[K, V]:
        """Call ``action(key, value)`` for every record and hand it on unchanged."""
        check_function(action, "peek", "key", "value")
        return self._then(Peek(action=action), "PEEK", name)

    def print(self, label: str | None = None, file: Any = None, *, name: str | None = None) -> None:
        """Print every record as ``[label]: key, value`` to standard output or a file; the stream ends here."""
        self._then(Print(label=self._name if label is None else label, file=file), "PRINTER", name)

    def split(self, name: str | None = None) -> BranchedKStream[K, V]:
        """Begin branches: ``split().branch(p).branch(q).default()``; every record goes to the first that takes it."""
        return BranchedKStream(self, name)

    def merge(self, other: KStream[K, V], *, name: str | None = None) -> KStream[K, V]:
        """Put the records of two streams into one; no order between them is promised."""
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
        """Send the records through a topic, so that they are partitioned by their key again."""
        if partitions is not None and partitions < 1:
            raise TopologyError(f"repartition() needs at least one partition, but partitions is {partitions}")
        prefix = self._graph.new_name("KSTREAM-REPARTITION-") if name is None else check_name(name, "name")
        key, value = key or self._key, value or self._value
        node = repartition_node(
            self._graph, prefix, key, value, optimizable=False, partitions=partitions, partitioner=partitioner
        )
        self._graph.add(node, self._node)
        return KStream(self._graph, node, node.name, key, value, frozenset([node.name]))

    def to(
        self,
        topic: str | Callable[..., str],
        *,
        key: AnySerde = None,
        value: AnySerde = None,
        partitioner: Partitioner | None = None,
        name: str | None = None,
    ) -> None:
        """Write the records to a topic, or to the one that ``topic(key, value, origin)`` names."""
        destination, extractor = split_destination(topic)
        key_serde, value_serde = key or self._key or Serdes.string, value or self._value or Serdes.json
        partitioner = partitioner or default_partitioner(key_serde)
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
        """Read the stream as a table: each record replaces the row of its key, None deletes it."""
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
        """Group the records by their key, to aggregate them."""
        serdes = (key or self._key, value or self._value)
        return KGroupedStream(self._graph, self._node, serdes, self._sources, self._rekeyed, name)

    def group_by(
        self,
        selector: Callable[[K, V], Any],
        *,
        key: AnySerde = None,
        value: AnySerde = None,
        name: str | None = None,
    ) -> KGroupedStream[Any, V]:
        """Group the records by ``selector(key, value)``."""
        check_function(selector, "group_by", "key", "value")
        selected = self._then(SelectKey(mapper=selector), "KEY-SELECT", name, new_key=True)
        serdes = (key, value or self._value)
        return KGroupedStream(self._graph, selected._node, serdes, self._sources, True, name)

    # joins

    def join(self, other: Any, joiner: Callable[..., Any], *, window: JoinWindows | None = None,
             grace: Duration | None = None, select: Callable[[K, V], Any] | None = None, with_key: bool = False,
             key: AnySerde = None, value: AnySerde = None, other_value: AnySerde = None,
             store: str | StoreSpec | None = None, name: str | None = None) -> KStream[K, Any]:  # fmt: skip
        """Join with a KStream (needs ``window``), a KTable (may have ``grace``) or a GlobalKTable (needs ``select``).

        ``joiner(value, other_value)``; with ``with_key`` it gets the key first.
        """
        how = joins.JoinOptions(window, grace, select, with_key, key, value, other_value, store, name)
        return self._join("inner", other, joiner, how)

    def left_join(self, other: Any, joiner: Callable[..., Any], *, window: JoinWindows | None = None,
                  grace: Duration | None = None, select: Callable[[K, V], Any] | None = None, with_key: bool = False,
                  key: AnySerde = None, value: AnySerde = None, other_value: AnySerde = None,
                  store: str | StoreSpec | None = None, name: str | None = None) -> KStream[K, Any]:  # fmt: skip
        """Join as ``join`` does; a record without a match is joined with None."""
        how = joins.JoinOptions(window, grace, select, with_key, key, value, other_value, store, name)
        return self._join("left", other, joiner, how)

    def outer_join(self, other: KStream[K, Any], joiner: Callable[..., Any], *, window: JoinWindows | None = None,
                   with_key: bool = False, key: AnySerde = None, value: AnySerde = None, other_value: AnySerde = None,
                   store: str | StoreSpec | None = None, name: str | None = None) -> KStream[K, Any]:  # fmt: skip
        """Join with a KStream; a record of either side without a match is joined with None."""
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
        """Run a Processor (a class, or any callable that makes one) with the named stores; a spec is added."""
        check_supplier(supplier, "process")
        return self._process(Process(supplier=supplier), "KSTREAM-PROCESSOR-", stores, name, None, rekeyed=True)

    def process_values(
        self, supplier: Callable[[], Any], *, stores: str | StoreSpec | Iterable[str | StoreSpec] = (),
        name: str | None = None,
    ) -> KStream[K, Any]:  # fmt: skip
        """Run a FixedKeyProcessor: the key cannot change, so nothing is repartitioned after it."""
        check_supplier(supplier, "process_values")
        operator = ProcessValues(supplier=supplier)
        return self._process(operator, "KSTREAM-PROCESSVALUES-", stores, name, self._key, rekeyed=self._rekeyed)

    def deduplicate(
        self, *, by: Callable[[K, V], Any], within: Duration, store: str | StoreSpec | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:  # fmt: skip
        """Drop a record if one with the same key and ``by(key, value)`` was let pass within the time before it."""
        return deduplicate(self, by, within, store, name)

    # making handles

    def _then(
        self, operator: Operator, kind: str, name: str | None, *, new_key: bool = False, new_value: bool = False
    ) -> KStream[Any, Any]:
        """Add a node with one operator; serdes are kept where the type is."""
        named = self._graph.name(name, f"KSTREAM-{kind}-")
        # a node that changes both counts as changing the key, for the rewrites
        node = GraphNode(
            named, processor(one(operator)), key_changing=new_key, value_changing=new_value and not new_key
        )
        self._graph.add(node, self._node)
        return self._handle(
            node,
            key=None if new_key else self._key,
            value=None if new_value else self._value,
            rekeyed=new_key or self._rekeyed,
        )

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
