"""Batches under way: sent to the leaders of their partitions, a few at a time, and sent again where they must be.

A broker takes the batches of a partition in the order of their sequence numbers, and each only once: it remembers the last five. So no more
than five are under way for a partition, and after a fault all that are not acknowledged are sent again, in order, with the same numbers.

INVARIANT: a batch is in ``under_way`` of its partition from before it is sent until a broker has said that it is in the log.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

from penstock.kafka_wire.errors import UNKNOWN, UNKNOWN_TOPIC, Refused, TlsRefused
from penstock.kafka_wire.net.cluster import ClusterClient
from penstock.kafka_wire.net.connection import BrokerConnection
from penstock.kafka_wire.net.waiting import Backoff
from penstock.kafka_wire.protocol import requests
from penstock.kafka_wire.protocol.batches import Batches, PartitionBatches
from penstock.kafka_wire.protocol.primitives import Encoder, TopicPartition
from penstock.kafka_wire.settings import Address, ProducerSettings
from penstock.native.record_batches import RecordBatch

#: batches of a partition that a broker can tell from new ones
WINDOW = 5
#: bytes under way, of all partitions
MOST_BYTES = 32 << 20
#: bytes of one request, if its batches are small
REQUEST_BYTES = 4 << 20

OUT_OF_ORDER, DUPLICATE = 45, 46

Sent: TypeAlias = list[tuple[PartitionBatches, RecordBatch]]


class Delivery:
    """Sends batches and reads what became of them."""

    def __init__(
        self, cluster: ClusterClient, settings: ProducerSettings, batches: Batches, transactional_id: str | None
    ) -> None:
        self._cluster = cluster
        self._batches = batches
        self._head = Encoder().nullable(transactional_id).int16(-1).int32(settings.request_ms).done()
        self._propagation = settings.propagation_seconds
        self._connections: dict[Address, BrokerConnection] = {}
        self._answers: dict[Address, deque[Sent]] = {}
        self._streams: dict[TopicPartition, PartitionBatches] = {}
        self._bytes = 0
        self._trouble: Refused | OSError | None = None
        #: partitions of batches whose answers were lost, until all that was sent to them is in the log: a broker may write them still
        self._lost: set[TopicPartition] = set()

    @property
    def is_idle(self) -> bool:
        """Whether everything that was sent is in the log."""
        return not self._streams

    def make_room(self, streams: Iterable[PartitionBatches], waiting: Backoff) -> None:
        """Wait for answers where so much is under way that nothing may be sent."""
        for stream in streams:
            while len(stream.under_way) >= (WINDOW if stream.is_known else 1) or self._bytes > MOST_BYTES:
                self._settle_one(waiting)

    def send(self, sealed: Sent, waiting: Backoff) -> None:
        """Send batches, one of each partition, for which there is room."""
        for stream, batch in sealed:
            stream.under_way.append(batch)
            self._streams[stream.partition] = stream
            self._bytes += len(batch)
        if self._trouble is None:
            self._try(lambda: self._send(sealed, waiting))

    def settle(self, waiting: Backoff) -> None:
        """Wait until everything that was sent is in the log."""
        while self._streams:
            self._settle_one(waiting)

    def interrupt(self) -> None:
        """Note that somebody was interrupted: whatever is under way may not have been sent."""
        if self._streams:
            self._trouble = ConnectionError("interrupted")
            self._lost.update(self._streams)

    def _settle_one(self, waiting: Backoff) -> None:
        """Read one answer, or recover from a fault."""
        before = self._bytes
        if self._trouble is not None:
            self._recover(waiting)
        else:
            address = next(address for address, under_way in self._answers.items() if under_way)
            self._try(lambda: self._read(address, waiting))
        if self._bytes < before:
            waiting.go_on()

    def await_answers(self, waiting: Backoff) -> None:
        """Wait for the answers that can still be had, and send nothing again."""
        for address, under_way in self._answers.items():
            while under_way and self._connections[address].is_open:
                with contextlib.suppress(Refused, OSError):
                    self._read(address, waiting)

    def forget(self) -> set[TopicPartition]:
        """Forget everything under way; return the partitions that rows may come to still, since nobody knows what became of them."""
        if self.is_idle:
            return set()
        self.close()
        for stream in self._streams.values():
            stream.under_way.clear()
        self._streams.clear()
        self._bytes = 0
        self._trouble = None
        lost, self._lost = self._lost, set()
        return lost

    def close(self) -> None:
        """Close the connections; another one is made when it is needed."""
        for address in [*self._connections]:
            self._drop(address)

    def _drop(self, address: Address) -> None:
        """Close a connection; the answers that would come on it are lost."""
        self._connections.pop(address).close()
        self._lost.update(stream.partition for some in self._answers.pop(address, ()) for stream, _ in some)

    def _try(self, attempt: Callable[[], None]) -> None:
        """Do something with a broker. A fault that may pass is kept, and recovered from before anything else."""
        try:
            attempt()
        except Refused as refused:
            if not refused.retriable and refused.code != UNKNOWN_TOPIC:
                raise
            self._trouble = refused
        except TlsRefused:
            raise
        except OSError as lost:
            self._trouble = lost

    def _send(self, sealed: Sent, waiting: Backoff) -> None:
        for address, some in self._requests(sealed):
            connection = self._connections.get(address)
            if connection is None or not connection.is_usable:
                if connection is not None:
                    self._drop(address)
                connection = self._connections[address] = self._cluster.connect(address, waiting)
                self._answers[address] = deque()
            connection.on_wait = waiting.check
            try:
                connection.send(requests.PRODUCE, self._parts(some))
            except BaseException:  # the last part of it may have gone out
                self._lost.update(stream.partition for stream, _ in some)
                raise
            self._answers[address].append(some)

    def _requests(self, sealed: Sent) -> Iterable[tuple[Address, Sent]]:
        """Yield what goes into one request: batches of different partitions with the same leader."""
        by_leader: dict[Address, Sent] = {}
        for stream, batch in sealed:
            address = self._cluster.leader(stream.partition)
            some = by_leader.setdefault(address, [])
            is_second = any(other is stream for other, _ in some)
            if some and (is_second or sum(len(each) for _, each in some) + len(batch) > REQUEST_BYTES):
                yield address, some
                some = by_leader[address] = []
            some.append((stream, batch))
        yield from by_leader.items()

    def _parts(self, some: Sent) -> list[bytes | RecordBatch]:
        """Return a request in pieces."""
        by_topic: dict[str, Sent] = {}
        for stream, batch in some:
            by_topic.setdefault(stream.partition[0], []).append((stream, batch))
        parts: list[bytes | RecordBatch] = [self._head + Encoder().int32(len(by_topic)).done()]
        for topic, its in by_topic.items():
            parts.append(Encoder().string(topic).int32(len(its)).done())
            for stream, batch in its:
                parts += [Encoder().int32(stream.partition[1]).int32(len(batch)).done(), batch]
        return parts

    def _read(self, address: Address, waiting: Backoff) -> None:
        """Read an answer; raise the worst of what it says."""
        self._connections[address].on_wait = waiting.check
        codes = self._connections[address].receive()
        worst: Refused | None = None
        for stream, batch in self._answers[address].popleft():
            code = codes.get(stream.partition, UNKNOWN)
            if code in (0, DUPLICATE):
                self._arrived(stream, batch)
            elif worst is None or worst.retriable:
                follows = code == OUT_OF_ORDER and stream.under_way[0] is not batch
                worst = Refused(UNKNOWN if follows else code, None, stream.partition, batch.count)
        if worst is not None:
            raise worst

    def _arrived(self, stream: PartitionBatches, batch: RecordBatch) -> None:
        stream.under_way.remove(batch)  # one before it may be in the log, too, and its answer was that nobody knows
        stream.is_known = True
        self._bytes -= len(batch)
        self._batches.take_back(batch)
        if not stream.under_way:
            del self._streams[stream.partition]
            self._lost.discard(stream.partition)  # what comes now came before: it is known by its numbers

    def _recover(self, waiting: Backoff) -> None:
        """Await the answers that can still come, refresh the leaders, and send the rest again."""
        assert self._trouble is not None
        for address in [*self._answers]:
            while self._answers[address] and self._connections[address].is_open:
                self._try(lambda address=address: self._read(address, waiting))  # type: ignore[misc]
            if self._answers[address]:
                self._drop(address)
        if (
            isinstance(self._trouble, Refused)
            and self._trouble.code == UNKNOWN_TOPIC
            and waiting.seconds > self._propagation
        ):
            raise self._trouble
        waiting.pause(self._trouble)
        self._trouble = None
        rest = [(stream, batch) for stream in self._streams.values() for batch in stream.under_way]
        topics = {stream.partition[0] for stream in self._streams.values()}
        if topics:
            self._try(lambda: self._cluster.learn(topics, waiting))
        if self._trouble is None:
            self._try(lambda: self._send(rest, waiting))
