"""A topology as a Mermaid flowchart, and as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.errors import describe_function
from penstock.topology.describe import sink_label, source_label
from penstock.topology.node import ProcessorNode, SinkNode, SourceNode
from penstock.topology.subtopologies import group_nodes

if TYPE_CHECKING:
    from penstock.topology.readable import ReadableTopology


def to_mermaid(topology: ReadableTopology, notes: Mapping[str, str] | None = None) -> str:
    """Return a flowchart: sub-topologies are subgraphs, topics are slanted boxes, schedules round ones, stores cylinders.

    ``notes``: something to say of nodes, by their names; such have a dashed border.
    """
    notes = notes or {}
    ids: dict[tuple[str, str], str] = {}

    def id_of(kind: str, name: str) -> str:
        return ids.setdefault((kind, name), f"{kind}{len(ids)}")

    lines, topics, schedules, edges = ["flowchart LR"], {}, {}, []
    for number, group in enumerate(group_nodes(topology)):
        title = f"Sub-topology {number}" if group[0] in topology.nodes else f"Global store {number}"
        lines.append(f'  subgraph sub{number}["{title}"]')
        stores: dict[str, str] = {}
        for name in group:
            node, node_id = topology.node(name), id_of("node", name)
            note = f"<br/>{_escape(notes[name])}" if name in notes else ""
            lines.append(f'    {node_id}["{_escape(name)}{note}"]{":::noted" if note else ""}')
            if isinstance(node, SourceNode) and node.schedule is not None:
                schedules[id_of("schedule", name)] = topics_of(node)[0]
                edges.append(f"  {id_of('schedule', name)} --> {node_id}")
                continue
            for topic in topics_of(node):
                topics[id_of("topic", topic)] = topic
                ends = (id_of("topic", topic), node_id)
                edges.append("  {} --> {}".format(*(ends if isinstance(node, SourceNode) else ends[::-1])))
            edges.extend(f"  {id_of('node', parent)} --> {node_id}" for parent in node.parents)
            for store in topology.stores_of(name):
                stores[id_of("store", store)] = store
                edges.append(f"  {node_id} -.- {id_of('store', store)}")
        lines.extend(f'    {store_id}[("{_escape(store)}")]' for store_id, store in stores.items())
        lines.append("  end")
    lines.extend(f'  {topic_id}[/"{_escape(topic)}"/]' for topic_id, topic in topics.items())
    lines.extend(f'  {schedule_id}(["{_escape(times)}"])' for schedule_id, times in schedules.items())
    style = ["  classDef noted stroke-dasharray: 4 3"] if notes else []
    return "\n".join(lines + edges + style) + "\n"


def topics_of(node: SourceNode | ProcessorNode | SinkNode) -> tuple[str, ...]:
    """Return the labels of the topics that a node reads or writes, or of the schedule that it follows."""
    match node:
        case SourceNode(pattern=None):
            return node.topics if node.schedule is None else (str(node.schedule.schedule),)
        case SourceNode():
            return (source_label(node),)
        case SinkNode():
            return (node.topic or sink_label(node),)
        case ProcessorNode():
            return ()


def to_json(topology: ReadableTopology) -> dict[str, Any]:
    """Return sub-topologies, nodes and stores as plain data, for tools."""
    return {
        "subtopologies": [
            {"id": number, "global": group[0] not in topology.nodes, "nodes": [_node(topology, name) for name in group]}
            for number, group in enumerate(group_nodes(topology))
        ],
        "stores": [
            {
                "name": spec.name,
                "kind": spec.kind.value,
                "persistent": spec.persistent,
                "logged": spec.logged,
                "cached": bool(spec.cached),
                "changelog": topology.changelog_topic(spec.name),
                "topic_config": dict(spec.topic_config),
            }
            for spec in topology.stores.values()
        ],
        "internal_topics": [{"name": t.name, "partitions": t.partitions} for t in topology.internal_topics.values()],
    }


def _node(topology: ReadableTopology, name: str) -> dict[str, Any]:
    node = topology.node(name)
    data: dict[str, Any] = {"name": name, "parents": list(node.parents), "children": list(topology.children(name))}
    data["functions"] = node_functions(node)
    match node:
        case SourceNode(schedule=None):
            return {"kind": "source", "topics": list(topics_of(node)), **data}
        case SourceNode():
            return {"kind": "source", "topics": [], "schedule": topics_of(node)[0], **data}
        case SinkNode():
            return {"kind": "sink", "topics": list(topics_of(node)), **data}
        case ProcessorNode():
            operator = type(node.operator).__name__
            return {"kind": "processor", "operator": operator, "stores": list(topology.stores_of(name)), **data}


def node_functions(node: SourceNode | ProcessorNode | SinkNode) -> list[str]:
    """Return the user's functions of a node, each with file and line."""
    match node:
        case SourceNode():
            functions: Iterable[Any] = () if node.schedule is None else (node.schedule.emitter,)
        case SinkNode():
            functions = (node.extractor, node.partitioner)
        case ProcessorNode():
            functions = node.operator.functions
    return [described for described in map(describe_function, functions) if described is not None]


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
