"""How records leave a consumer that is assigned one partition: as messages, or as columns without them (``log.native``)."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, Message

from penstock.errors import BrokerError
from penstock.log.failures import TRANSIENT, broker_error
from penstock.log.native import loops
from penstock.log.rows import RangeRows, rows_of, rows_taken

POLL_SECONDS = 0.1
POLL_MS = 100


class Messages:
    """Takes messages, each of them an object."""

    def __init__(self, client: Consumer, topic: str, partition: int) -> None:
        self._client = client
        self._place = topic, partition

    def take(self, end: int, most: int) -> tuple[int | None, RangeRows | None]:
        """Return the offset that was reached and the records up to ``end``; nothing if none came for a while."""
        messages, ends = next_messages(self._client, most)
        if not messages:
            return None, None
        last = messages[-1]
        reached = (last.offset() or 0) + (last.error() is None)
        if ends or reached > end:
            messages = [m for m in messages if m.error() is None and (m.offset() or 0) < end]
        return reached, rows_of(*self._place, messages) if messages else None


class PartitionQueue:
    """Takes columns from a queue of the partition's own. To be made before the partition is assigned.

    From then on the client's own calls do not see records of the partition, whoever asks.
    """

    def __init__(self, client: Consumer, topic: str, partition: int) -> None:
        self._client = client
        self._place = topic, partition
        self._tap = loops.open_tap(client, topic, partition)

    def take(self, end: int, most: int) -> tuple[int | None, RangeRows | None]:
        """Return the offset that was reached and the records up to ``end``; nothing if none came for a while."""
        reached, errors, taken = loops.take(self._tap, end, most, POLL_MS)
        for code, said in errors or ():
            self._judge(KafkaError(code, said))
        if reached < 0:
            self._hear()
            return None, None
        return reached, None if taken is None else rows_taken(*self._place, taken)

    def _hear(self) -> None:
        """Let the client say what it says of no partition: that the topic is missing, what it writes to its log."""
        message = self._client.poll(0)
        if message is None:
            return
        error = message.error()
        if error is None:  # it would be missing
            raise BrokerError(
                f"{self._place[0]}-{self._place[1]}: a record came astray, it is read again", retriable=True
            )
        self._judge(error)

    def _judge(self, error: KafkaError) -> None:
        if error.code() not in TRANSIENT and error.code() != KafkaError._PARTITION_EOF:
            raise broker_error(error, f"read {self._place[0]}-{self._place[1]}")


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
