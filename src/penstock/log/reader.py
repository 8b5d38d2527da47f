"""Read records of a cluster by their offsets: a range of one partition, the last record, or what comes next.

A range ends by its offsets, not by its records: the last ones may be markers of a transaction, which no reader sees. The
client then tells that the (stable) end of the partition was reached, and at which offset. If that is below the end of the
range, a transaction is still open there. A commit returns before its marker is in every partition, so this is no error: the
reader waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, Message
from confluent_kafka import TopicPartition as Position

from penstock.errors import BrokerError
from penstock.log.admin import KafkaAdmin
from penstock.log.assigned import KnownTopics, assigned_consumer
from penstock.log.base import Batch, Columns, LogRecord, TopicPartition
from penstock.log.client import Connection
from penstock.log.deadline import Deadline
from penstock.log.partition_queue import POLL_SECONDS, next_messages, open_queue
from penstock.log.rows import RangeRows, all_headers, records_of

BATCH = 10_000


class KafkaReader:
    """Reads committed records, or all of them. One client, used for one range after the other.

    A range is given up when no answer has come for as long as the deadline allows.
    """

    def __init__(
        self, connection: Connection, admin: KafkaAdmin, deadline: Deadline, *, committed: bool = True
    ) -> None:
        self._connection = connection
        self._admin = admin
        self._committed = committed
        self._deadline = deadline
        self._client = self._consumer(fetch_wait_ms=1)
        self._current_read = 0  # whose range the client reads: that of the last caller of ``read``
        self._known_topics = KnownTopics(self._client)

    def _consumer(self, fetch_wait_ms: int) -> Consumer:
        return assigned_consumer(self._connection, "penstock-reader", fetch_wait_ms, committed=self._committed)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[LogRecord]:
        """Yield the records with start <= offset < end, in order; waits for a transaction that is about to end."""
        for _, rows in self._blocks(topic, partition, start, end, BATCH):
            yield from records_of(rows)

    def batches(self, topic: str, partition: int, start: int, end: int, most: int = BATCH) -> Iterator[Batch]:
        """Yield the same records in lists of at most so many, without coordinates and headers: for a third of the cost."""
        for reached, keys, values, times in self.columns(topic, partition, start, end, most):
            yield reached, list(zip(keys, values, times, strict=True))

    def columns(self, topic: str, partition: int, start: int, end: int, most: int = BATCH) -> Iterator[Columns]:
        """Yield the same lists by column."""
        for reached, rows in self._blocks(topic, partition, start, end, most):
            yield reached, rows.keys.to_pylist(), rows.values.to_pylist(), rows.timestamps.tolist()

    def rows(self, topic: str, partition: int, start: int, end: int, most: int = BATCH) -> Iterator[RangeRows]:
        """Yield the same records as arrays, with offsets and headers."""
        for _, rows in self._blocks(topic, partition, start, end, most):
            yield rows

    def _blocks(self, topic: str, partition: int, start: int, end: int, most: int) -> Iterator[tuple[int, RangeRows]]:
        """Yield the records of a range in blocks, each with the offset after it."""
        if start >= end:
            return
        queue = open_queue(self._client, topic, partition)
        read_number, reached, idle = self._begin(topic, partition, start), start, 0
        try:
            while not self._deadline.is_over(idle * POLL_SECONDS):
                self._check_current(read_number)
                at, rows = queue.take(end, most)
                idle = 0 if at is not None else idle + 1
                if at is None:
                    continue
                reached = at
                if rows is not None:
                    yield min(reached, end), rows
                if reached >= end:
                    return
        finally:
            if self._current_read == read_number:
                self._client.unassign()
        raise _not_reached(topic, partition, end, reached)

    def _begin(self, topic: str, partition: int, start: int) -> int:
        self._current_read += 1
        self._known_topics.learn([topic])
        self._client.assign([Position(topic, partition, start)])
        return self._current_read

    def _check_current(self, read_number: int) -> None:
        if self._current_read != read_number:
            raise RuntimeError("a reader reads one range at a time: another one was begun, or it was closed")

    def last_record(self, topic: str, partition: int = 0) -> LogRecord | None:
        """Return the last committed record of a partition, None if there is none."""
        place = (topic, partition)
        end = self._admin.stable_offsets([place])[place]
        earliest = self._admin.earliest_offsets([place])[place]
        reach, found = 4, None
        while found is None and end > earliest:
            start = max(earliest, end - reach)
            for found in self.read(topic, partition, start, end):  # noqa: B007 (the last one is wanted)
                pass
            end, reach = start, reach * 8  # nothing but markers and aborted records there: look further back
        return found

    def follow(self, starts: Mapping[TopicPartition, int]) -> Iterator[LogRecord | None]:
        """Yield the records of several partitions as they come, for ever; None about every 100 ms without one."""
        client = self._consumer(fetch_wait_ms=100)
        client.assign([Position(topic, partition, offset) for (topic, partition), offset in starts.items()])
        try:
            while True:
                messages = next_messages(client, BATCH)[0]
                if not messages:
                    yield None
                yield from _records([message for message in messages if message.error() is None])
        finally:
            client.close()

    def close(self) -> None:
        """Close the connections."""
        self._current_read += 1
        self._client.close()


def _not_reached(topic: str, partition: int, end: int, reached: int) -> BrokerError:
    return BrokerError(
        f"{topic}-{partition} was to be read up to {end}, but nothing comes after {reached}: "
        "a transaction is open there, the topic was made anew, or the broker does not answer",
        retriable=True,
    )


def _records(messages: list[Message]) -> Iterator[LogRecord]:
    for message, headers in zip(messages, all_headers(messages), strict=True):
        yield LogRecord(
            message.topic() or "",
            message.partition() or 0,
            message.offset() or 0,
            message.key(),
            message.value(),
            message.timestamp()[1],
            tuple(headers) if headers else (),
        )
