"""How much of each partition an epoch takes when more waits than it can.

Sources whose records can meet (in a join, in a store, on one clock) are read up to one event time, by `EventTimeCut`. Sources
that cannot meet do not wait for each other: of two independent parts of a topology, the one that is up to date goes on while
the other replays its history. Stateless sources need no order between partitions, and each partition gives its share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from penstock.clock import Clock
from penstock.engine.event_time_cut import EventTimeCut
from penstock.log.base import Log, TopicPartition
from penstock.topology.node import ProcessorNode, SinkNode, SourceNode
from penstock.topology.topology import Topology

K = TypeVar("K", str, TopicPartition)


class Admission:
    """Chooses what an epoch takes of what waits."""

    def __init__(self, log: Log, topology: Topology, *, clock: Clock, limit: int, align: bool = True) -> None:
        self._log = log
        self._clock = clock
        #: offsets that an epoch may take
        self.limit = limit
        self._group_of, kept = co_ordered_sources(topology)
        self._ordered = kept if align else frozenset[str]()
        self._cuts: dict[str, EventTimeCut] = {}

    def take(
        self,
        waiting: Mapping[TopicPartition, int],
        positions: Mapping[TopicPartition, int],
        source_of: Mapping[str, str],
    ) -> dict[TopicPartition, int]:
        """Return how many offsets of each partition are read. ``positions``: where they are read from."""
        if sum(waiting.values()) <= self.limit:
            return dict(waiting)
        groups: dict[str, dict[TopicPartition, int]] = {}
        for place, count in waiting.items():
            groups.setdefault(self._group_of[source_of[place[0]]], {})[place] = count
        limits = share({group: sum(counts.values()) for group, counts in groups.items()}, self.limit)
        taken: dict[TopicPartition, int] = {}
        for group, counts in groups.items():
            taken |= self._take(group, counts, limits[group], positions)
        return taken

    def _take(
        self, group: str, waiting: dict[TopicPartition, int], limit: int, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if group not in self._ordered or len(waiting) == 1 or limit == 0 or sum(waiting.values()) <= limit:
            return share(waiting, limit)
        cut = self._cuts.setdefault(group, EventTimeCut(self._log, self._clock))
        spans = {place: (positions[place], positions[place] + count) for place, count in waiting.items()}
        return {place: end - positions[place] for place, end in cut.choose(spans, limit).items()}


def co_ordered_sources(topology: Topology) -> tuple[dict[str, str], frozenset[str]]:
    """Return the group of each source, by the name of its first one, and the groups whose results depend on the order of records.

    >>> from penstock import StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> table, lines = builder.table("rows"), builder.stream("lines")
    >>> lines.select_key(lambda key, value: value).join(table, lambda value, row: row).to("out")
    >>> builder.stream("apart").to("copies")
    >>> group_of, ordered = co_ordered_sources(builder.build())
    >>> sorted(set(group_of.values())), sorted(ordered)
    (['KSTREAM-SOURCE-0000000001', 'KSTREAM-SOURCE-0000000010'], ['KSTREAM-SOURCE-0000000001'])
    """
    above: dict[str, str] = {}

    def root(name: str) -> str:
        while above.setdefault(name, name) != name:
            name = above[name]
        return name

    for sub in topology.subtopologies():
        for name in (*sub.nodes, *_internal_topics(topology, sub.nodes)):
            above[root(name)] = root(sub.nodes[0])
    groups: dict[str, str] = {}
    sources = [name for name, node in topology.nodes.items() if isinstance(node, SourceNode)]
    group_of = {name: groups.setdefault(root(name), name) for name in sources}
    ordered = frozenset(groups[root(name)] for name in topology.nodes if _keeps(topology, name))
    return group_of, ordered


def _internal_topics(topology: Topology, nodes: tuple[str, ...]) -> list[str]:
    """Return the repartition topics that nodes write or read, as names that no node has."""
    topics: list[str] = []
    for node in map(topology.nodes.__getitem__, nodes):
        if isinstance(node, SinkNode) and node.internal:
            topics.append(str(node.topic))
        elif isinstance(node, SourceNode) and node.internal:
            topics += node.topics
    return [f"topic {topic}" for topic in topics]


def _keeps(topology: Topology, name: str) -> bool:
    """Whether what a node gives depends on records before: it has a store, a clock, or a processor of the user's."""
    node = topology.nodes[name]
    if any(store not in topology.global_stores for store in topology.stores_of(name)):
        return True
    return isinstance(node, ProcessorNode) and (node.operator.timed or node.operator.scheduling)


def share(waiting: Mapping[K, int], limit: int) -> dict[K, int]:
    """Return how much of each is read when not more than ``limit`` can be: in proportion, but something of each.

    >>> share({("a", 0): 90, ("a", 1): 10, ("b", 0): 1}, 12)
    {('a', 0): 9, ('a', 1): 2, ('b', 0): 1}
    """
    total = sum(waiting.values())
    if total <= limit:
        return dict(waiting)
    largest = set(sorted(waiting, key=lambda place: (-waiting[place], place))[:limit])
    taken = {place: int(place in largest) for place in waiting}
    rest, of = limit - len(waiting), total - len(waiting)
    if rest > 0:
        parts = {place: divmod(rest * (count - 1), of) for place, count in waiting.items()}
        over = rest - sum(whole for whole, _ in parts.values())
        rounded_up = set(sorted(parts, key=lambda place: (-parts[place][1], place))[:over])
        for place, (whole, _) in parts.items():
            taken[place] += whole + (place in rounded_up)
    return taken
