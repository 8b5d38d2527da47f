"""Finds the offset at which a partition reaches a timestamp: with the brokers' time index, and by reading records
where it errs.

The index returns the first offset whose timestamp is at least the one asked for. Two kinds of offsets mislead it:
control records of transactions, which carry the wall-clock time of their commit (in a topic of old events each of
them is "later"), and records before the position whose timestamps were ahead. So the record at the offset that the
index returned is read. If it is earlier than the timestamp, the index does not help there, and the offset is searched
for: first in the records that follow, then, over longer distances, by bisection.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple, TypeAlias

from penstock.errors import BrokerError
from penstock.log.base import Log, LogRecord, Offsets, Reader, TopicPartition

logger = logging.getLogger("penstock.engine")

#: later than any record
FOREVER = 2**62
#: partition → first and end offset of what waits to be read
Spans: TypeAlias = Mapping[TopicPartition, tuple[int, int]]
#: records that are read in sequence before the search goes on by bisection
STRETCH = 1000
#: seconds after which reading a record fails
TIMEOUT = 15.0


class Head(NamedTuple):
    """The first record at or after an offset."""

    offset: int
    timestamp: int


class TimeIndex:
    """Looks up offsets by timestamp. Records that were read once are cached until the position is past them."""

    def __init__(self, log: Log, stretch: int = STRETCH) -> None:
        self._log = log
        self._stretch = stretch
        self._reader: Reader | None = None
        self._heads: dict[TopicPartition, dict[int, Head]] = {}

    def begin(self, spans: Spans) -> None:
        """Drop cached records before the positions."""
        self._heads = {
            place: {asked: head for asked, head in self._heads.get(place, {}).items() if asked >= start}
            for place, (start, _) in spans.items()
        }

    def by_index(self, time: int, spans: Spans) -> Offsets:
        """Return the offset up to which each partition is earlier than a timestamp, by the index: never too far."""
        found = self._log.admin.offsets_for_times(dict.fromkeys(spans, time))
        ends = {place: end if (at := found[place]) is None else at for place, (_, end) in spans.items()}
        return {place: min(max(ends[place], start), end) for place, (start, end) in spans.items()}

    def head(self, place: TopicPartition, offset: int, end: int) -> Head | None:
        """Return the first record at or after an offset; None if there is none before the end."""
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
        """Return where a partition that is earlier than a timestamp at ``start`` reaches it; ``end`` if it does not.

        Exact within ``stretch`` records, or if timestamps are in order; else an offset among those that are not.
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
        """Narrow a range down, by bisection, to one of ``stretch`` offsets at whose end the timestamp is reached."""
        while end - start > self._stretch:
            middle = (start + end) // 2
            head = self.head(place, middle, end)
            if head is None or head.timestamp >= time:
                end = middle
            else:
                start = head.offset + 1
        return start, end

    def _read(self, place: TopicPartition, start: int, end: int, most: int) -> list[LogRecord] | None:
        """Read a few records; None if they cannot be read (deleted meanwhile): the index must do."""
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
    """Fall back to the index where records were deleted; a retriable error is raised for the loop to retry."""
    if error.retriable:
        raise error
    logger.warning("%s-%d cannot be looked at, so its index of times is trusted: %s", *place, error)
