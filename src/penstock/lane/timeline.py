"""How far time had come at each place in the order of an epoch: the same for every shard, lane and cut.

The partition time of a source partition is the greatest timestamp (less the allowance of its watermark strategy) of all records read
from it so far. It moves at *moves*: the records that bring a new greatest time. They are told where records are read, and sent to all
lanes, so that each knows the time at any place, whichever keys it has::

    place in the order      ──●───────●──●─────────────●──▶      (partition time, topic, partition, offset)
    partition 0               10         14            30
    partition 1                       12
    time of a node fed by both   10   10 12            12        the least over the partition indexes, each from its first record on

``Timeline``: the time of one feed (the sources whose records reach a node). ``Timelines``: all of an epoch. ``Cursor``: a task's way
through a timeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.lane.least_time import least_times
from penstock.lane.ordering import starts_of
from penstock.protocol.raw_rows import PARTITIONS
from penstock.record import Origin
from penstock.state.event_time import EventTime

#: source partitions that a place has room for beside the time: 2**44 milliseconds end in the year 2527
RANK_BITS = 19
RANKS = 1 << RANK_BITS
_NEVER = 1 << 62

MOVES_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32()),  # number of the topic × PARTITIONS + partition
        pa.field("offset", pa.int64()),
        pa.field("reached", pa.int64()),
        pa.field("watermark", pa.int64()),
    ]
)
#: a source partition: (topic, partition)
TopicPartition: TypeAlias = tuple[str, int]


class Moves(NamedTuple):
    """Records that moved the time of their partition: its number, offset, the partition time and the watermark from then on."""

    partition: Any
    offset: Any
    reached: Any
    watermark: Any

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> Moves:
        """Return the moves of batches of ``MOVES_SCHEMA``."""
        table = pa.Table.from_batches(batches, MOVES_SCHEMA)
        return cls(*(table[name].to_numpy().astype(np.int64, copy=False) for name in MOVES_SCHEMA.names))

    def batch(self) -> pa.RecordBatch:
        """Return the moves as a batch of ``MOVES_SCHEMA``."""
        return pa.RecordBatch.from_arrays(
            [pa.array(self.partition.astype(np.int32)), *map(pa.array, self[1:])], schema=MOVES_SCHEMA
        )

    def where(self, mask: Any) -> Moves:
        """Return some of them."""
        return Moves(*(column[mask] for column in self))


NO_MOVES = Moves(*(np.zeros(0, dtype=np.int64) for _ in range(4)))


def find_moves(partition: Any, offset: Any, reached: Any, watermark: Any) -> Moves:
    """Return the moves among rows of whole partitions, each in order of offsets; the first row of a partition always is one.

    >>> rows = [np.array(column) for column in ([0, 0, 0, 1], [7, 8, 9, 0], [5, 5, 6, 2], [5, 5, 6, 2])]
    >>> find_moves(*rows).offset.tolist()
    [7, 9, 0]
    """
    moved = np.ones(len(partition), dtype=bool)
    moved[1:] = (partition[1:] != partition[:-1]) | (reached[1:] != reached[:-1]) | (watermark[1:] != watermark[:-1])
    return Moves(partition[moved], offset[moved], reached[moved], watermark[moved])


class Timeline:
    """The time of one feed: before the epoch, and after each move that changes it."""

    def __init__(self, base: Mapping[int, int], places: Any, offsets: Any, indexes: Any, watermarks: Any) -> None:
        """``base``: the time of each partition index that counts when the epoch begins. The others: moves, in order."""
        self.base = min(base.values(), default=-1)
        now = least_times(base, indexes, watermarks)
        changed = np.diff(now, prepend=self.base) != 0
        #: place of each change, offset of its record, the time from then on
        self.places, self.offsets, self.times = places[changed], offsets[changed], now[changed]

    @property
    def end(self) -> int:
        """The time at the end of the epoch."""
        return int(self.times[-1]) if len(self.times) else self.base

    def including(self, places: Any, offsets: Any) -> Any:
        """Return the time at records, each included: by the places and offsets that they have."""
        return self._time_after(self._changes(places, offsets + 1, exact=True))

    def before(self, places: Any, offsets: Any) -> Any:
        """Return the time at records, each left out."""
        return self._time_after(self._changes(places, offsets, exact=False))

    @cached_property
    def follows_places(self) -> bool:
        """Whether the time at a record is at most the one that its partition had reached, or that of the beginning.

        Only watermarks that a function tells may be further.
        """
        return bool((self.times <= np.maximum(self.places >> RANK_BITS, self.base)).all())

    @cached_property
    def _has_ties(self) -> bool:
        return bool((self.places[1:] == self.places[:-1]).any())

    def _changes(self, places: Any, offsets: Any, *, exact: bool) -> Any:
        """Return how many changes come before these offsets of these places.

        A place has several where a function tells watermarks. ``exact``: else the only change of a place comes before the offsets.
        """
        at = np.searchsorted(self.places, places, side="right")
        while len(self.places) and (self._has_ties or not exact):
            last = np.maximum(at - 1, 0)
            too_far = (at > 0) & (self.places[last] == places) & (self.offsets[last] >= offsets)
            if not too_far.any():
                break
            at = at - too_far
        return at

    def _time_after(self, changes: Any) -> Any:
        return np.concatenate([[self.base], self.times])[changes]

    @cached_property
    def _greatest(self) -> Any:
        return np.maximum.accumulate(self.times)

    def first(self, time: int, after: int) -> int | None:
        """Return the first of the changes from ``after`` on that brings this time; None if none does."""
        at = max(int(np.searchsorted(self._greatest, time)), after)
        while at < len(self.times) and self.times[at] < time:  # time has gone back since: a partition has come back
            at += 1
        return at if at < len(self.times) else None


class Timelines:
    """The timelines of an epoch, and the places of its records."""

    def __init__(
        self,
        moves: Moves,
        topics: Sequence[str],
        source_of: Mapping[str, str],
        base: Mapping[str, Sequence[tuple[int, int]]],
        known: Iterable[TopicPartition],
    ) -> None:
        """``topics``: sorted; ``base``: feed → (partition index, time) at the beginning; ``known``: partitions read before."""
        self._topics = topics
        self._source_of = source_of
        self._base = base
        numbers = {topic: number for number, topic in enumerate(topics)}
        read = {numbers[topic] * PARTITIONS + partition for topic, partition in known if topic in numbers}
        #: numbers of the source partitions, sorted
        self._partitions = np.array(
            sorted(read.union(moves.partition[starts_of(moves.partition)[:-1]].tolist())), dtype=np.int64
        )
        places = self.places(moves.partition // PARTITIONS, moves.partition % PARTITIONS, moves.reached)
        order = np.argsort(places, kind="stable")
        self._moves = moves.where(order)
        self._places = places[order]
        self._made: dict[str, Timeline] = {}
        self._ranks = {
            (topics[number // PARTITIONS], number % PARTITIONS): rank
            for rank, number in enumerate(self._partitions.tolist(), 1)
        }

    def timeline(self, feed: str) -> Timeline:
        """Return the timeline of a feed, ``plan.feeds.Feed.group``."""
        if feed not in self._made:
            sources = set(feed.split("+"))
            fed = [number for number, topic in enumerate(self._topics) if self._source_of[topic] in sources]
            moves, places = self._moves, self._places
            if len(fed) < len(self._topics):
                mine = np.isin(moves.partition // PARTITIONS, fed)
                moves, places = moves.where(mine), places[mine]
            base = dict(self._base.get(feed, ()))
            self._made[feed] = Timeline(base, places, moves.offset, moves.partition % PARTITIONS, moves.watermark)
        return self._made[feed]

    def places(self, topic: Any, partition: Any, reached: Any) -> Any:
        """Return the places of many records: numbers that sort as time, topic and partition do."""
        ranks = np.searchsorted(self._partitions, topic * PARTITIONS + partition) + 1
        return np.where(partition < 0, reached * RANKS, reached * RANKS + ranks)

    def place(self, origin: Origin) -> int:
        """Return the place of a record; what no record caused comes before those of its time."""
        if origin.topic is None:
            return origin.reached * RANKS
        return origin.reached * RANKS + self._ranks[origin.topic, origin.partition]

    def origin(self, place: int, offset: int) -> Origin:
        """Return a place as an origin: of the record that moved time, of which nothing but its coordinates is known."""
        reached, rank = divmod(place, RANKS)
        number = int(self._partitions[rank - 1])
        topic, partition = self._topics[number // PARTITIONS], number % PARTITIONS
        return Origin(topic, partition, offset, reached, None, None, (), partition, reached)


class Cursor:
    """A task's way through a timeline, from record to record, and the clocks that go along."""

    __slots__ = ("_at", "_next", "before", "clocks", "now", "timeline")

    def __init__(self, timeline: Timeline) -> None:
        self.clocks: list[EventTime] = []
        self.start(timeline)

    def start(self, timeline: Timeline) -> None:
        """Begin at the beginning of a timeline."""
        self.timeline = timeline
        self._move(0)
        #: the time just before the record that the cursor came to last
        self.before = self.now

    def _move(self, at: int) -> None:
        timeline = self.timeline
        self._at = at
        self._next = int(timeline.places[at]) if at < len(timeline.places) else _NEVER
        self.now = int(timeline.times[at - 1]) if at else timeline.base
        for clock in self.clocks:
            clock.reach(self.now)

    def attach(self, clock: EventTime) -> None:
        """Advance a clock together with the cursor."""
        self.clocks.append(clock)
        clock.reach(self.now)

    def come_to(self, place: int, offset: int) -> bool:
        """Advance to just before a record; return whether time has changed."""
        changed = self._next <= place and self._advance(place, offset)
        self.before = self.now
        return changed

    def _advance(self, place: int, offset: int) -> bool:
        timeline = self.timeline
        at = int(np.searchsorted(timeline.places, place, side="right"))
        while at > self._at and timeline.places[at - 1] == place and timeline.offsets[at - 1] >= offset:
            at -= 1
        if at <= self._at:
            return False
        self._move(at)
        return True

    def seek(self, place: int, offset: int) -> None:
        """Move to just before a record, forward or backward."""
        timeline = self.timeline
        at = int(np.searchsorted(timeline.places, place, side="right"))
        while at and timeline.places[at - 1] == place and timeline.offsets[at - 1] >= offset:
            at -= 1
        self._move(at)
        self.before = self.now

    def include(self, place: int, offset: int) -> bool:
        """Include a record if it moves time; return whether it does. Call it after ``come_to``."""
        if self._next > place or self.timeline.offsets[self._at] > offset:
            return False
        self._move(self._at + 1)
        return True

    def next_with(self, time: int) -> tuple[int, int] | None:
        """Return (place, offset) of the next change that brings this time (of the sources), or None."""
        at = self.timeline.first(time, self._at)
        return None if at is None else (int(self.timeline.places[at]), int(self.timeline.offsets[at]))
