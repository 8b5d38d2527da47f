"""Read records of a cluster by their offsets: a range of one partition, the last record, or what comes next.

A range ends by its offsets, not by its records: the last ones may be markers of a transaction, which no reader sees. The
client then tells that the (stable) end of the partition was reached, and at which offset. If that is below the end of the
range, a transaction is still open there. A commit returns before its marker is in every partition, so this is no error: the
reader waits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Position

from penstock.errors import BrokerError
from penstock.log.admin import KafkaAdmin
from penstock.log.base import Batch, Columns, LogRecord, TopicPartition
from penstock.log.client import Connection
from penstock.log.failures import TRANSIENT, broker_error, made
from penstock.log.patience import Patience
from penstock.log.rows import RangeRows, rows_of

BATCH = 10_000
POLL_SECONDS = 0.1
MEET_SECONDS = 5.0


class KafkaReader:
    """Reads committed records, or all of them. One client, used for one range after the other.

    A range is given up when no answer has come for as long as the patience lasts.
    """

    def __init__(
        self, connection: Connection, admin: KafkaAdmin, patience: Patience, *, committed: bool = True
    ) -> None:
        self._connection = connection
        self._admin = admin
        self._committed = committed
        self._patience = patience
        self._client = self._consumer(fetch_wait_ms=1)
        self._turn = 0  # whose range the client reads: that of the last caller of ``read``
        self._met: set[str] = set()

    def _consumer(self, fetch_wait_ms: int) -> Consumer:
        """Make a client. ``fetch_wait_ms``: how long the broker holds back an answer when there is nothing new.

        The end of a partition is told after this time, and the next range can begin only then.
        """
        settings = self._connection.settings(
            "consumer",
            group_id="penstock-reader",  # asked for by the client; nothing is committed
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            enable_partition_eof=True,
            auto_offset_reset="error",
            isolation_level="read_committed" if self._committed else "read_uncommitted",
            fetch_wait_max_ms=fetch_wait_ms,
        )
        return made(Consumer, settings)

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[LogRecord]:
        """Yield the records with start <= offset < end, in order; waits for a transaction that is about to end."""
        if start >= end:
            return
        turn, reached = self._begin(topic, partition, start), start
        try:
            for message in self._messages():
                self._check_turn(turn)
                offset = message.offset() or 0
                if message.error() is not None:  # the stable end of the partition
                    reached = offset
                elif offset < end:
                    yield _record(message)
                if offset >= end or (offset == end - 1 and message.error() is None):
                    return
        finally:
            if self._turn == turn:
                self._client.unassign()
        raise _not_reached(topic, partition, end, reached)

    def batches(self, topic: str, partition: int, start: int, end: int, most: int = BATCH) -> Iterator[Batch]:
        """Yield the same records in lists of at most so many, without coordinates and headers: for a third of the cost."""
        for reached, keys, values, times in self.columns(topic, partition, start, end, most):
            yield reached, list(zip(keys, values, times, strict=True))

    def columns(self, topic: str, partition: int, start: int, end: int, most: int = BATCH) -> Iterator[Columns]:
        """Yield the same lists by column: what a message holds is asked for without a step of Python for each of them."""
        for reached, messages in self._lists(topic, partition, start, end, most):
            times = [time for _, time in map(Message.timestamp, messages)]
            yield reached, list(map(Message.key, messages)), list(map(Message.value, messages)), times

    def rows(self, topic: str, partition: int, start: int, end: int, most: int = BATCH) -> Iterator[RangeRows]:
        """Yield the same lists with offsets and headers."""
        for _, messages in self._lists(topic, partition, start, end, most):
            yield rows_of(topic, partition, messages)

    def _lists(
        self, topic: str, partition: int, start: int, end: int, most: int
    ) -> Iterator[tuple[int, list[Message]]]:
        """Yield the messages of a range in lists, each with the offset after it."""
        if start >= end:
            return
        turn, reached, idle = self._begin(topic, partition, start), start, 0
        try:
            while not self._patience.is_over(idle * POLL_SECONDS):
                messages, ends = _take(self._client, most)
                idle = 0 if messages else idle + 1
                if not messages:
                    continue
                self._check_turn(turn)
                last = messages[-1]
                reached = (last.offset() or 0) + (last.error() is None)
                if ends or reached > end:
                    messages = [m for m in messages if m.error() is None and (m.offset() or 0) < end]
                if messages:
                    yield min(reached, end), messages
                if reached >= end:
                    return
        finally:
            if self._turn == turn:
                self._client.unassign()
        raise _not_reached(topic, partition, end, reached)

    def _begin(self, topic: str, partition: int, start: int) -> int:
        self._turn += 1
        self._meet(topic)
        self._client.assign([Position(topic, partition, start)])
        return self._turn

    def _check_turn(self, turn: int) -> None:
        if self._turn != turn:
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
                messages = self._next_messages(client)
                if not messages:
                    yield None
                yield from (_record(message) for message in messages if message.error() is None)
        finally:
            client.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._turn += 1
        self._client.close()

    def _meet(self, topic: str) -> None:
        """Ask where a topic is before it is first read: a client that reads already would find out by itself a second later."""
        if topic not in self._met:
            with contextlib.suppress(
                KafkaException
            ):  # a cluster that does not answer is the business of the read itself
                self._client.list_topics(topic, timeout=MEET_SECONDS)
                self._met.add(topic)

    def _messages(self) -> Iterator[Message]:
        """Yield messages and ends of partitions, until nothing comes for too long."""
        idle = 0
        while not self._patience.is_over(idle * POLL_SECONDS):
            messages = self._next_messages(self._client)
            idle = 0 if messages else idle + 1
            yield from messages

    @staticmethod
    def _next_messages(client: Consumer, most: int = BATCH) -> list[Message]:
        """Return messages and ends of partitions, as they come; none if none came for a while."""
        return _take(client, most)[0]


def _take(client: Consumer, most: int) -> tuple[list[Message], bool]:
    """Wait for one message, then take all that are there: a batch alone would wait until it is full.

    The second: whether there are ends of partitions among them.
    """
    first = client.poll(POLL_SECONDS)
    if first is None:
        return [], False
    messages = [first, *client.consume(most - 1, 0)] if most > 1 else [first]
    told = [message for message in messages if message.error() is not None]
    for message in told:
        error = message.error()
        assert error is not None
        if error.code() not in TRANSIENT and error.code() != KafkaError._PARTITION_EOF:
            raise broker_error(error, f"read {message.topic()}-{message.partition()}")
    return ([message for message in messages if _counts(message)], True) if told else (messages, False)


def _not_reached(topic: str, partition: int, end: int, reached: int) -> BrokerError:
    return BrokerError(
        f"{topic}-{partition} was to be read up to {end}, but nothing comes after {reached}: "
        "a transaction is open there, the topic was made anew, or the broker does not answer",
        retriable=True,
    )


def _counts(message: Message) -> bool:
    error = message.error()
    return error is None or error.code() == KafkaError._PARTITION_EOF


def _record(message: Message) -> LogRecord:
    headers = message.headers()
    return LogRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        message.key(),
        message.value(),
        message.timestamp()[1],
        tuple(headers) if headers else (),  # type: ignore[arg-type]
    )
