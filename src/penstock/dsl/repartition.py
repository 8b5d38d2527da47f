"""Repartition topics: where a key has changed and a later node depends on it, records go through a topic of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock.dsl.graph import Graph, GraphNode, Repartition
from penstock.operators.stateless import Filter, PassThrough, has_key
from penstock.serde import ChangedSerde, Serde
from penstock.serde.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.topology.node import Partitioner, ProcessorNode, SinkNode, SourceNode

if TYPE_CHECKING:
    from penstock.topology.topology import Topology

SUFFIX = "-repartition"
_GENERATED = re.compile(r"KSTREAM.*-[0-9]{10}")


def repartition_node(
    graph: Graph,
    prefix: str,
    key: Serde[Any] | None,
    value: Serde[Any] | None,
    *,
    optimizable: bool = True,
    partitions: int | None = None,
    partitioner: Partitioner | None = None,
) -> GraphNode:
    """Return the node of a topic ``<prefix>-repartition``, not yet in the graph. Three numbers are used up in any case."""
    topic = prefix if prefix.endswith(SUFFIX) else prefix + SUFFIX
    sink, null_filter, source = (graph.new_name(f"KSTREAM-{kind}-") for kind in ("SINK", "FILTER", "SOURCE"))
    if not _GENERATED.fullmatch(prefix):
        sink, null_filter, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
    plan = Repartition(topic, sink, source, null_filter, key, value, partitions, partitioner, optimizable)
    return GraphNode(source, write_repartition, repartition=plan)


def write_repartition(topology: Topology, node: GraphNode) -> None:
    """Add the null-key filter, the sink, the topic and the source that reads it."""
    plan = node.repartition
    assert plan is not None
    topology.add_internal_topic(plan.topic, plan.partitions)
    parents = node.parent_names
    if plan.filter is not None:
        operator = Filter(predicate=has_key) if node.filters_null_keys else PassThrough()
        topology.add(ProcessorNode(plan.filter, operator, parents))
        parents = (plan.filter,)
    key, value = plan.key or DEFAULT_KEY, plan.value or DEFAULT_VALUE
    value = ChangedSerde(value) if plan.changes else value
    partitioner = plan.partitioner
    topology.add(
        SinkNode(plan.sink, plan.topic, parents, key, value, None, partitioner, internal=True, changes=plan.changes)
    )
    topology.add(SourceNode(plan.source, (plan.topic,), key, value, internal=True))
