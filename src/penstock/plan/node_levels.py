"""Levels of nodes: in which step of an epoch each node runs, where a record comes back to its own sub-topology.

Ordinarily a node runs in the step of its sources. Where a source is fed, through a re-key, by its own sub-topology, it runs later than
what feeds it (``levels``). Then nodes that belong together would run in different steps: the two sides of a join, the branches of a
merge. They must not: one side would not see in an epoch what the other one has. So these rules are added:

1. A node runs in no earlier step than its parents. An edge to a later step is *carried over*: its records go on to that step, in their
   shard, through an internal topic. (A sink of a re-key runs with each of its parents: the later step puts its rows in order.)
2. The nodes that write to a store run in one step.
3. A node that only reads a table by key runs in no earlier step than those that write to it. In a later one it follows the changes
   (``Plan.follows``).

A foreign-key join needs them not: it answers for the newest rows, and each side asks for what it has missed of the other.

Where the rules lead in a circle (a processor on both sides of a re-key writes to one store), the store is *loose*: its nodes stay where
their sources are, and what they see of each other depends on where epochs end.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import NamedTuple

from penstock.operators.base import TableView
from penstock.operators.foreign_key_join import ForeignTableUpdate, SubscriptionReceive
from penstock.serde import Serdes
from penstock.topology.node import Node, ProcessorNode, SinkNode, SourceNode
from penstock.topology.topology import Topology, with_nodes


class NodeLevels(NamedTuple):
    """The level of every node; stores for which the rules do not hold."""

    of: dict[str, int]
    loose: frozenset[str] = frozenset()


def find_node_levels(topology: Topology, sources: dict[str, int]) -> NodeLevels:
    """Return the level of every node, given those of the sources.

    >>> from penstock import JoinWindows, StreamsBuilder
    >>> from penstock.plan.levels import find_levels
    >>> builder = StreamsBuilder()
    >>> numbers = builder.stream("numbers")
    >>> others = numbers.select_key(lambda key, value: value)
    >>> numbers.join(others, lambda one, other: one, window=JoinWindows(10)).to("out")
    >>> topology = builder.build()
    >>> levels = find_node_levels(topology, find_levels(topology))
    >>> sorted(node for node, level in levels.of.items() if level == 0)
    ['KSTREAM-FILTER-0000000003', 'KSTREAM-KEY-SELECT-0000000001', 'KSTREAM-SINK-0000000002', 'KSTREAM-SOURCE-0000000000']
    """
    most = len(topology.internal_topics) + max(sources.values(), default=0) + 1
    loose: frozenset[str] = frozenset()
    while True:
        levels = _raised(topology, sources, loose, most)
        beyond = {s for s in topology.stores for n in _users(topology, s) if levels[n] > most} - loose
        if not beyond:
            return NodeLevels(_as_late_as_possible(topology, levels), loose)
        loose |= beyond


def only_reads(topology: Topology, node: str) -> frozenset[str]:
    """Return the stores that a node reads by key, as those of another node's table."""
    found = topology.nodes[node]
    operator = found.operator if isinstance(found, ProcessorNode) else None
    if not is_dataclass(operator):
        return frozenset()
    views = [getattr(operator, field.name) for field in fields(operator)]
    return frozenset(store for view in views if isinstance(view, TableView) for store in view.stores)


def writers_of(topology: Topology, store: str) -> list[str]:
    """Return the nodes that may write to a store."""
    return [name for name in _users(topology, store) if store not in only_reads(topology, name)]


def carry_over(topology: Topology, levels: dict[str, int]) -> tuple[Topology, dict[str, int]]:
    """Return a topology whose edges stay inside their step, and the levels of its sources.

    Records are pickled on the way: they may be anything that a function of the user's has made.
    """
    nodes: list[Node] = []
    level_of: dict[str, int] = {}
    for name, node in topology.nodes.items():
        if isinstance(node, SourceNode):
            level_of[name] = levels[name]
        if isinstance(node, SourceNode) or (
            isinstance(node, SinkNode) and node.internal
        ):  # a sink may be in several steps
            nodes.append(node)
            continue
        parents = []
        for parent in node.parents:
            if levels[parent] < levels[name]:
                topic, source = f"{parent}-to-{name}", f"{parent}-to-{name}-source"
                serdes = Serdes.pickle, Serdes.pickle
                nodes.append(
                    SinkNode(f"{topic}-sink", topic, (parent,), *serdes, internal=True, stays=True, carries=True)
                )
                nodes.append(SourceNode(source, (topic,), *serdes, internal=True))
                level_of[source] = levels[name]
            parents.append(parent if levels[parent] == levels[name] else source)
        nodes.append(replace(node, parents=tuple(parents)))
    return with_nodes(topology, nodes), level_of


def _raised(topology: Topology, sources: dict[str, int], loose: frozenset[str], most: int) -> dict[str, int]:
    """Raise levels until all rules hold, or one is beyond the most that can be."""
    levels = dict.fromkeys(topology.nodes, 0) | sources
    sinks: dict[str, list[str]] = {}
    for name, node in topology.nodes.items():
        if isinstance(node, SinkNode) and node.internal and node.topic is not None:
            sinks.setdefault(node.topic, []).append(name)
    own = [store for store in topology.stores if store not in loose and not _of_foreign_keys(topology, store)]
    tied = [(writers_of(topology, store), _users(topology, store)) for store in own]
    while True:
        before = dict(levels)
        for name, node in topology.nodes.items():
            if isinstance(node, SourceNode):
                feeding = [sink for topic in node.topics for sink in sinks.get(topic, ())] if node.internal else []
                levels[name] = max([levels[name], *(levels[sink] + 1 for sink in feeding)])
            else:
                levels[name] = max([levels[name], *(levels[parent] for parent in node.parents)])
        for writers, users in tied:
            top = max((levels[name] for name in writers), default=0)
            levels.update((name, max(levels[name], top)) for name in users)
        if levels == before or max(levels.values(), default=0) > most:
            return levels


def _as_late_as_possible(topology: Topology, levels: dict[str, int]) -> dict[str, int]:
    """Let nodes without a store run where all their children do: fewer records are carried over."""
    late = dict(levels)
    for name in reversed(list(topology.nodes)):
        children = topology.children(name)
        if children and not topology.stores_of(name):
            late[name] = max(late[name], min(late[child] for child in children))
    return late


def _of_foreign_keys(topology: Topology, store: str) -> bool:
    """Whether a store is that of a foreign-key join's subscriptions: either side asks for what it has missed of the other."""
    nodes = [topology.nodes[name] for name in _users(topology, store)]
    own = SubscriptionReceive | ForeignTableUpdate
    return all(isinstance(node, ProcessorNode) and isinstance(node.operator, own) for node in nodes)


def _users(topology: Topology, store: str) -> list[str]:
    return [name for name in topology.nodes if store in topology.stores_of(name)]
