"""Topology: what the user described, checked as it grows. The DSL and the Processor API both end here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.errors import ConfigError, TopologyError, nearest
from penstock.operators.process import Process
from penstock.serde import Serde
from penstock.serde.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.state.spec import StoreSpec
from penstock.strict import strict_options
from penstock.topology.arguments import (
    OffsetReset,
    Topics,
    check_no_topic_config,
    completed,
    reset_text,
    split_destination,
    split_topics,
    supplied_stores,
)
from penstock.topology.functions import check_extractor, check_late, check_partitioner, check_watermark, check_wrapper
from penstock.topology.names import check_name
from penstock.topology.node import (
    GlobalStore,
    InternalTopic,
    Node,
    Partitioner,
    ProcessorNode,
    SinkNode,
    SourceNode,
    TimestampExtractor,
    Wrapper,
)
from penstock.topology.readable import ReadableTopology
from penstock.watermark import LatePolicy, WatermarkStrategy


@strict_options
class Topology(ReadableTopology):
    """A graph of sources, processors, sinks and stores.

    >>> from penstock import Topology
    >>> topology = Topology()
    >>> _ = topology.add_source("in", "lines").add_sink("out", "copies", "in")
    >>> print(topology.describe())
    Topologies:
       Sub-topology: 0
        Source: in (topics: [lines])
          --> out
        Sink: out (topic: copies)
          <-- in
    <BLANKLINE>
    <BLANKLINE>

    ``wrapper(node, process)`` is called with each processor node as a task opens it, and returns what runs instead of ``process``.
    """

    def __init__(self, *, wrapper: Wrapper | None = None) -> None:
        super().__init__()
        self._wrapper = check_wrapper(wrapper)

    def __repr__(self) -> str:
        return f"Topology({len(self.nodes)} nodes in {len(self.subtopologies())} sub-topologies, {len(self.stores)} stores)"

    # the Processor API

    def add_source(
        self,
        name: str,
        topics: Topics,
        *,
        key: Serde[Any] = DEFAULT_KEY,
        value: Serde[Any] = DEFAULT_VALUE,
        timestamp: TimestampExtractor | None = None,
        offset_reset: OffsetReset = None,
        watermark: WatermarkStrategy | None = None,
        late: LatePolicy | None = None,
    ) -> Topology:
        """Read topics: a name, several, or a compiled pattern."""
        check_watermark(watermark)
        check_late(late)
        names, pattern = split_topics(topics)
        return self.add(
            SourceNode(
                name,
                names,
                key,
                value,
                pattern=pattern,
                timestamp=check_extractor(timestamp),
                offset_reset=reset_text(offset_reset),
                watermark=watermark,
                late=late,
            )
        )

    def add_processor(self, name: str, supplier: Callable[[], Any], *parents: str) -> Topology:
        """Run a Processor (a class, or any callable that makes one) on what the parents forward.

        Stores that the supplier brings along (``stores``: specs or a function that returns them) are added, connected.
        """
        self.add(ProcessorNode(name, Process(supplier), parents))
        for spec in supplied_stores(supplier):
            self.add_state_store(spec, name)
        return self

    def add_sink(
        self,
        name: str,
        topic_or_extractor: str | Callable[..., str],
        *parents: str,
        key: Serde[Any] = DEFAULT_KEY,
        value: Serde[Any] = DEFAULT_VALUE,
        partitioner: Partitioner | None = None,
    ) -> Topology:
        """Write to a topic, or to the one that ``topic_or_extractor(key, value, origin)`` names."""
        to, extractor = split_destination(topic_or_extractor)
        return self.add(
            SinkNode(name, to, parents, key, value, extractor=extractor, partitioner=check_partitioner(partitioner))
        )

    def add_state_store(self, spec: StoreSpec, *processors: str) -> Topology:
        """Add a store and connect it to processors."""
        if not isinstance(spec, StoreSpec):
            raise TopologyError(f"add_state_store() takes a store, e.g. Stores.key_value('counts'), but got {spec!r}")
        spec = completed(spec)
        if spec.name in self._globals:
            raise TopologyError(f"a global store is already called {spec.name!r}: choose another name")
        if self._stores.setdefault(spec.name, spec) != spec:
            raise TopologyError(f"a different store is already called {spec.name!r}: choose another name")
        for processor in processors:
            self._connect(processor, spec.name)
        return self

    def connect(self, processor: str, *stores: str) -> Topology:
        """Let a processor use stores that were added before."""
        if not stores:
            raise TopologyError(f"connect({processor!r}) needs the name of at least one store")
        for store in stores:
            self._connect(processor, store)
        return self

    def add_global_store(
        self,
        spec: StoreSpec,
        topic: str,
        processor: Callable[[], Any],
        *,
        source: str,
        name: str,
        key: Serde[Any] = DEFAULT_KEY,
        value: Serde[Any] = DEFAULT_VALUE,
        timestamp: TimestampExtractor | None = None,
    ) -> Topology:
        """Keep a whole topic in a store that every lane can read; ``processor`` (node ``name``) writes it."""
        reader = SourceNode(source, (check_name(topic, "topic"),), key, value, timestamp=check_extractor(timestamp))
        return self.add_global(GlobalStore(reader, ProcessorNode(name, Process(processor), (source,)), spec.name), spec)

    def add_read_only_state_store(
        self,
        spec: StoreSpec,
        topic: str,
        processor: Callable[[], Any],
        *,
        source: str,
        name: str,
        key: Serde[Any] = DEFAULT_KEY,
        value: Serde[Any] = DEFAULT_VALUE,
        timestamp: TimestampExtractor | None = None,
    ) -> Topology:
        """Keep a topic in a store, as its changelog; ``processor`` (node ``name``) alone writes it."""
        check_no_topic_config(spec)
        self.add_source(source, topic, key=key, value=value, timestamp=timestamp, offset_reset="earliest")
        self.add(ProcessorNode(name, Process(processor), (source,)))
        return self.add_state_store(spec.with_(logged=False, source_topic=topic), name)

    # what the DSL uses as well

    def add(self, node: Node) -> Topology:
        """Add any node; its parents must be there already."""
        self._check_new(node.name)
        if isinstance(node, SourceNode):
            self._check_topics(node)
        else:
            self._check_parents(node)
        self._nodes[node.name] = node
        self._order.append(node.name)
        for parent in node.parents:
            self._children.setdefault(parent, []).append(node.name)
        return self

    def add_global(self, store: GlobalStore, spec: StoreSpec) -> Topology:
        """Add a global store with its source and the processor that updates it."""
        check_no_topic_config(spec)
        if spec.name in self._stores:
            raise TopologyError(f"another store is already called {spec.name!r}: choose another name")
        self._check_new(store.source.name)
        self._check_new(store.processor.name)
        if store.source.name == store.processor.name:
            raise TopologyError(f"source and processor of global store {spec.name!r} need different names")
        self._check_topics(store.source)
        self._stores[spec.name] = completed(spec.with_(logged=False, source_topic=store.source.topics[0]))
        self._globals[spec.name] = store
        for node in (store.source, store.processor):
            self._global_nodes[node.name] = node
            self._order.append(node.name)
        self._children[store.source.name] = [store.processor.name]
        self._node_stores[store.processor.name] = [spec.name]
        return self

    def add_internal_topic(self, name: str, partitions: int | None = None) -> Topology:
        """Declare that a topic belongs to the application: its name gets the application's prefix."""
        self._internal_topics[name] = InternalTopic(name, partitions)
        return self

    def copartition(self, sources: Iterable[str]) -> Topology:
        """Declare that the topics of these source nodes must have the same number of partitions."""
        self._copartitions.append(tuple(sorted(set(sources))))
        return self

    def check_partitions(self) -> None:
        """Check that repartition topics which must be partitioned alike were not given different numbers."""
        for group in self._copartitions:
            topics = [t for name in group for t in self._topics_of(name)]
            given = {t: self._internal_topics[t].partitions for t in topics if t in self._internal_topics}
            if len(given) == len(topics) and None not in given.values() and len(set(given.values())) > 1:
                raise TopologyError(f"these topics are joined and must have equal partitions=, but have {given}")

    # checks

    def _topics_of(self, name: str) -> tuple[str, ...]:
        node = self._nodes.get(name)
        return node.topics if isinstance(node, SourceNode) else ()

    def _connect(self, processor: str, store: str) -> None:
        if store in self._globals:
            raise TopologyError(f"global store {store!r} is open to every processor: do not connect it")
        if store not in self._stores:
            raise TopologyError(
                f"there is no store {store!r}{nearest(store, self._stores)}: add it with add_state_store()"
            )
        if processor not in self._nodes:
            raise TopologyError(f"there is no processor {processor!r}{nearest(processor, self._nodes)}")
        if not isinstance(self._nodes[processor], ProcessorNode):
            raise TopologyError(f"store {store!r} cannot be connected to {processor!r}: it is a source or a sink")
        connected = self._node_stores.setdefault(processor, [])
        if store not in connected:
            connected.append(store)

    def _check_new(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise TopologyError(f"a node needs a name (a non-empty string), but got {name!r}")
        if name in self._nodes or name in self._global_nodes:
            raise TopologyError(f"there is already a node {name!r}: give one of the two another name")

    def _check_parents(self, node: ProcessorNode | SinkNode) -> None:
        if not node.parents:
            raise TopologyError(f"node {node.name!r} needs at least one parent: name the nodes it reads from")
        for parent in node.parents:
            if parent not in self._nodes:
                raise TopologyError(
                    f"parent {parent!r} of node {node.name!r} does not exist{nearest(parent, self._nodes)}"
                )
            if isinstance(self._nodes[parent], SinkNode):
                raise TopologyError(
                    f"sink {parent!r} cannot be the parent of {node.name!r}: nothing comes out of a sink"
                )

    def _check_topics(self, source: SourceNode) -> None:
        sources = [
            node for node in (*self._nodes.values(), *self._global_nodes.values()) if isinstance(node, SourceNode)
        ]
        for other in sources:
            for topic in source.topics:
                if topic in other.topics or (other.pattern and other.pattern.fullmatch(topic)):
                    raise TopologyError(
                        f"topic {topic!r} is already read by source {other.name!r}: read it once, use that stream twice"
                    )
            if source.pattern and any(source.pattern.fullmatch(topic) for topic in other.topics):
                raise TopologyError(
                    f"pattern {source.pattern.pattern!r} matches a topic that source {other.name!r} already reads"
                )


def with_nodes(topology: Topology, nodes: Iterable[Node]) -> Topology:
    """Return a topology with other nodes, parents before children; stores and global tables are the same."""
    other = Topology(wrapper=topology.wrapper)
    for part in ("_stores", "_node_stores", "_globals", "_global_nodes", "_internal_topics", "_copartitions"):
        setattr(other, part, getattr(topology, part).copy())
    for node in nodes:
        other._nodes[node.name] = node
        for parent in node.parents:
            other._children.setdefault(parent, []).append(node.name)
    for table in other._globals.values():
        other._children[table.source.name] = [table.processor.name]
    other._order = [*other._nodes, *other._global_nodes]
    return other


def built(topology_or_builder: Any, who: str, optimize: Sequence[str] = ()) -> Topology:
    """Return a topology as it is, or build it; ``who`` asks for it. ``optimize``: what the configuration says."""
    if isinstance(topology_or_builder, Topology):
        if optimize:
            raise ConfigError(
                f"optimize={','.join(optimize)} has no effect on a topology that is built already: give {who} the builder, "
                "or build it so: builder.build(optimize=...)"
            )
        return topology_or_builder
    if not hasattr(topology_or_builder, "build"):
        raise TopologyError(f"{who} takes a Topology or a StreamsBuilder, but got {topology_or_builder!r}")
    topology: Topology = topology_or_builder.build(optimize=optimize) if optimize else topology_or_builder.build()
    return topology
