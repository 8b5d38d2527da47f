"""ReadableTopology: a topology to look at. The planner, the test driver and the drawings need no more than this."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from penstock.errors import TopologyError, nearest
from penstock.state.spec import StoreSpec
from penstock.topology.describe import describe
from penstock.topology.mermaid import to_json, to_mermaid
from penstock.topology.node import GlobalStore, InternalTopic, Node, SubTopology, Wrapper
from penstock.topology.subtopologies import find_subtopologies
from penstock.topology.svg import to_svg


class ReadableTopology:
    """Nodes, stores and topics, and what can be said about them."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._children: dict[str, list[str]] = {}
        self._stores: dict[str, StoreSpec] = {}
        self._node_stores: dict[str, list[str]] = {}
        self._globals: dict[str, GlobalStore] = {}
        self._global_nodes: dict[str, Node] = {}
        self._order: list[str] = []
        self._internal_topics: dict[str, InternalTopic] = {}
        self._copartitions: list[tuple[str, ...]] = []
        self._wrapper: Wrapper | None = None

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes but those of global stores, parents before children."""
        return MappingProxyType(self._nodes)

    @property
    def order(self) -> tuple[str, ...]:
        """The names of all nodes, those of global stores too, in the order they were added."""
        return tuple(self._order)

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

    @property
    def copartitions(self) -> tuple[tuple[str, ...], ...]:
        """Groups of source nodes whose topics must have the same number of partitions."""
        return tuple(self._copartitions)

    @property
    def wrapper(self) -> Wrapper | None:
        """The wrapper of every processor node, applied when it is opened; None: there is none."""
        return self._wrapper

    def node(self, name: str) -> Node:
        """Return a node by name, one of a global store too."""
        found = self._nodes.get(name) or self._global_nodes.get(name)
        if found is None:
            raise TopologyError(f"there is no node {name!r}{nearest(name, self._order)}")
        return found

    def parents(self, name: str) -> tuple[str, ...]:
        """Return the names of the nodes that forward to a node."""
        return self.node(name).parents

    def children(self, name: str) -> tuple[str, ...]:
        """Return the names of the nodes that a node forwards to, in the order they were added."""
        return tuple(self._children.get(name, ()))

    def stores_of(self, name: str) -> tuple[str, ...]:
        """Return the names of the stores connected to a node."""
        return tuple(self._node_stores.get(name, ()))

    def changelog_topic(self, store: str) -> str | None:
        """Return the topic a store is restored from: its source, or ``<store>-changelog`` (no application prefix)."""
        spec = self._stores[store]
        if spec.source_topic is not None:
            return spec.source_topic
        return f"{store}-changelog" if spec.logged else None

    def subtopologies(self) -> tuple[SubTopology, ...]:
        """Return the sub-topologies, numbered as Kafka Streams numbers them."""
        return find_subtopologies(self)

    def describe(self) -> str:
        """Return the topology as text, equal to Kafka Streams'."""
        return describe(self)

    def to_mermaid(self, notes: Mapping[str, str] | None = None) -> str:
        """Return a Mermaid flowchart: sub-topologies as subgraphs, topics and stores as shapes of their own.

        ``notes``: something to say of nodes, by their names.
        """
        return to_mermaid(self, notes)

    def to_svg(self, notes: Mapping[str, str] | None = None) -> str:
        """Return a picture, as the text of an SVG file. ``notes``: something to say of nodes, by their names."""
        return to_svg(self, notes)

    def _repr_html_(self) -> str:
        """Show the picture in a notebook."""
        return f'<div style="overflow: auto">{to_svg(self)}</div>'

    def to_json(self) -> dict[str, Any]:
        """Return nodes, stores and sub-topologies as plain data."""
        return to_json(self)
