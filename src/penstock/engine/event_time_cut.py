"""One event time for all partitions: how far each is read when more waits than an epoch takes.

Within an epoch records are processed in order of their partition time. Cutting a backlog at one event time keeps this
order across epochs: the epochs of a backlog together equal one epoch over all of it, or many small ones while the
records arrived.

The cut is found by a search: look up where each partition reaches a timestamp, count the records before, and adjust
the timestamp. The first guess follows from the rate of the last epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.clock import Clock
from penstock.engine.time_index import FOREVER, Spans, TimeIndex
from penstock.log.base import Log, Offsets

#: the fraction of the limit that a cut aims at
AIM = 0.9
#: requests after which smaller and smaller epochs are accepted
MOST_DEFERRALS = 3
#: how far the next guess may be, in multiples of what is known
STRIDE = 8


class Cut(NamedTuple):
    """Offsets up to which partitions are earlier than a time. ``next``: timestamp of the first record after them."""

    time: int
    offsets: Offsets
    taken: int
    next: int


class EventTimeCut:
    """Finds the event time up to which the records of all partitions fill an epoch.

    INVARIANT: never more than the limit, never nothing. Within a millisecond partitions are taken in order of their names, as
    in a lane.
    """

    def __init__(self, log: Log, clock: Clock) -> None:
        self._index = TimeIndex(log)
        self._clock = clock
        self._pace = 0.0  # records per millisecond of event time in the last epoch
        #: requests to the brokers' time index so far
        self.requests = 0

    def choose(self, spans: Spans, limit: int) -> Offsets:
        """Return the end offset of each partition. REQUIRES: more than ``limit`` offsets wait, ``limit`` is at least 1."""
        self._index.begin(spans)
        starts, ends = ({place: span[side] for place, span in spans.items()} for side in (0, 1))
        begin = below = self._looked_at(Cut(-1, starts, 0, -1), spans, limit)._replace(offsets=starts, taken=0)
        above = Cut(FOREVER, ends, _count(ends, spans), FOREVER)
        time, tries = self._first_guess(begin, above, limit), 0
        while above.time - below.next > 1:
            tries += 1
            enough = max(1, limit * 3 // 4 >> max(0, tries - MOST_DEFERRALS))
            cut = self._cut(max(below.next + 1, min(time, above.time - 1)), spans, limit)
            if cut.taken > limit:
                above = cut
            else:
                below = cut
                if cut.taken >= enough:
                    self._pace = cut.taken / max(1, cut.time - begin.next)
                    return cut.offsets
            time = _between(begin, below, above, limit, tries)
        return _filled(below, self._looked_at(above, spans, limit), limit, spans)

    def _first_guess(self, begin: Cut, above: Cut, limit: int) -> int:
        pace = self._pace or above.taken / max(1, self._clock.now_ms() - begin.next)
        return begin.next + round(AIM * limit / pace)

    def _cut(self, time: int, spans: Spans, limit: int) -> Cut:
        """Cut at a timestamp; a cut within the limit is verified, because the index may return too little."""
        self.requests += 1
        offsets = self._index.by_index(time, spans)
        cut = Cut(time, offsets, _count(offsets, spans), time)
        return self._looked_at(cut, spans, limit) if cut.taken <= limit else cut

    def _looked_at(self, cut: Cut, spans: Spans, limit: int) -> Cut:
        """Correct the errors of the index; by how much a cut exceeds the limit does not matter."""
        offsets, left = {}, FOREVER
        for place, (start, end) in spans.items():
            at = cut.offsets[place]
            head = self._index.head(place, at, end) if at < end else None
            if head is not None and head.timestamp < cut.time:
                at = self._index.beyond(place, cut.time, head.offset, min(end, max(start, head.offset) + limit + 1))
                head = self._index.head(place, at, end) if at < end else None
            offsets[place] = end if head is None else at  # only control records are left
            left = left if head is None else min(left, head.timestamp)
        return Cut(cut.time, offsets, _count(offsets, spans), max(cut.time, left))


def _between(begin: Cut, below: Cut, above: Cut, limit: int, tries: int) -> int:
    """Guess a timestamp between a cut that takes too little and one that takes too much."""
    aim, low = AIM * limit - below.taken, below.next
    if above.time == FOREVER:  # nothing is known beyond: extrapolate the rate so far, or take longer and longer strides
        span = max(1, low - begin.next)
        return low + (min(STRIDE * span, round(span * aim / below.taken)) if below.taken else STRIDE * span)
    if tries % MOST_DEFERRALS == 0:
        return (low + above.time) // 2
    return low + round((above.time - low) * max(0.0, aim) / (above.taken - below.taken))


def _filled(below: Cut, above: Cut, limit: int, spans: Spans) -> Offsets:
    """Fill an epoch up with records of one timestamp, in the order of a lane."""
    taken, room = {}, limit - below.taken
    for place in sorted(spans):
        more = min(room, max(0, above.offsets[place] - below.offsets[place]))
        taken[place] = below.offsets[place] + more
        room -= more
    return taken


def _count(offsets: Mapping[tuple[str, int], int], spans: Spans) -> int:
    return sum(offsets[place] - start for place, (start, _) in spans.items())
