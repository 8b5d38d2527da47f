"""The text of a topology, byte for byte Kafka Streams' ``TopologyDescription``.

Nodes of a sub-topology are sorted by the size of what hangs below them, largest first, then by name. Their neighbours
are sorted in the same way, but by the sizes at the moment of connecting, in hash order: that is imitated here as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.topology.java_order import TreeSet, copied_order, grown_order
from penstock.topology.node import ProcessorNode, SinkNode, SourceNode
from penstock.topology.subtopologies import group_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.topology.readable import ReadableTopology


def describe(topology: ReadableTopology) -> str:
    """Return the text of a topology."""
    parts = ["Topologies:\n "]
    for number, group in enumerate(group_nodes(topology)):
        if group[0] in topology.nodes:
            parts.append(f"  Sub-topology: {number}\n{_subtopology(topology, group)}\n")
        else:
            parts.append(
                f"  Sub-topology: {number} for global store (will not generate tasks)\n{_subtopology(topology, group)}"
            )
    return "".join(parts)


class _Drawn:
    """A node being described: its neighbours, the size of what hangs below it (a node reached twice counts twice)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.size = 1
        self.predecessors = TreeSet(_compare)
        self.successors = TreeSet(_compare)

    def grow(self, delta: int) -> None:
        """Add to the size of this node and of all that is known to be above it."""
        above = [self]
        while above:
            node = above.pop()
            node.size += delta
            above.extend(node.predecessors)


def _compare(one: _Drawn, other: _Drawn) -> int:
    if one is other:
        return 0
    if one.size != other.size:
        return other.size - one.size
    return -1 if one.name < other.name else 1


def _subtopology(topology: ReadableTopology, group: tuple[str, ...]) -> str:
    nodes = {name: _Drawn(name) for name in grown_order(group)}
    for node in nodes.values():
        for parent in topology.parents(node.name):
            node.predecessors.add(nodes[parent])
            nodes[parent].successors.add(node)
            nodes[parent].grow(node.size)
    ordered = sorted(nodes.values(), key=lambda node: (-node.size, node.name))
    return "".join(f"    {_node(topology, node)}\n" for node in ordered)


def _node(topology: ReadableTopology, drawn: _Drawn) -> str:
    node = topology.node(drawn.name)
    after, before = f"\n      --> {_names(drawn.successors)}", f"\n      <-- {_names(drawn.predecessors)}"
    match node:
        case SourceNode():
            label = f"topics: {source_label(node)}" if node.schedule is None else f"schedule: {node.schedule.schedule}"
            return f"Source: {node.name} ({label}){after}"
        case ProcessorNode():
            stores = ", ".join(copied_order(grown_order(topology.stores_of(node.name))))
            return f"Processor: {node.name} (stores: [{stores}]){after}{before}"
        case SinkNode():
            return f"Sink: {node.name} ({sink_label(node)}){before}"


def source_label(node: SourceNode) -> str:
    """Return the topics of a source as a list, or its pattern."""
    if node.pattern is not None:
        return node.pattern.pattern
    return f"[{', '.join(copied_order(node.topics))}]"


def sink_label(node: SinkNode) -> str:
    """Return where a sink writes to; in place of Java's class name, that of the function which chooses the topic."""
    if node.topic is not None:
        return f"topic: {node.topic}"
    extractor = node.extractor
    return f"extractor class: {getattr(extractor, '__qualname__', None) or type(extractor).__qualname__}"


def _names(nodes: Iterable[_Drawn]) -> str:
    return ", ".join(node.name for node in nodes) or "none"
