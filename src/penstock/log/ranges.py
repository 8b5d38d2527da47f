"""Read small ranges of several partitions at once, by a client that stays connected: a few milliseconds for all of them.

As in ``reader``, a range ends by its offsets: the last ones may be markers of a transaction, which no reader sees. The client then tells
that the (stable) end of the partition was reached. It is told so by an answer that the broker holds back for ``FETCH_WAIT_MS`` because
there is nothing new; and for as long a partition that is asked for anew waits, while an answer for others is held back.
"""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as Position

from penstock.errors import BrokerError
from penstock.log import partition_queue
from penstock.log.assigned import KnownTopics, assigned_consumer
from penstock.log.base import TopicPartition
from penstock.log.client import Connection
from penstock.log.deadline import Deadline
from penstock.log.failures import MISSING_TOPIC, TRANSIENT, broker_error
from penstock.log.rows import RangeRows, rows_of
from penstock.record import undecodable_name

FETCH_WAIT_MS = 1
POLL_SECONDS = 0.1
BATCH = 10_000


class KafkaRanges:
    """Reads committed records. A read is given up when no answer has come for as long as the deadline allows."""

    def __init__(self, connection: Connection, deadline: Deadline) -> None:
        self._deadline = deadline
        # a broker that has come back is found soon
        self._client = assigned_consumer(connection, "penstock-letters", FETCH_WAIT_MS, reconnect_backoff_max_ms=1000)
        self._known_topics = KnownTopics(self._client)
        #: that a topic is not there: brokers that have just started say so of topics that they have not heard of yet
        self._missing: BrokerError | None = None

    def read(self, ranges: Sequence[tuple[str, int, int, int]], most_bytes: int) -> list[RangeRows] | None:
        """Return the records of each range (topic, partition, start, end); None if their values are larger than this together.

        None, too, if a header has a name that is not UTF-8: the client does not tell the headers then, and the other reader does.

        Raises ``BrokerError``: one that may pass if the cluster does not answer, another one if the records are gone.
        """
        waiting = {(topic, partition): end for topic, partition, start, end in ranges if start < end}
        found: dict[TopicPartition, list[Message]] = {(topic, partition): [] for topic, partition, _, _ in ranges}
        if waiting:
            self._known_topics.learn(topic for topic, _ in waiting)
            self._client.assign([Position(topic, partition, start) for topic, partition, start, _ in ranges])
            try:
                if not self._gather(waiting, found, most_bytes):
                    return None
            finally:
                self._client.unassign()  # else it would go on asking for what comes
        rows = [rows_of(topic, partition, found[topic, partition]) for topic, partition, _, _ in ranges]
        return None if partition_queue.loops is not None and any(map(_has_undecodable, rows)) else rows

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _gather(
        self, waiting: dict[TopicPartition, int], found: dict[TopicPartition, list[Message]], most: int
    ) -> bool:
        """Collect messages until no range waits; tell whether they are not too large."""
        idle = size = 0
        self._missing = None
        while waiting:
            messages = self._next_messages()
            idle = 0 if messages else idle + 1
            if self._deadline.is_over(idle * POLL_SECONDS):
                raise self._missing or _not_reached(waiting)
            for message in messages:
                place = (message.topic() or "", message.partition() or 0)
                end = waiting.get(place)
                if end is None:  # what comes after a range that is complete
                    continue
                offset = message.offset() or 0
                if message.error() is None:
                    if offset < end:
                        found[place].append(message)
                        size += len(message)
                    offset += 1
                if offset >= end:
                    del waiting[place]
            if size > most:
                return False
        return True

    def _next_messages(self) -> list[Message]:
        """Wait for one message, then take all that are there; ends of partitions are messages, too."""
        first = self._client.poll(POLL_SECONDS)
        if first is None:
            return []
        messages = [first, *self._client.consume(BATCH, 0)]
        return [message for message in messages if message.error() is None or self._is_end(message)]

    def _is_end(self, message: Message) -> bool:
        """Return whether a message says that a partition was read to its end; raise what does not pass."""
        error = message.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            return True
        if error.code() not in TRANSIENT:
            raised = broker_error(error, f"read {message.topic()}-{message.partition()}")
            if error.code() not in MISSING_TOPIC:
                raise raised
            self._missing = raised
        return False


def _has_undecodable(rows: RangeRows) -> bool:
    return any(undecodable_name(headers) is not None for headers in rows.headers or ())


def _not_reached(waiting: dict[TopicPartition, int]) -> BrokerError:
    named = ", ".join(f"{topic}-{partition} up to {end}" for (topic, partition), end in sorted(waiting.items()))
    return BrokerError(f"could not read {named}: nothing comes, the broker does not answer", retriable=True)
