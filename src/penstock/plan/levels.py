"""Levels: in which order the sources of one epoch run.

A source of a user's topic is at level 0. A source of a repartition topic is one level above the highest source whose records can
reach that topic's sink. A stage may hold sources of several levels (the response side of a foreign-key join): a level is a
property of the source, not of the stage.
"""

from __future__ import annotations

from functools import cache

from penstock.errors import TopologyError
from penstock.topology.node import SinkNode, SourceNode
from penstock.topology.topology import Topology


def find_levels(topology: Topology) -> dict[str, int]:
    """Return the level of every source node by its name."""
    writers: dict[str, set[str]] = {}
    for name, node in topology.nodes.items():
        if isinstance(node, SinkNode) and node.internal and node.topic is not None:
            writers.setdefault(node.topic, set()).update(_sources_above(topology, name))
    levels: dict[str, int] = {}
    climbing: set[str] = set()

    def level(name: str) -> int:
        if name in levels:
            return levels[name]
        if name in climbing:
            raise TopologyError(
                f"the repartition topic read by {name} is fed by itself: a cycle cannot run inside one epoch"
            )
        climbing.add(name)
        node = topology.nodes[name]
        assert isinstance(node, SourceNode)
        below = {source for topic in node.topics for source in writers.get(topic, ())} if node.internal else set()
        levels[name] = 1 + max(map(level, below), default=-1)
        climbing.discard(name)
        return levels[name]

    for name, node in topology.nodes.items():
        if isinstance(node, SourceNode):
            level(name)
    return levels


def _sources_above(topology: Topology, name: str) -> frozenset[str]:
    @cache
    def above(node_name: str) -> frozenset[str]:
        node = topology.nodes[node_name]
        if isinstance(node, SourceNode):
            return frozenset((node_name,))
        return frozenset().union(*(above(parent) for parent in node.parents))

    return above(name)
