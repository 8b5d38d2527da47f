"""How records leave a consumer that is assigned one partition: as Arrow columns from a queue of the partition's own, or as messages.

The first is a loop in C (``native._partition_queue``): to ask for each field of each message is a microsecond of Python and its objects,
the loop takes a quarter of that and lets other threads run meanwhile. It is a *plugin* of the client (a setting of librdkafka), which is
how it comes to know the clients. The second is its Python twin; of headers whose name is not UTF-8 it tells only that name (``rows``).
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, Message

from penstock.errors import BrokerError
from penstock.log.failures import TRANSIENT, broker_error
from penstock.log.rows import RangeRows, rows_of, rows_taken
from penstock.native.loader import in_c

POLL_SECONDS = 0.1
POLL_MS = 100
PLUGINS = "plugin.library.paths"
#: None: the twin is used
loops: Any = in_c("partition_queue")


def plugged(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings of a client that the loop may use.

    >>> plugged({"plugin.library.paths": "mine"})["plugin.library.paths"].split(";")[0]
    'mine'
    """
    if loops is None:
        return settings
    return settings | {PLUGINS: ";".join([*filter(None, [settings.get(PLUGINS)]), loops.__file__])}


def open_queue(client: Consumer, topic: str, partition: int) -> PartitionQueue | MessageQueue:
    """Return what takes the records of a partition, which must not be assigned yet."""
    return (MessageQueue if loops is None else PartitionQueue)(client, topic, partition)


class MessageQueue:
    """Takes messages, each of them an object: the Python twin of the loop in C."""

    def __init__(self, client: Consumer, topic: str, partition: int) -> None:
        self._client = client
        self._partition = topic, partition

    def take(self, end: int, most: int) -> tuple[int | None, RangeRows | None]:
        """Return the offset that was reached and the records up to ``end``; nothing if none came for a while."""
        messages, ends = next_messages(self._client, most)
        if not messages:
            return None, None
        last = messages[-1]
        reached = (last.offset() or 0) + (last.error() is None)
        if ends or reached > end:
            messages = [m for m in messages if m.error() is None and (m.offset() or 0) < end]
        return reached, rows_of(*self._partition, messages) if messages else None


class PartitionQueue:
    """Takes columns from a queue of the partition's own. To be made before the partition is assigned.

    From then on the client's own calls do not see records of the partition, whoever asks.
    """

    def __init__(self, client: Consumer, topic: str, partition: int) -> None:
        self._client = client
        self._partition = topic, partition
        self._queue = loops.open_queue(client, topic, partition)

    def take(self, end: int, most: int) -> tuple[int | None, RangeRows | None]:
        """Return the offset that was reached and the records up to ``end``; nothing if none came for a while."""
        reached, errors, taken = loops.take(self._queue, end, most, POLL_MS)
        for code, said in errors or ():
            self._check(KafkaError(code, said))
        if reached < 0:
            self._surface_client_errors()
            return None, None
        return reached, None if taken is None else rows_taken(*self._partition, taken)

    def _surface_client_errors(self) -> None:
        """Surface client-level errors that belong to no partition (the topic is missing), and serve the client's log."""
        message = self._client.poll(0)
        if message is None:
            return
        error = message.error()
        if error is None:  # it would be missing
            raise BrokerError(
                f"{self._partition[0]}-{self._partition[1]}: a record came astray, it is read again", retriable=True
            )
        self._check(error)

    def _check(self, error: KafkaError) -> None:
        if error.code() not in TRANSIENT and error.code() != KafkaError._PARTITION_EOF:
            raise broker_error(error, f"read {self._partition[0]}-{self._partition[1]}")


def next_messages(client: Consumer, most: int) -> tuple[list[Message], bool]:
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


def _counts(message: Message) -> bool:
    error = message.error()
    return error is None or error.code() == KafkaError._PARTITION_EOF
