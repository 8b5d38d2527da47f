"""What all aggregations of grouped streams share: the repartition topic in front, the node, the resulting table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.dsl.graph import Graph, GraphNode, processor
from penstock.dsl.ktable import KTable
from penstock.dsl.repartition import repartition_node
from penstock.dsl.stores import Materialized, Serdes2
from penstock.dsl.tables import StoredTable
from penstock.operators.base import Operator
from penstock.serde import Serde


class GroupedInput:
    """Records grouped by key, behind a repartition topic if the key has changed."""

    def __init__(
        self,
        graph: Graph,
        node: GraphNode,
        serdes: Serdes2,
        sources: frozenset[str],
        rekeyed: bool,
        given_name: str | None,
    ) -> None:
        self.graph = graph
        self.node = node
        self.serdes = serdes
        self.rekeyed = rekeyed
        self.given_name = given_name
        self._sources = sources
        self._repartition: GraphNode | None = None

    def parent(self, store: str) -> tuple[GraphNode, frozenset[str]]:
        """Return the node to aggregate below, and its sources. A topic that the user named serves all aggregations."""
        if not self.rekeyed:
            return self.node, self._sources
        new = repartition_node(self.graph, self.given_name or store, *self.serdes)
        if self._repartition is None or self.given_name is None:
            self._repartition = new
        self.graph.add(self._repartition, self.node)
        return self._repartition, frozenset([self._repartition.name])

    def once(self, store: str, parents: dict[GroupedInput, GraphNode]) -> GraphNode:
        """Return the node to aggregate below for a cogroup, which makes one topic per input, and only once."""
        if not self.rekeyed:
            return parents.setdefault(self, self.node)
        new = repartition_node(self.graph, self.given_name or store, *self.serdes)
        if self not in parents:
            parents[self] = self.graph.add(new, self.node)
        return parents[self]

    def sources_below(self, parent: GraphNode) -> frozenset[str]:
        """Return the sources that a node below ``parent`` reads from."""
        return frozenset([parent.name]) if self.rekeyed else self._sources


def aggregated(
    grouped: GroupedInput,
    name: str,
    kept: Materialized,
    operator: Callable[[str, bool], Operator],
    *,
    key: Serde[Any] | None = None,
    grace: int | None = None,
) -> KTable[Any, Any]:
    """Add an aggregation, ``operator(store, send_old)``; return its table. ``key``: its serde, if not the store's."""
    table = StoredTable(kept.spec)
    write = processor(lambda node: operator(kept.spec.name, table.send_old), stores=table.specs)
    parent, sources = grouped.parent(kept.spec.name)
    node = GraphNode(name, write, versioned=kept.versioned, grace=grace)
    grouped.graph.add(node, parent)
    return KTable(grouped.graph, node, key or kept.spec.key, kept.spec.value, sources, table, kept.queryable)
