"""What the lanes are told of time: how far the sources have come, over all lanes, as of the last barrier.

A shard hears of time by its own records. A shard whose keys are quiet would keep its windows for ever, so at the end of each epoch
the clocks of its nodes are told how far the sources of each node had come; and without input a *tick*, an epoch without records,
runs where that makes something due.

::

    index 0   ───────●───────────●───▶ 120       a clock counts the indexes that are not idle;
    index 1   ────●──────▶ 75                    its time is the least of them: 75
    index 2   ─▶ 20  idle                        (all idle: the greatest, 120, and it goes on with the
                                                 wall clock if every source was given ``idle_after``)

Pure arithmetic: the driver of the engine and the test driver share it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import msgspec

from penstock.plan.feeds import Feed, find_feeds
from penstock.plan.plan import KEEPS_TIME
from penstock.state.partition_times import IDLE, PartitionTimes
from penstock.topology.node import ProcessorNode, SourceNode
from penstock.topology.topology import Topology

#: a topic and one of its partitions
Place: TypeAlias = tuple[str, int]


class Told(msgspec.Struct, frozen=True, array_like=True):
    """What the lanes are told in one epoch."""

    #: clock → the time of each index; −1: whatever the shard itself has seen; ``IDLE``: it is not waited for
    clocks: dict[str, list[tuple[int, int]]] = {}
    #: for punctuators and timers by stream time; −1: whatever the shard itself has seen
    stream_time: int = -1
    #: clocks behind nodes that hold results back: what these give out in the epoch is older than its time
    behind: list[str] = []
    #: (sources, index, time) of times that no record has brought, but the wall clock
    ahead: list[tuple[str, int, int]] = []


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known of the source partitions at a barrier."""

    #: greatest timestamp read
    reached: Mapping[Place, int] = field(default_factory=dict)
    #: greatest watermark, of sources whose strategy is a function
    marks: Mapping[Place, int] = field(default_factory=dict)
    #: wall-clock time of the last record
    arrived: Mapping[Place, int] = field(default_factory=dict)
    #: (sources, index) → time that the wall clock has brought
    ahead: Mapping[tuple[str, int], int] = field(default_factory=dict)


class _Index(NamedTuple):
    """A source partition index as one clock sees it: the time that its records brought, and the time that it has."""

    brought: int
    time: int
    arrived: int
    idle: bool


class Timing:
    """Which clocks a topology has, what feeds them, and what they are told."""

    def __init__(self, topology: Topology, *, idle_ms: int, shards: int) -> None:
        nodes = topology.nodes
        feeds = find_feeds(topology)
        self._sources = {name: node for name, node in nodes.items() if isinstance(node, SourceNode)}
        self._feeds = {name: feed for name, feed in feeds.items() if feed.sources and _has_clock(topology, name)}
        self._scheduling = [
            feeds[name]
            for name, node in nodes.items()
            if isinstance(node, ProcessorNode) and node.operator.scheduling and feeds[name].sources
        ]
        self._idle_ms = idle_ms
        self._shards = shards

    def told(self, heard: Heard, source_of: Mapping[str, str], waiting: Container[Place], now: int) -> Told:
        """Return what the lanes are told in an epoch that begins now.

        ``source_of``: topic → source; ``waiting``: partitions of which something is still to be read; ``now``: the wall clock.
        """
        known: dict[frozenset[str], dict[int, int]] = {}
        ahead: list[tuple[str, int, int]] = []
        for feed in (*self._feeds.values(), *self._scheduling):
            if feed.sources not in known:
                indexes = self._indexes(feed.sources, heard, source_of, waiting, now)
                known[feed.sources] = times = self._counting(feed.sources, indexes, now)
                brought = {index: time for index, time in times.items() if time > indexes[index].time}
                ahead += [(_group(feed.sources), index, time) for index, time in brought.items()]
        clocks = {name: _held(known[feed.sources], feed) for name, feed in self._feeds.items() if known[feed.sources]}
        least = [_least(_held(known[feed.sources], feed)) for feed in self._scheduling]
        behind = [name for name in clocks if self._feeds[name].hold]
        return Told(clocks, min(least, default=-1), behind, ahead)

    def _indexes(
        self,
        sources: frozenset[str],
        heard: Heard,
        source_of: Mapping[str, str],
        waiting: Container[Place],
        now: int,
    ) -> dict[int, _Index]:
        indexes: dict[int, _Index] = {}
        for place, reached in heard.reached.items():
            source = source_of.get(place[0])
            if source not in sources:
                continue
            time = self._watermark(source, place, reached, heard)
            if time < 0:  # it has said nothing about time yet
                continue
            arrived = heard.arrived.get(place, 0)
            idle = place not in waiting and now - arrived >= self._idle_after(source)
            other = indexes.get(place[1], _Index(time, time, arrived, idle))
            time, arrived, idle = max(time, other.brought), max(arrived, other.arrived), idle and other.idle
            ahead = heard.ahead.get((_group(sources), place[1]), -1)
            indexes[place[1]] = _Index(time, max(time, ahead), arrived, idle)
        return indexes

    def _watermark(self, source: str, place: Place, reached: int, heard: Heard) -> int:
        strategy = self._sources[source].watermark
        if strategy is None:
            return reached
        return heard.marks.get(place, -1) if strategy.function is not None else max(reached - strategy.lag, 0)

    def _idle_after(self, source: str) -> int:
        strategy = self._sources[source].watermark
        return self._idle_ms if strategy is None or strategy.idle is None else int(strategy.idle)

    def _counting(self, sources: frozenset[str], indexes: Mapping[int, _Index], now: int) -> dict[int, int]:
        """Return the times of the indexes, ``IDLE`` where none is waited for.

        One shard that reads one partition sees everything itself, and is told nothing that no record brought: −1.
        """
        alone = self._shards == 1 and len(indexes) == 1
        times = {index: IDLE if seen.idle else -1 if alone else seen.time for index, seen in indexes.items()}
        if not indexes or not all(seen.idle for seen in indexes.values()):
            return times
        greatest = max(indexes, key=lambda index: indexes[index].time)
        time = indexes[greatest].time
        topics = (node for source in sources if (node := self._sources[source]).schedule is None)
        strategies = [node.watermark for node in topics]  # a scheduled source goes with the wall clock anyway
        if any(strategy is None or strategy.idle is None for strategy in strategies):
            return times | {greatest: -1 if alone else time}
        quiet_for = now - max(seen.arrived for seen in indexes.values())
        last = max(seen.brought for seen in indexes.values())
        return times | {greatest: max(time, last + max(quiet_for, 0))}


def _has_clock(topology: Topology, name: str) -> bool:
    """Whether a name is that of a shared clock, or of a node that may have one."""
    node = topology.nodes.get(name)
    if not isinstance(node, ProcessorNode):
        return True
    kinds = (topology.stores[store].kind for store in topology.stores_of(name))
    shared = (other.operator.shared_clock for other in topology.nodes.values() if isinstance(other, ProcessorNode))
    return node.operator.timed or any(kind in KEEPS_TIME for kind in kinds) or name in shared


def _group(sources: frozenset[str]) -> str:
    return "+".join(sorted(sources))


def _held(times: Mapping[int, int], feed: Feed) -> list[tuple[int, int]]:
    return [(index, time if time < 0 else max(time - feed.hold, 0)) for index, time in sorted(times.items())]


def _least(times: Iterable[tuple[int, int]]) -> int:
    return min((time for _, time in times if time != IDLE), default=-1)


def is_due(told: Told, snapshot: Mapping[str, Any]) -> bool:
    """Whether a task has something to give if it is told this: it moves a clock, and something waits for that time."""
    for clock, due in snapshot.get("due", {}).items():
        pairs = told.clocks.get(clock)
        if pairs is not None:
            before, after = _moved(snapshot["clocks"].get(clock, ()), pairs)
            if before < after and due <= after:
                return True
    first = snapshot["punctuations"].get("stream_time", {}).get("next")
    return first is not None and first <= told.stream_time > snapshot["stream_time"]


def _moved(own: Iterable[Any], pairs: Sequence[tuple[int, int]]) -> tuple[int, int]:
    time = PartitionTimes()
    time.set((index, at) for index, at in own)
    before = time.now
    time.take(pairs)
    return before, time.now
