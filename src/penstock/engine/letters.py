"""Letters: an epoch of few records, read by the driver and brought to a task. See ``lane.letter`` for what becomes of it there.

Spark's own way to read and exchange costs the same for one record as for thousands, and much more than these records do. A letter
costs little, but one core does all of its work, if it has steps that others wait for: an epoch is a letter as long as that work is less
than what it saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.engine.measure import cost_of
from penstock.engine.offsets import Range
from penstock.lane.intake import raw_batch
from penstock.lane.letter import parts_of
from penstock.lane.orders import Orders, Report, Stage
from penstock.lane.post import Part
from penstock.log.ranges import KafkaRanges

#: bytes of values that a letter may hold
MOST_BYTES = 1 << 23
#: microseconds of work that one core may do for what several could
MOST_WORK_US = 250_000
#: records that tell what one of them costs: of fewer, the cost of the epoch itself is most
TELLING = 500


class Letters:
    """Decides which epochs are letters, and writes them."""

    def __init__(self, stage: Stage, reader: KafkaRanges, most_records: int) -> None:
        self._stage = stage
        self._reader = reader
        #: records of an epoch that are sent as a letter; 0: none are
        self.most_records = most_records
        #: what a record costs in the lanes, in microseconds, and its bytes, as far as is known
        self._cost = 0.0
        self._size = 0.0

    def write(self, orders: Orders, ranges: Sequence[Range]) -> list[Part] | None:
        """Return the letter of an epoch, without rows if nothing is read; None if it is too much for one."""
        if not self.most_records:
            return None
        if not ranges:
            return parts_of(self._stage, [])
        count = sum(end - start for _, _, start, end in ranges)
        if count > self.most_records or count * self._cost > MOST_WORK_US or count * self._size > MOST_BYTES:
            return None
        found = self._reader.read(ranges, MOST_BYTES)
        if found is None:
            return None
        return parts_of(self._stage, [raw_batch(rows, orders.topics, self._stage) for rows in found])

    def learn(self, reports: Iterable[Report]) -> None:
        """Be told of an epoch: what its records have cost."""
        records, size, work = cost_of(reports)
        if records:
            self._size = size / records
            if records >= TELLING or work > MOST_WORK_US or work / records < self._cost:
                # of a machine that was busy with something else for a moment no more than that is believed
                self._cost = min(work / records, 2 * self._cost or work)
