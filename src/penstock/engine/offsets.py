"""What an epoch reads: the positions of all source partitions, and the ranges of the next epoch.

Ends are last stable offsets: no transaction is open below them, so whoever reads a range never waits. Ranges are of offsets, not
of records: markers of transactions and compacted records leave gaps, and a range may hold no record at all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from penstock.clock import Clock
from penstock.engine.admission import Admission, co_ordered_sources
from penstock.engine.empty_partitions import EmptyPartitions
from penstock.engine.offset_reset import named, reset_offsets, warn_of_moved
from penstock.engine.sources import SourceTopics, find_topics, places_of
from penstock.errors import TopicError
from penstock.log.base import Log, Offsets, TopicPartition
from penstock.protocol.request import Range
from penstock.topology.topology import Topology

logger = logging.getLogger("penstock.engine")


class Input:
    """The input of an application: what was read, what waits.

    >>> from penstock import StreamsBuilder
    >>> from penstock.clock import SystemClock
    >>> from penstock.log.base import TopicSpec
    >>> from penstock.log.memory import MemoryLog
    >>> builder, log = StreamsBuilder(), MemoryLog()
    >>> builder.stream("lines").to("copies")
    >>> _ = log.admin.ensure_topics([TopicSpec("lines", 1)])
    >>> log.producer(None).produce([("lines", 0, None, b"text", 1, ())] * 5)
    >>> input = Input(log, builder.build(), group="copier", clock=SystemClock(), max_records=3)
    >>> input.start()
    >>> input.choose()
    [Range(topic='lines', partition=0, start=0, end=3)]
    >>> input.advance(input.choose())
    >>> input.positions, input.lag()
    ({('lines', 0): 3}, 2)

    Repartition topics are not in Kafka and are not read here. Topics of a pattern and partitions that appear while the
    application runs are read from their beginning, whatever ``offset_reset`` says: nothing of them was seen before.
    INVARIANT: ``positions`` has exactly the partitions of ``partitions``.
    """

    def __init__(
        self,
        log: Log,
        topology: Topology,
        *,
        group: str,
        clock: Clock,
        max_records: int,
        align: bool = True,
        refresh_ms: int = 5000,
        idle_ms: int = 0,
    ) -> None:
        self._log = log
        self._topology = topology
        self._group = group
        self._clock = clock
        self._admission = Admission(log, topology, clock=clock, limit=max_records, align=align)
        group_of, ordered = co_ordered_sources(topology)
        meets = {source: group for source, group in group_of.items() if group in ordered}
        self._empty = EmptyPartitions(meets, idle_ms)
        self._refresh_ms = refresh_ms
        self._reading = SourceTopics()
        self._refreshed = 0
        #: the next offset to read of each partition
        self.positions: Offsets = {}
        #: offsets that were deleted before they were read
        self.lost: dict[TopicPartition, int] = {}
        #: topic → its id, of all that were read, "" where the cluster does not tell
        self.topic_ids: dict[str, str] = {}
        self._left: Offsets = {}  # positions in topics of a pattern that are gone
        self._ends: Offsets = {}
        self._behind = False

    def take_at_most(self, records: int) -> None:
        """Limit the number of records of the next epochs."""
        self._admission.limit = records

    @property
    def partitions(self) -> dict[str, int]:
        """The number of partitions of every topic that is read; of a pattern those that are known by now."""
        return self._reading.partitions

    @property
    def source_of(self) -> dict[str, str]:
        """The source node that reads a topic."""
        return {topic: source.name for topic, source in self._reading.source_of.items()}

    def start(
        self, barrier: Mapping[TopicPartition, int] | None = None, topic_ids: Mapping[str, str] | None = None
    ) -> None:
        """Find the topics, and where to go on: at the offsets of the group, else where ``offset_reset`` says.

        ``barrier``: positions of the last barrier, for offsets that the cluster has forgotten since: it keeps those of a group that
        commits nothing for a week only. ``topic_ids``: which topics these were. Raises ``TopicError`` if a topic is missing or its
        records cannot be those that were read before.
        """
        self.topic_ids = dict(topic_ids or {})
        self._find()
        renewed = self._renewed()
        places = [place for place in places_of(self.partitions) if place[0] not in renewed]
        kept = {place: barrier[place] for place in places if place in barrier} if barrier else {}
        committed = self._log.admin.committed(self._group, places)
        warn_of_moved(self._group, kept, committed)
        known = kept | committed
        new = [place for place in places if place not in known]
        now, source_of = self._clock.now_ms(), self._reading.source_of
        self.positions = known | reset_offsets(self._log.admin, self._group, new, source_of, now)
        self._enter([place for place in places_of(self.partitions) if place[0] in renewed])
        self._measure()

    def choose(self) -> list[Range]:
        """Return the ranges of the next epoch, in order of topic and partition; none if nothing is new."""
        if self._clock.now_ms() - self._refreshed >= self._refresh_ms:
            self._refresh()
        self._measure()
        lags = self.lags()
        waiting = {place: count for place, count in lags.items() if count}
        waiting = self._empty.admit(waiting, lags, self.source_of, self._clock.now_ms())
        taken = self._admission.take(waiting, self.positions, self.source_of)
        self._behind = taken != waiting
        starts = ((place, self.positions[place], taken[place]) for place in sorted(taken))
        return [Range(*place, start, start + count) for place, start, count in starts if count]

    def advance(self, ranges: Iterable[Range]) -> None:
        """Go on after the ranges of a committed epoch."""
        for topic, partition, start, end in ranges:
            assert self.positions[topic, partition] == start <= end
            self.positions[topic, partition] = end

    def lags(self) -> dict[TopicPartition, int]:
        """Return how many offsets of each partition wait, as far as the last ``choose`` could see."""
        positions = dict(self.positions)  # a copy: other threads ask, too
        return {place: max(0, self._ends.get(place, 0) - offset) for place, offset in positions.items()}

    def lag(self) -> int:
        """Return how many offsets wait, as far as the last ``choose`` could see."""
        return sum(self.lags().values())

    def behind(self) -> bool:
        """Whether more waited than the last ``choose`` could take."""
        return self._behind

    def global_ends(self) -> Offsets:
        """Return where the topics of global tables end: what a lane must see of them before an epoch that begins now."""
        return self._log.admin.stable_offsets(places_of(self._reading.global_partitions))

    # topics and partitions that come and go

    def _find(self) -> None:
        self._reading = find_topics(self._log.admin, self._topology, self._group)
        self._refreshed = self._clock.now_ms()

    def _refresh(self) -> None:
        before = dict(self.partitions)
        self._find()
        for topic in self._renewed():
            for place in places_of({topic: before.pop(topic, 0)}):
                self.positions.pop(place, None)
            self._left = {place: offset for place, offset in self._left.items() if place[0] != topic}
        for topic, count in self.partitions.items():
            if count < before.get(topic, 0):
                raise TopicError(
                    f"topic {topic!r} has {count} partitions, but had {before[topic]}: {_made_anew(self._group)}"
                )
        for topic in before.keys() - self.partitions.keys():  # of a pattern: a topic that is named must be there
            logger.warning("topic %s is gone: it is not read any more", topic)
            self._left |= {place: self.positions.pop(place) for place in places_of({topic: before[topic]})}
        self._enter([place for place in places_of(self.partitions) if place not in self.positions])

    def _renewed(self) -> set[str]:
        """Return the topics of patterns that were deleted and made anew since they were read; one that is named is an error."""
        found = self._reading.topic_ids
        renewed = {
            topic for topic, number in found.items() if number and self.topic_ids.get(topic, "") not in ("", number)
        }
        for topic in sorted(renewed):
            if self._reading.source_of[topic].pattern is None:
                raise TopicError(f"topic {topic!r} is not the one that was read before: {_made_anew(self._group)}")
            logger.warning("topic %s was deleted and made anew: it is read from its beginning", topic)
        self.topic_ids |= found
        return renewed

    def _enter(self, places: list[TopicPartition]) -> None:
        """Read new partitions from their beginning. One that was gone for a while and is the same goes on where it was left."""
        if not places:
            return
        begins, ends = self._log.admin.earliest_offsets(places), self._log.admin.stable_offsets(places)
        for place in places:
            left = self._left.pop(place, None)
            self.positions[place] = begins[place] if left is None or left > ends[place] else left
            logger.info("%s-%d is new: it is read from offset %d", *place, self.positions[place])

    def _measure(self) -> None:
        """Find the ends; check that every position lies between beginning and end."""
        self._ends = self._stable_ends()
        self._check_not_beyond([place for place, offset in self.positions.items() if offset > self._ends[place]])
        self._skip_deleted([place for place, count in self.lags().items() if count])

    def _stable_ends(self) -> Offsets:
        try:
            return self._log.admin.stable_offsets(self.positions)
        except TopicError:  # a topic was deleted since the last look: one of a pattern may be
            self._refresh()
            return self._log.admin.stable_offsets(self.positions)

    def _check_not_beyond(self, places: list[TopicPartition]) -> None:
        ends = self._log.admin.end_offsets(places)  # others may have moved the group's offsets into an open transaction
        for place in places:
            if self.positions[place] > ends[place]:
                raise TopicError(
                    f"{named([place])} ends at offset {ends[place]}, but was read up to {self.positions[place]}: "
                    f"{_made_anew(self._group)}"
                )

    def _skip_deleted(self, places: list[TopicPartition]) -> None:
        """Go on at the beginning of a partition where records were deleted before they were read. Count them and say so."""
        for place, begin in self._log.admin.earliest_offsets(places).items():
            gone = begin - self.positions[place]
            if gone <= 0:
                continue
            said = f"{gone} offsets of {named([place])} ({self.positions[place]} to {begin - 1}) were deleted before they were read"
            source = self._reading.source_of[place[0]]
            if source.offset_reset == "none":
                raise TopicError(
                    f"{said}, and offset_reset='none' (source {source.name!r}) forbids to go on without them: move the offsets of "
                    f"group {self._group!r} with a tool of Kafka's, or set offset_reset='earliest'; keep records longer "
                    f"(`penstock topics alter {place[0]} --config retention.ms=...`)"
                )
            logger.warning("%s: raise retention.ms of the topic, or read faster", said)
            self.lost[place] = self.lost.get(place, 0) + gone
            self.positions[place] = begin


def _made_anew(group: str) -> str:
    return (
        "the topic was deleted and made anew. What was computed from the old one is still in the application's state: start under "
        f"a new application_id, or forget what {group!r} has done so far: `penstock reset`"
    )
