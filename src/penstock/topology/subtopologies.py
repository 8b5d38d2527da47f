"""Sub-topologies: the groups of nodes that stay connected when the graph is cut at its topics.

Two nodes are in one group if one forwards to the other or both use a store. Groups are numbered by their first node,
global stores too, so that the numbers equal Kafka Streams'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.topology.node import SubTopology

if TYPE_CHECKING:
    from penstock.topology.readable import ReadableTopology


def group_nodes(topology: ReadableTopology) -> tuple[tuple[str, ...], ...]:
    """Return the node names of every group, global stores' groups among them; the index is the group's number."""
    union = _Union(topology.order)
    users: dict[str, str] = {}
    for name in topology.order:
        for parent in topology.parents(name):
            union.unite(name, parent)
        for store in topology.stores_of(name):
            union.unite(name, users.setdefault(store, name))
    groups: dict[str, list[str]] = {}
    for name in topology.order:
        groups.setdefault(union.root(name), []).append(name)
    return tuple(tuple(group) for group in groups.values())


def find_subtopologies(topology: ReadableTopology) -> tuple[SubTopology, ...]:
    """Return the sub-topologies that run in lanes, under their numbers; global stores are left out."""
    result = []
    for number, group in enumerate(group_nodes(topology)):
        if group[0] in topology.nodes:
            stores = dict.fromkeys(store for name in group for store in topology.stores_of(name))
            result.append(SubTopology(number, group, tuple(stores)))
    return tuple(result)


class _Union:
    """Union-find over node names."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._above = {name: name for name in names}

    def root(self, name: str) -> str:
        above = self._above
        while above[name] != name:
            above[name] = name = above[above[name]]
        return name

    def unite(self, one: str, other: str) -> None:
        self._above[self.root(one)] = self.root(other)
