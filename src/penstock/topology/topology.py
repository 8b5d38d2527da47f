"""Topology: what the user described, checked as it grows. The DSL and the Processor API both end here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from penstock.errors import TopologyError, nearest
from penstock.operators.process import Process
from penstock.serde import Serde, Serdes
from penstock.state.spec import StoreSpec
from penstock.topology.node import GlobalStore, InternalTopic, Node, Partitioner, ProcessorNode, SinkNode, SourceNode, SubTopology
from penstock.topology.subtopologies import find_subtopologies


class Topology:
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
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._children: dict[str, list[str]] = {}
        self._stores: dict[str, StoreSpec] = {}
        self._node_stores: dict[str, list[str]] = {}
        self._globals: dict[str, GlobalStore] = {}
        self._internal_topics: dict[str, InternalTopic] = {}
        self._copartitions: list[tuple[str, ...]] = []

    # reading

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes but those of global stores, parents before children."""
        return MappingProxyType(self._nodes)

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        """All stores by name, global ones too."""
        return MappingProxyType(self._stores)

    @property
    def global_stores(self) -> Mapping[str, GlobalStore]:
        """The global stores by store name."""
        return MappingProxyType(self._globals)

    @property
    def internal_topics(self) -> Mapping[str, InternalTopic]:
        """Repartition topics by name without the application's prefix."""
        return MappingProxyType(self._internal_topics)

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names of the nodes that a node forwards to, in the order they were added."""
        return tuple(self._children.get(name, ()))

    def stores_of(self, name: str) -> tuple[str, ...]:
        """Return the names of the stores connected to a node."""
        return tuple(self._node_stores.get(name, ()))

    def subtopologies(self) -> tuple[SubTopology, ...]:
        """Return the sub-topologies, numbered as Kafka Streams numbers them."""
        return find_subtopologies(self)
