"""Levels: in which order the sources of one epoch run.

Rules, so that a record meets the same state however the epochs are cut:

1. A source of a repartition topic is above every source whose records can reach that topic's sink.
2. The sources of one sub-topology share a level, the highest that any of them needs: the two sides of a join are then taken in
   one order, even if only one of them was re-keyed.
3. Except a source that is fed, through other sub-topologies, by its own (the response side of a foreign-key join): it runs later.
"""

from __future__ import annotations

from functools import cache

from penstock.errors import TopologyError
from penstock.topology.node import SinkNode, SourceNode
from penstock.topology.topology import Topology


def find_levels(topology: Topology) -> dict[str, int]:
    """Return the level of every source node by its name.

    >>> from penstock import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> table = builder.table("t")
    >>> builder.stream("s").select_key(lambda k, v: v).join(table, lambda v, row: row).to("out")
    >>> sorted(find_levels(builder.build()).values())
    [0, 1, 1]
    """
    stages = {name: sub.id for sub in topology.subtopologies() for name in sub.nodes}
    feeders = _feeders(topology)
    above = _closure(feeders)
    mates = {
        name: [
            other
            for other in feeders
            if stages[other] == stages[name]
            and not _fed_by_own(other, above, stages)
            and not _fed_by_own(name, above, stages)
        ]
        for name in feeders
    }
    levels = dict.fromkeys(feeders, 0)
    for _ in range(len(feeders) + 1):
        before = dict(levels)
        for name in feeders:
            levels[name] = max(
                [levels[name], *(levels[f] + 1 for f in feeders[name]), *(levels[m] for m in mates[name])]
            )
        if levels == before:
            return levels
    raise TopologyError(
        "the repartition topics of this topology feed each other in a cycle that cannot run inside one epoch"
    )


def returning_sources(topology: Topology) -> frozenset[str]:
    """Return the internal sources that are fed, through other sub-topologies, by their own: their records come back to it."""
    stages = {name: sub.id for sub in topology.subtopologies() for name in sub.nodes}
    above = _closure(_feeders(topology))
    return frozenset(name for name in above if _fed_by_own(name, above, stages))


def _fed_by_own(name: str, above: dict[str, frozenset[str]], stages: dict[str, int]) -> bool:
    return any(stages[feeder] == stages[name] for feeder in above[name])


def _feeders(topology: Topology) -> dict[str, frozenset[str]]:
    """Return for every source the sources whose records reach its topics through repartition sinks."""
    writers: dict[str, set[str]] = {}
    for name, node in topology.nodes.items():
        if isinstance(node, SinkNode) and node.internal and node.topic is not None:
            writers.setdefault(node.topic, set()).update(_sources_above(topology, name))
    return {
        name: frozenset(source for topic in node.topics for source in writers.get(topic, ()))
        if node.internal
        else frozenset()
        for name, node in topology.nodes.items()
        if isinstance(node, SourceNode)
    }


def _closure(feeders: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    above = dict(feeders)
    for _ in feeders:
        above = {name: direct.union(*(above[f] for f in direct)) for name, direct in feeders.items()}
    return above


def _sources_above(topology: Topology, name: str) -> frozenset[str]:
    @cache
    def above(node_name: str) -> frozenset[str]:
        node = topology.nodes[node_name]
        if isinstance(node, SourceNode):
            return frozenset((node_name,))
        nothing: frozenset[str] = frozenset()
        return nothing.union(*(above(parent) for parent in node.parents))

    return above(name)
