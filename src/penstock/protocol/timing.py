"""What the lanes are told of time: how far the sources have come, as of the last barrier, by feed.

Within the epoch the records themselves move time (``lane.timeline``). Without input a *tick*, an epoch without records, runs where
time that has gone on by itself makes something due.

::

    index 0   ───────●───────────●───▶ 120       the time of a feed counts the indexes that are not idle;
    index 1   ────●──────▶ 75                    it is the least of them: 75
    index 2   ─▶ 20  idle                        (all idle: the greatest, 120, and it goes on with the
                                                 wall clock if every source was given ``idle_after``)

Pure arithmetic: the driver of the engine and the test driver share it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import msgspec

from penstock.plan.feeds import Feed, feed_of_store, find_feeds
from penstock.topology.node import ProcessorNode, SourceNode
from penstock.topology.topology import Topology

#: a topic and one of its partitions
Place: TypeAlias = tuple[str, int]


class TimeUpdate(msgspec.Struct, frozen=True, array_like=True):
    """What the lanes are told in one epoch."""

    #: feed → (partition index, time) of each index that is not idle
    feeds: dict[str, list[tuple[int, int]]] = {}
    #: (feed, index, time) of times that no record has brought, but the wall clock
    ahead: list[tuple[str, int, int]] = []

    def time_of(self, feed: str) -> int:
        """Return the time of a feed: the least of its indexes; −1 before the first record."""
        return min((time for _, time in self.feeds.get(feed, ())), default=-1)


@dataclass(frozen=True, slots=True)
class ObservedTimes:
    """What is known of the source partitions at a barrier."""

    #: greatest timestamp read
    reached: Mapping[Place, int] = field(default_factory=dict)
    #: greatest watermark, of sources whose strategy is a function
    marks: Mapping[Place, int] = field(default_factory=dict)
    #: wall-clock time of the last record
    arrived: Mapping[Place, int] = field(default_factory=dict)
    #: (feed, index) → time that the wall clock has brought
    ahead: Mapping[tuple[str, int], int] = field(default_factory=dict)


class _Index(NamedTuple):
    """A source partition index as one feed sees it: the time that its records brought, and the time that it has."""

    brought: int
    time: int
    arrived: int
    idle: bool


class PartitionTime(NamedTuple):
    """How far one source partition has come, for those who watch. ``time``: the greatest timestamp read; −1: none yet."""

    topic: str
    partition: int
    source: str
    time: int
    watermark: int
    #: wall-clock time of its last record
    arrived: int
    #: it is read to its end and quiet, and holds no time back
    idle: bool


class Timing:
    """Which feeds a topology has, and how far each has come."""

    def __init__(self, topology: Topology, *, idle_ms: int) -> None:
        self._sources = {name: node for name, node in topology.nodes.items() if isinstance(node, SourceNode)}
        self._feeds = sorted(set(feeds_of(topology).values()), key=lambda feed: feed.group)
        self._schedules = any(node.schedule is not None for node in self._sources.values())
        self._idle_ms = idle_ms

    def time_update(
        self, observed: ObservedTimes, source_of: Mapping[str, str], waiting: Container[Place], now: int
    ) -> TimeUpdate:
        """Return what the lanes are told in an epoch that begins now.

        ``source_of``: topic → source; ``waiting``: partitions of which something is still to be read; ``now``: the wall clock.
        """
        found: dict[str, list[tuple[int, int]]] = {}
        ahead: list[tuple[str, int, int]] = []
        for feed in self._feeds:
            if feed.group in found:
                continue
            indexes = self._indexes(feed, observed, source_of, waiting, now)
            times = self._counting(feed.sources, indexes, now)
            found[feed.group] = sorted(times.items())
            ahead += [(feed.group, index, time) for index, time in times.items() if time > indexes[index].time]
        if self._schedules:  # what no topic feeds goes with the wall clock, as the records of a schedule do
            found[""] = [(0, now)]
        return TimeUpdate({feed: times for feed, times in found.items() if times}, ahead)

    def _indexes(
        self,
        feed: Feed,
        observed: ObservedTimes,
        source_of: Mapping[str, str],
        waiting: Container[Place],
        now: int,
    ) -> dict[int, _Index]:
        indexes: dict[int, _Index] = {}
        for place, reached in observed.reached.items():
            source = source_of.get(place[0])
            if source not in feed.sources:
                continue
            time = self._watermark(source, place, reached, observed)
            if time < 0:  # it has said nothing about time yet
                continue
            arrived = observed.arrived.get(place, 0)
            idle = place not in waiting and now - arrived >= self._idle_after(source)
            other = indexes.get(place[1], _Index(time, time, arrived, idle))
            time, arrived, idle = max(time, other.brought), max(arrived, other.arrived), idle and other.idle
            ahead = observed.ahead.get((feed.group, place[1]), -1)
            indexes[place[1]] = _Index(time, max(time, ahead), arrived, idle)
        return indexes

    def partition_times(
        self, observed: ObservedTimes, source_of: Mapping[str, str], waiting: Container[Place], now: int
    ) -> list[PartitionTime]:
        """Return how far each source partition has come that a record was read of. Arguments are those of ``time_update``."""
        found: list[PartitionTime] = []
        for place, reached in sorted(observed.reached.items()):
            if (source := source_of.get(place[0])) is None:
                continue
            mark, arrived = self._watermark(source, place, reached, observed), observed.arrived.get(place, 0)
            idle = place not in waiting and now - arrived >= self._idle_after(source)
            found.append(PartitionTime(*place, source, reached, mark, arrived, idle))
        return found

    def _watermark(self, source: str, place: Place, reached: int, observed: ObservedTimes) -> int:
        strategy = self._sources[source].watermark
        if strategy is None:
            return reached
        return observed.marks.get(place, -1) if strategy.function is not None else max(reached - strategy.lag, 0)

    def _idle_after(self, source: str) -> int:
        strategy = self._sources[source].watermark
        return self._idle_ms if strategy is None or strategy.idle is None else int(strategy.idle)

    def _counting(self, sources: frozenset[str], indexes: Mapping[int, _Index], now: int) -> dict[int, int]:
        """Return the times of the indexes that count: those that are not idle; if all are, the greatest."""
        times = {index: seen.time for index, seen in indexes.items() if not seen.idle}
        if times or not indexes:
            return times
        greatest = max(indexes, key=lambda index: indexes[index].time)
        time = indexes[greatest].time
        topics = (node for source in sources if (node := self._sources[source]).schedule is None)
        strategies = [node.watermark for node in topics]  # a scheduled source goes with the wall clock anyway
        if any(strategy is None or strategy.idle is None for strategy in strategies):
            return {greatest: time}
        quiet_for = now - max(seen.arrived for seen in indexes.values())
        last = max(seen.brought for seen in indexes.values())
        return {greatest: max(time, last + max(quiet_for, 0))}


def feeds_of(topology: Topology) -> dict[str, Feed]:
    """Return what feeds the nodes, shared clocks and stores of a topology, by name; of a store ``store/`` and its name.

    ``stream/`` and the name of a node: what moves its stream time, as in Kafka all that its sub-topology reads.
    """
    feeds = find_feeds(topology)
    stores = {f"store/{name}": feed_of_store(topology, feeds, name) for name in topology.stores}
    streams: dict[str, Feed] = {}
    for part in topology.subtopologies():
        nodes = [name for name in part.nodes if isinstance(topology.nodes[name], ProcessorNode)]
        sources = frozenset[str]().union(*(feeds[name].sources for name in nodes))
        streams |= {f"stream/{name}": Feed(sources) for name in nodes}
    return {name: feed for name, feed in (feeds | stores | streams).items() if feed.sources}


def is_due(time_update: TimeUpdate, snapshot: Mapping[str, Any]) -> bool:
    """Whether a task has something to give if it is told this: time has moved, and something waits for it.

    ``snapshot["due"]``: feed → (the time that the task knows, the least time of the sources at which it has something to give).
    """
    return any(known < time_update.time_of(feed) >= due for feed, (known, due) in known_due(snapshot))


def known_due(snapshot: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield what is due, by feed; versions before 0.2 kept it by clock, and hear of it again in their next epoch."""
    for feed, pair in snapshot.get("due", {}).items():
        if not isinstance(pair, int):
            yield feed, (pair[0], pair[1])
