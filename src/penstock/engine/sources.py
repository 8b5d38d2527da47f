"""Which topics the sources read now: those they name, and those that match their patterns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.errors import TopicError, TopologyError
from penstock.log.base import Admin, TopicDescription, TopicPartition
from penstock.log.topics import changelog_name, epochs_name
from penstock.topology.node import SourceNode
from penstock.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class SourceTopics:
    """The topics that are read: their source, and how many partitions they have."""

    source_of: dict[str, SourceNode] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    #: topic → its id, "" where the cluster does not tell
    topic_ids: dict[str, str] = field(default_factory=dict)
    #: of the topics of global tables, which every lane reads whole
    global_partitions: dict[str, int] = field(default_factory=dict)


def find_topics(admin: Admin, topology: Topology, application_id: str) -> SourceTopics:
    """Find the topics of all sources; raise ``TopicError`` if one that is named is missing. A pattern may match none.

    Repartition topics are no topics of the cluster here and are left out; so are the application's own topics, which a pattern
    may match by chance: an application that reads its own changelogs never ends.
    """
    sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode) and not node.internal]
    named = {topic: node for node in sources for topic in node.topics}
    tables = {topic: table.source for table in topology.global_stores.values() for topic in table.source.topics}
    told = _describe(admin, named | tables)
    matched, found = _matching(admin, sources, own_topics(topology, application_id))
    told |= admin.describe(found)
    return SourceTopics(
        source_of=named | matched,
        partitions={topic: told[topic].partitions for topic in named} | found,
        topic_ids={topic: told[topic].topic_id for topic in named.keys() | found.keys()},
        global_partitions={topic: told[topic].partitions for topic in tables},
    )


def own_topics(topology: Topology, application_id: str) -> set[str]:
    """Return the names of the topics that the application has for itself."""
    return {epochs_name(application_id), *(changelog_name(application_id, store) for store in topology.stores)}


def places_of(partitions: Mapping[str, int]) -> list[TopicPartition]:
    """Return every partition of the topics.

    >>> places_of({"orders": 2})
    [('orders', 0), ('orders', 1)]
    """
    return [(topic, partition) for topic, count in partitions.items() for partition in range(count)]


def _describe(admin: Admin, nodes: Mapping[str, SourceNode]) -> dict[str, TopicDescription]:
    try:
        return admin.describe(nodes)
    except TopicError as error:
        there = admin.topics()
        missing = [(topic, node) for topic, node in nodes.items() if topic not in there]
        if not missing:
            raise
        raise TopicError(_missing(missing), code=error.code) from error


def _missing(topics: Iterable[tuple[str, SourceNode]]) -> str:
    lines = [f"source {node.name!r} reads topic {topic!r}, which does not exist" for topic, node in topics]
    create = [f"    penstock topics create {topic} --partitions 4" for topic, _ in topics]
    return "\n".join([*lines, "Create what is missing, or write the names as the cluster has them:", *create])


def _matching(
    admin: Admin, sources: Iterable[SourceNode], own: set[str]
) -> tuple[dict[str, SourceNode], dict[str, int]]:
    """Return the topics that match a pattern, by source and with their partitions. None of them has two readers."""
    patterns = [(node, node.pattern) for node in sources if node.pattern is not None]
    source_of: dict[str, SourceNode] = {}
    if not patterns:
        return source_of, {}
    listed = admin.topics()
    for topic in listed.keys() - own:
        readers = [node for node, pattern in patterns if pattern.fullmatch(topic)]
        if len(readers) > 1:
            raise TopologyError(
                f"topic {topic!r} is matched by the patterns of sources {', '.join(repr(node.name) for node in readers)}: "
                "a topic is read once. Make the patterns narrower, or read both with one pattern and use that stream twice"
            )
        if readers and listed[topic]:  # a topic that is just being made has no partitions yet
            source_of[topic] = readers[0]
    return source_of, {topic: listed[topic] for topic in sorted(source_of)}
