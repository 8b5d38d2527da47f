"""Where partitions reach a time: what the cluster's index of times says, and a look at the records where it cannot know.

The index tells the first offset whose timestamp is at least a time. Two kinds of offsets lead it astray, and a reader sees
neither: markers of transactions, which have the wall-clock time of their commit (in a topic of old events every one of them is
"later"), and records before the position that were ahead of their time. So the record at the offset that the index tells is
looked at. If it is earlier than the time, the index is blind there, and the place is searched for: first in the records that
follow, then, over longer stretches, by halves.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple, TypeAlias

from penstock.errors import BrokerError
from penstock.log.base import Log, LogRecord, Offsets, Reader, TopicPartition

logger = logging.getLogger("penstock.engine")

#: later than every record
FOREVER = 2**62
#: what waits of each partition: from which offset, up to which
Spans: TypeAlias = Mapping[TopicPartition, tuple[int, int]]
#: records that are read one after the other before the search goes on by halves
STRETCH = 1000
#: seconds after which a look at a record is given up
TIMEOUT = 15.0


class Head(NamedTuple):
    """The first record at or after an offset."""

    offset: int
    timestamp: int


class Soundings:
    """Finds where partitions reach a time. What was seen once of a partition is kept until it has been read."""

    def __init__(self, log: Log, stretch: int = STRETCH) -> None:
        self._log = log
        self._stretch = stretch
        self._reader: Reader | None = None
        self._heads: dict[TopicPartition, dict[int, Head]] = {}

    def begin(self, spans: Spans) -> None:
        """Forget what was seen of records that have been read since."""
        self._heads = {
            place: {asked: head for asked, head in self._heads.get(place, {}).items() if asked >= start}
            for place, (start, _) in spans.items()
        }

    def by_index(self, time: int, spans: Spans) -> Offsets:
        """Return up to where each partition is earlier than a time, as far as the index knows: never too far, in one request."""
        found = self._log.admin.offsets_for_times(dict.fromkeys(spans, time))
        ends = {place: end if (at := found[place]) is None else at for place, (_, end) in spans.items()}
        return {place: min(max(ends[place], start), end) for place, (start, end) in spans.items()}

    def head(self, place: TopicPartition, offset: int, end: int) -> Head | None:
        """Return the first record from an offset on; None if there is none below the end."""
        known = self._heads.setdefault(place, {})
        if offset not in known:
            try:
                after, rows = next(self._open().batches(*place, offset, end, 1), (end, []))
            except BrokerError as error:
                _trust_index(place, error)
                return Head(offset, FOREVER)
            if not rows:
                return None
            known[offset] = Head(after - 1, rows[0][2])
        return known[offset]

    def beyond(self, place: TopicPartition, time: int, start: int, end: int) -> int:
        """Return where a partition, whose record at ``start`` is earlier than a time, reaches it; ``end`` if it does not.

        Exact where it is within a stretch, or the records are in order of time; else somewhere among those that are not.
        """
        while True:
            records = self._read(place, start, end, self._stretch)
            if records is None:
                return start
            later = next((record for record in records if record.timestamp >= time), None)
            if later is not None:
                self._heads.setdefault(place, {})[later.offset] = Head(later.offset, later.timestamp)
                return later.offset
            if len(records) < self._stretch:
                return end
            start, end = self._halved(place, time, records[-1].offset + 1, end)

    def _halved(self, place: TopicPartition, time: int, start: int, end: int) -> tuple[int, int]:
        """Narrow a range down to a stretch at whose end the time is reached."""
        while end - start > self._stretch:
            middle = (start + end) // 2
            head = self.head(place, middle, end)
            if head is None or head.timestamp >= time:
                end = middle
            else:
                start = head.offset + 1
        return start, end

    def _read(self, place: TopicPartition, start: int, end: int, most: int) -> list[LogRecord] | None:
        """Read a few records; None if they cannot be read now (deleted just then): the index must do."""
        try:
            return list(islice(self._open().read(*place, start, end), most))
        except BrokerError as error:
            _trust_index(place, error)
            return None

    def _open(self) -> Reader:
        if self._reader is None:
            self._reader = self._log.reader(timeout=TIMEOUT)
        return self._reader


def _trust_index(place: TopicPartition, error: BrokerError) -> None:
    """Go on without a look at records that are gone; a fault that passes is the loop's to wait out."""
    if error.retriable:
        raise error
    logger.warning("%s-%d cannot be looked at, so its index of times is trusted: %s", *place, error)
