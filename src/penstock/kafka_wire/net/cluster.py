"""The brokers of a cluster as one writer knows them: where to ask, who leads a partition, who coordinates.

Each broker has up to two connections: one to ask, on which nothing else is under way, and one for batches. What is known is forgotten when
it proves wrong, and asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from penstock.kafka_wire.errors import UNKNOWN_TOPIC, Refused, TlsRefused, check
from penstock.kafka_wire.net.connection import BrokerConnection
from penstock.kafka_wire.net.security import tls_context
from penstock.kafka_wire.net.waiting import Backoff, stopwatch_us
from penstock.kafka_wire.protocol import requests
from penstock.kafka_wire.protocol.primitives import TopicPartition
from penstock.kafka_wire.protocol.requests import Api, ClusterMetadata
from penstock.kafka_wire.settings import Address, ProducerSettings

T = TypeVar("T")

LEADER_NOT_AVAILABLE = 5


class ClusterClient:
    """What is known of a cluster, and the connections to it."""

    def __init__(self, settings: ProducerSettings) -> None:
        self._settings = settings
        self._context = tls_context(settings) if settings.tls else None
        self._asking: dict[Address, BrokerConnection] = {}
        self._brokers: dict[int, Address] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._counts: dict[str, int] = {}
        self._coordinators: dict[tuple[int, str], Address] = {}
        #: API key → the newest version that every broker knows that was met
        self._versions: dict[int, int] = {}
        self._since = stopwatch_us()

    def persist(self, waiting: Backoff, attempt: Callable[[], T]) -> T:
        """Try until it works, or does not pass, or has lasted too long. A topic that is missing may be about to appear."""
        while True:
            try:
                return attempt()
            except Refused as refused:
                is_missing = refused.code == UNKNOWN_TOPIC and waiting.seconds < self._settings.propagation_seconds
                if not refused.retriable and not is_missing:
                    raise
                waiting.pause(refused)
            except TlsRefused:
                raise
            except OSError as lost:
                waiting.pause(lost)

    def ask(self, api: Api[T], body: bytes, waiting: Backoff) -> T:
        """Ask any broker, once."""
        known = [*self._asking, *self._brokers.values(), *self._settings.bootstrap]
        fault: OSError = ConnectionError("no broker")
        for address in dict.fromkeys(known):
            try:
                return self._ask(address, api, body, waiting)
            except TlsRefused:
                raise
            except OSError as lost:
                waiting.check()
                fault = lost
        raise fault

    def ask_coordinator(self, kind: int, key: str, api: Api[T], body: bytes, waiting: Backoff) -> T:
        """Ask the coordinator of a group or a transactional id, once."""
        address = self._coordinators.get((kind, key))
        if address is None:
            found = self.ask(requests.FIND_COORDINATOR, requests.find_coordinator(kind, key), waiting)
            check(found.code, found.said)
            address = self._coordinators[kind, key] = (found.broker.host, found.broker.port)
        try:
            return self._ask(address, api, body, waiting)
        except OSError:
            self.forget_coordinator(kind, key)
            raise

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Note that somebody else coordinates."""
        self._coordinators.pop((kind, key), None)

    def count(self, topic: str) -> int | None:
        """Return how many partitions a topic has, None if that is not known."""
        return self._counts.get(topic)

    def learn(self, topics: Iterable[str], waiting: Backoff) -> None:
        """Ask for topics and their leaders, once. A topic that is missing is an error of this one."""
        found = self.ask(requests.METADATA, requests.metadata(topics), waiting)
        self._keep(found)
        for topic in found.topics:
            check(topic.code, topic.name)

    def _keep(self, found: ClusterMetadata) -> None:
        if found.brokers:  # one that has just been started may name none
            self._brokers = {broker.node: (broker.host, broker.port) for broker in found.brokers}
        for topic in found.topics:
            self.forget_topic(topic.name)
            if not topic.code:
                self._counts[topic.name] = len(topic.leaders)
                self._leaders |= {(topic.name, number): leader for number, leader in topic.leaders.items()}

    def forget_topic(self, topic: str) -> None:
        """Note that what is known of a topic may be wrong."""
        self._counts.pop(topic, None)
        for partition in [partition for partition in self._leaders if partition[0] == topic]:
            del self._leaders[partition]

    def forget_topics(self, *, old: bool = False) -> None:
        """Forget all topics; ``old``: only if they were asked about long ago, since they may have got more partitions."""
        if not old or 0 < self._settings.refresh_seconds * 1e6 < stopwatch_us() - self._since:
            self._counts.clear()
            self._leaders.clear()
            self._since = stopwatch_us()

    def leader(self, partition: TopicPartition) -> Address:
        """Return where the leader of a partition is."""
        address = self._brokers.get(self._leaders.get(partition, -1))
        if address is None:
            raise Refused(LEADER_NOT_AVAILABLE, f"{partition[0]}-{partition[1]} has no leader")
        return address

    def connect(self, address: Address, waiting: Backoff) -> BrokerConnection:
        """Make a connection."""
        made = BrokerConnection(address, self._settings, self._context, waiting.check)
        for api, newest in made.versions.items():
            self._versions[api] = min(newest, self._versions.get(api, newest))
        return made

    def newest(self, api: Api[T]) -> int:
        """Return the newest version of a request that all brokers know which were met; −1: none was."""
        return self._versions.get(api.key, -1)

    def close(self) -> None:
        """Close the connections, and forget who coordinates."""
        for connection in self._asking.values():
            connection.close()
        self._asking.clear()
        self._coordinators.clear()

    def _ask(self, address: Address, api: Api[T], body: bytes, waiting: Backoff) -> T:
        connection = self._asking.get(address)
        if connection is None or not connection.is_usable:
            if connection is not None:
                connection.close()
            connection = self._asking[address] = self.connect(address, waiting)
        connection.on_wait = waiting.check
        try:
            return connection.ask(api, body)
        except OSError:
            self._asking.pop(address, None)
            raise
