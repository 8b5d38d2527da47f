"""Reads the records of an epoch as raw rows (``protocol.raw_rows``), in the tasks that read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.clock import stopwatch_us
from penstock.errors import EpochTooLarge
from penstock.lane.record_times import add_times
from penstock.lane.run import failed, said
from penstock.lane.worker import Worker
from penstock.lane.worker_log import WORKER_LOG
from penstock.protocol.envelope import NOTE, batch_of, order_of
from penstock.protocol.raw_rows import raw_batch
from penstock.protocol.report import READING, TaskReport, encode_report
from penstock.protocol.request import EpochRequest, Range

#: messages that are objects at a time: few enough to stay in the processor's cache
READ = 2_000
#: rows of a batch, and its bytes: rows are handed on together, large ones soon
BATCH, BATCH_BYTES = 20_000, 1 << 24
#: a task reads so many times the bytes that an epoch may have before it says that they are too many
MOST_TIMES = 1.5


def read_rows(worker: Worker, request: EpochRequest, ranges: Iterable[Range]) -> Iterator[pa.RecordBatch]:
    """Yield the records of ranges as raw rows, range by range, in order of their offsets.

    How large records are is not known before they are read: ``EpochTooLarge`` if there are too many of them for one epoch.
    """
    reader, meter = worker.reader(), _Meter(worker.stage.config.get("max_epoch_bytes"))
    for topic, partition, start, end in ranges:
        waiting: list[pa.RecordBatch] = []
        count = size = 0
        for rows in reader.rows(topic, partition, start, end, READ):
            waiting.append(raw_batch(rows, request.topics, worker.stage))
            count += rows.size
            size += waiting[-1].nbytes
            meter.add(waiting[-1])
            if count >= BATCH or size >= BATCH_BYTES:
                yield pa.concat_batches(waiting)
                waiting, count, size = [], 0, 0
        if waiting:
            yield pa.concat_batches(waiting)


class _Meter:
    """Counts what a task reads."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._records = self._size = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Count rows; raise ``EpochTooLarge`` if they are too many. One record is never too large."""
        self._records += len(rows)
        self._size += rows.nbytes
        if self._most is not None and self._size > MOST_TIMES * self._most and self._records > 1:
            raise EpochTooLarge(
                f"an epoch has more than {self._size} bytes of input in its first {self._records} records, and aims at {self._most} "
                "(max_epoch_bytes)",
                records=self._records,
                size=self._size,
            )


def taken_in(
    worker: Worker, request: EpochRequest, task: int, ranges: Iterable[Range], moves: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield raw rows with their times, then what it took; fill ``moves``, of time. A failure is a row of the envelope."""
    report = TaskReport(READING, task, spent={"read": 0, "exchange": 0})
    WORKER_LOG.begin(request.levels)
    rows = add_times(worker, request, read_rows(worker, request, ranges), moves)
    try:
        since = stopwatch_us()
        for batch in rows:
            read = stopwatch_us()
            report.records += len(batch)
            report.size += batch.nbytes
            yield batch
            report.spent["read"] += read - since
            since = stopwatch_us()
            report.spent["exchange"] += since - read
        report.log = WORKER_LOG.take()
        yield batch_of(NOTE, order_of(0, task, 1), [[""], [task], [None], [encode_report(report)], [0]])
    except Exception as error:
        yield from said(READING, task)
        yield failed(0, task, error)
