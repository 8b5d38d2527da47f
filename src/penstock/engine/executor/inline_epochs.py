"""Inline epochs: an epoch of few records, which the driver reads itself and hands to a resident task
(``lane.inline_epoch``).

A Spark job that reads and shuffles costs the same for one record as for thousands, and much more than the records do.
An inline epoch costs little, but where a plan has several steps one core does all of its work: an epoch is inline
while that work is less than what it saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from penstock.log.ranges import KafkaRanges
from penstock.protocol.channel import Part
from penstock.protocol.chunk import chunk_of
from penstock.protocol.raw_rows import raw_batch
from penstock.protocol.report import TaskReport, cost_of
from penstock.protocol.request import EpochRequest, Range, Stage
from penstock.protocol.shuffle import split

#: size in bytes of the values of an inline epoch, at most
MOST_BYTES = 1 << 23
#: microseconds of work that one core may do where several could
MOST_WORK_US = 250_000
#: least records from which the cost of one is estimated: with fewer, the cost of the epoch itself dominates
TELLING = 500


class InlineEpochs:
    """Decides which epochs are inline, and reads their records."""

    def __init__(self, stage: Stage, reader: KafkaRanges, most_records: int) -> None:
        self._stage = stage
        self._reader = reader
        #: most records of an inline epoch; 0: no epoch is inline
        self.most_records = most_records
        #: estimates for one record: microseconds in the lanes, size in bytes
        self._cost = 0.0
        self._size = 0.0

    def write(self, request: EpochRequest, ranges: Sequence[Range]) -> list[Part] | None:
        """Return the parts of an inline epoch, without rows if there is no input; None if it is too large to be inline."""
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
        return parts_of(self._stage, [raw_batch(rows, request.topics, self._stage) for rows in found])

    def learn(self, reports: Iterable[TaskReport]) -> None:
        """Update the estimate of what a record costs from a finished epoch."""
        records, size, work = cost_of(reports)
        if records:
            self._size = size / records
            if records >= TELLING or work > MOST_WORK_US or work / records < self._cost:
                # at most doubled: the machine may have been busy with something else for a moment
                self._cost = min(work / records, 2 * self._cost or work)


def parts_of(stage: Stage, rows: list[pa.RecordBatch]) -> list[Part]:
    """Return the raw rows of an epoch: a part for each lane, if these need nothing of each other, else one for all of them."""
    (first, *later) = stage.plan.steps
    rows = [pa.concat_batches(rows)] if rows else []
    if later or not first.exchange or not _is_split(stage, rows):
        return [(None, _packed(rows))]
    return [(lane, _packed(mine)) for lane, mine in enumerate(split(rows, "shard", stage.lanes))]


def _is_split(stage: Stage, rows: list[pa.RecordBatch]) -> bool:
    """Whether each lane may have its own rows alone: nothing depends on time, and their order not on the rows of others."""
    return not stage.plan.timed and all(len(batch["place"].unique()) <= 1 for batch in rows)


def _packed(batches: list[pa.RecordBatch]) -> bytes:
    return chunk_of(batches) if batches else b""
