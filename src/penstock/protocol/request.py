"""What the driver tells the workers: a `Stage`, once, and an `EpochRequest`, for every epoch. Plain data, picklable.

Stage          the plan and all that stays while the application runs; broadcast once
EpochRequest   the epoch: its number, where every shard stands, times reached, snapshots; small
Range          records that one task is to read
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from penstock.log.base import Offsets
from penstock.plan.feeds import Feed
from penstock.plan.plan import Plan, Step
from penstock.protocol.timing import TimeUpdate, feeds_of
from penstock.topology.node import SourceNode
from penstock.watermark import LatePolicy


@dataclass(frozen=True)
class Stage:
    """The compiled application as every lane has it."""

    plan: Plan
    application_id: str
    config: Mapping[str, Any] = field(repr=False)
    shards: int
    lanes: int
    state_dir: str
    bootstrap_servers: str
    kafka: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: a folder that all tasks share, for chunks on their way; None: there is none
    shuffle_folder: str | None = None
    #: names this run of the application: local state is checked once in each, what is kept in memory is gone with it
    run: str = ""

    @cached_property
    def sources(self) -> dict[str, SourceNode]:
        """The source nodes by name."""
        return {name: node for name, node in self.plan.topology.nodes.items() if isinstance(node, SourceNode)}

    @cached_property
    def feeds(self) -> dict[str, Feed]:
        """What moves the time of each node and store."""
        return feeds_of(self.plan.topology)

    @cached_property
    def keeps_raw(self) -> bool:
        """Whether a dead letter may need the bytes of a source record."""
        policies = ("on_deserialization_error", "on_processing_error", "on_production_error")
        late = any(node.late is LatePolicy.dead_letter for node in self.sources.values())
        return (
            late
            or self.config["dead_letter_failures"]
            or any(self.config[policy] not in ("fail", "skip") for policy in policies)
        )

    @cached_property
    def counted_topics(self) -> frozenset[str]:
        """The topics between steps whose records are only counted."""
        return frozenset(topic for name in self.plan.counting for topic in self.sources[name].topics)

    @cached_property
    def _one_shard_sources(self) -> list[SourceNode]:
        return [self.sources[name] for name in self.plan.one_shard if name in self.sources]

    def one_shard_topics(self, topics: Iterable[str]) -> frozenset[str]:
        """Return those of the topics whose records all go to one shard."""
        nodes = self._one_shard_sources
        if not nodes:
            return frozenset()
        return frozenset(
            t for t in topics if any(t in n.topics or (n.pattern and n.pattern.fullmatch(t)) for n in nodes)
        )

    def step(self, level: int) -> Step:
        """Return the step of a level."""
        return next(step for step in self.plan.steps if step.level == level)


class Range(NamedTuple):
    """The records of a partition with ``start <= offset < end``."""

    topic: str
    partition: int
    start: int
    end: int


class ShardRequest(msgspec.Struct, frozen=True, array_like=True):
    """Where a shard stands at the last barrier.

    ``version`` names the last committed epoch that wrote to it ("" before the first), ``before`` the one before that;
    ``pending`` the files, in order, that lead from ``before`` to ``version`` where they are at hand.
    """

    version: str = ""
    before: str = ""
    pending: tuple[str, ...] = ()


class EpochRequest(msgspec.Struct, frozen=True):
    """One epoch. Offsets are those of the last barrier unless said otherwise."""

    epoch: int
    #: names this run of the epoch; a second run of the same epoch has another token
    token: str
    #: names the life of the application: local state of another life is thrown away
    incarnation: str
    shards: tuple[ShardRequest, ...]
    #: store → end offset of its changelog, by shard
    changelogs: dict[str, list[int]]
    #: next offsets of the source partitions: what stores without a changelog of their own are restored from
    positions: list[tuple[str, int, int]]
    #: names of all source topics, sorted: the numbers of places
    topics: tuple[str, ...]
    #: topic → source node
    source_of: dict[str, str]
    #: greatest time read of each (topic, partition)
    reached: list[tuple[str, int, int]]
    #: topic → number of partitions, of the topics that are written to
    partitions: dict[str, int]
    #: level → shard → Task.snapshot()
    snapshots: dict[int, dict[int, Any]]
    #: where the topics of global tables end, for this epoch
    global_ends: list[tuple[str, int, int]]
    #: greatest watermark of each (topic, partition), of sources whose strategy is a function
    marks: list[tuple[str, int, int]] = []
    #: how far the sources have come, for clocks in shards that hear of it by no record
    time_update: TimeUpdate = TimeUpdate()
    #: the wall clock of the epoch, in milliseconds, as the driver read it: one for all lanes, whatever their machines say
    now: int = 0
    #: most changelog rows of a shard that one restore job reads; 0: no limit
    restore_limit: int = 0
    #: whether rows for sinks say which record they came from
    places: bool = False
    #: the ids of the schemas that are written, as the driver has asked for them (``serde.registry.catalog``)
    schemas: list[tuple[str, str, str, int, str, str]] = []
    #: bytes of updates that the cached stores of a shard may hold back; None: no limit, 0: none
    cache_bytes: int | None = None
    #: logger → its level in the driver's process
    levels: dict[str, int] = {}


encode_request = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(EpochRequest).decode


def offsets(rows: list[tuple[str, int, int]]) -> Offsets:
    """Return (topic, partition, number) rows as a mapping.

    >>> offsets([("t", 0, 7)])
    {('t', 0): 7}
    """
    return {(topic, partition): number for topic, partition, number in rows}
