"""The plan: a topology as the steps of an epoch, one for each level. Made by named passes (``passes``); its print is the test.

A step holds the sources of one level and the nodes their records can reach. Between two steps there is one exchange by shard.
The first step needs none if it has no store: it then runs where the records are read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from penstock.plan.batch_paths import BatchPaths
from penstock.plan.explain import explained
from penstock.serde import Serde
from penstock.topology.node import SinkNode, SourceNode
from penstock.topology.topology import Topology


@dataclass(frozen=True, slots=True)
class Step:
    """One level of an epoch. ``nodes`` are in topological order; ``exchange``: the records come by shard."""

    level: int
    sources: tuple[str, ...]
    nodes: tuple[str, ...]
    stores: tuple[str, ...]
    exchange: bool = True
    #: stores that a later step of the epoch reads: the pending writes go along to it
    read_later: tuple[str, ...] = ()
    #: results depend on how far time has come
    timed: bool = False
    #: nodes that may schedule work of their own: every shard runs in every epoch
    scheduling: bool = False
    #: a scheduled source, which has its work in the first shard: that one runs in every epoch
    scheduled: bool = False
    #: nodes that wait for calls: not more tasks than there are lanes
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A compiled topology: frozen, picklable, configuration only.

    >>> from penstock import StreamsBuilder
    >>> from penstock.plan.passes import make_plan
    >>> builder = StreamsBuilder()
    >>> _ = builder.stream("lines").group_by(lambda key, value: value).count(store="counts")
    >>> print(make_plan(builder.build()).explain())
    step 0  where the records are read
        reads    lines
        runs     KSTREAM-SOURCE-0000000000, KSTREAM-KEY-SELECT-0000000001, counts-repartition-filter, counts-repartition-sink
        sends    counts-repartition to step 1
        by batch all
    exchange by shard
    step 1  in the lanes
        reads    counts-repartition
        runs     counts-repartition-source, KSTREAM-AGGREGATE-0000000002
        stores   counts
        by batch all
    """

    topology: Topology
    steps: tuple[Step, ...] = ()
    level_of: dict[str, int] = field(default_factory=dict)
    #: sources whose records all go to shard 0, because a shared store is behind them
    one_shard: frozenset[str] = frozenset()
    #: internal sources whose records stay in the shard that they are in
    staying: frozenset[str] = frozenset()
    #: internal sources whose records go to the shard of the partition that a partitioner of the user's chose
    by_partition: frozenset[str] = frozenset()
    #: node → key serdes of the sources that its records come from: they go to shards by these, and its stores belong to the keys of a
    #: shard. A node that is not here may use any key: its stores belong to a partition, or to the one lane of a shared store
    scopes: dict[str, tuple[Serde[Any], ...]] = field(default_factory=dict)
    #: internal sources whose records are only counted, by key: one row may stand for many of them on the way
    counting: frozenset[str] = frozenset()
    #: source → number of its sub-topology: what one Kafka task would process
    subtopology_of: dict[str, int] = field(default_factory=dict)
    #: nodes that read tables in a later step than the one that writes them → the stores: a record meets them as of its source record
    follows: dict[str, frozenset[str]] = field(default_factory=dict)
    #: sources of records that go on to a later step without a re-key
    carried: frozenset[str] = frozenset()
    #: sources of records that come back to the sub-topology of their source record
    returning: frozenset[str] = frozenset()
    #: stores whose nodes run in several steps, and depend on where epochs end
    loose: frozenset[str] = frozenset()
    #: which nodes take batches, and why the others take records one by one
    batch_paths: BatchPaths = field(default_factory=BatchPaths)

    @property
    def timed(self) -> bool:
        """Whether results depend on how far time has come."""
        return any(step.timed for step in self.steps)

    @property
    def followed(self) -> frozenset[str]:
        """The stores whose changes a later step follows."""
        nothing: frozenset[str] = frozenset()
        return nothing.union(*self.follows.values())

    def staying_below(self, sources: Collection[str], among: Collection[str] | None = None) -> set[str]:
        """Return the nodes that records of sources reach without leaving their shard; ``among``: through which internal sources."""
        found = reachable(self.topology, tuple(sources))
        while True:
            ends = [node for name in found if isinstance(node := self.topology.nodes[name], SinkNode) and node.stays]
            stay = {self.source_of(str(node.topic)) for node in ends} & self.staying
            more = found | reachable(self.topology, tuple(stay if among is None else stay.intersection(among)))
            if more == found:
                return found
            found = more

    def source_of(self, internal_topic: str) -> str:
        """Return the source node that reads a repartition topic."""
        return next(
            name
            for name, node in self.topology.nodes.items()
            if isinstance(node, SourceNode) and node.internal and internal_topic in node.topics
        )

    def explain(self) -> str:
        """Return the plan as text."""
        return explained(self)


def reachable(topology: Topology, sources: tuple[str, ...]) -> set[str]:
    """Return the nodes that records of sources can reach, the sources among them."""
    reached: set[str] = set()
    waiting = list(sources)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += topology.children(name)
    return reached
