"""What a transaction's coordinator is told: who we are, which partitions take part, which offsets, how it ends.

Every question may be asked again if its answer was lost: the coordinator gives the same answer, that of ``end`` too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from penstock.kafka_wire.errors import UNKNOWN, Refused, check
from penstock.kafka_wire.net.cluster import ClusterClient
from penstock.kafka_wire.net.waiting import Backoff
from penstock.kafka_wire.protocol import requests
from penstock.kafka_wire.protocol.primitives import TopicPartition
from penstock.kafka_wire.protocol.requests import GROUP, NOBODY, TRANSACTION, Api, Codes, Identity

T = TypeVar("T")

#: somebody else coordinates, or is about to
MOVED = (14, 15, 16)


class Transactions:
    """The coordinator's side of one transactional id."""

    def __init__(self, cluster: ClusterClient, transactional_id: str, timeout_ms: int) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._timeout_ms = timeout_ms

    def identify(self, waiting: Backoff, identity: Identity = NOBODY) -> Identity:
        """Take the id over, from whoever has it; with one's own identity: only if nobody has taken it over since.

        What is open under the id is aborted.
        """

        def attempt() -> Identity:
            body = requests.init_producer(self._id, self._timeout_ms, identity)
            code, given = self._ask(requests.INIT_PRODUCER, body, waiting)
            self._check(code)
            return given

        return self._cluster.persist(waiting, attempt)

    def add_partitions(self, identity: Identity, partitions: Collection[TopicPartition], waiting: Backoff) -> None:
        """Announce the partitions that take part."""
        body = requests.add_partitions(self._id, identity, partitions)

        def attempt() -> None:
            self._check_all(dict.fromkeys(partitions, UNKNOWN) | self._ask(requests.ADD_PARTITIONS, body, waiting))

        self._cluster.persist(waiting, attempt)

    def add_offsets(self, identity: Identity, group: str, waiting: Backoff) -> None:
        """Announce that a group's offsets take part."""
        body = requests.add_offsets(self._id, identity, group)
        self._cluster.persist(waiting, lambda: self._check(self._ask(requests.ADD_OFFSETS, body, waiting)))

    def send_offsets(
        self, identity: Identity, group: str, offsets: Mapping[TopicPartition, int], waiting: Backoff
    ) -> None:
        """Give a group's offsets to its own coordinator, to become visible with the transaction."""
        body = requests.transaction_offsets(self._id, group, identity, offsets)
        give_offsets(self._cluster, group, requests.TXN_OFFSETS, body, offsets, waiting)

    def end(self, identity: Identity, waiting: Backoff, *, committed: bool) -> None:
        """Commit or abort."""
        body = requests.end_transaction(self._id, identity, committed=committed)
        self._cluster.persist(waiting, lambda: self._check(self._ask(requests.END_TRANSACTION, body, waiting)))

    def _ask(self, api: Api[T], body: bytes, waiting: Backoff) -> T:
        return self._cluster.ask_coordinator(TRANSACTION, self._id, api, body, waiting)

    def _check(self, code: int) -> None:
        if code in MOVED:
            self._cluster.forget_coordinator(TRANSACTION, self._id)
        check(code)

    def _check_all(self, codes: Codes) -> None:
        """Raise the error of one partition; those of the others often only say that they were not tried."""
        not_tried = 55
        faults = sorted((code == not_tried, partition, code) for partition, code in codes.items() if code)
        for _, partition, code in faults:
            if code in MOVED:
                self._cluster.forget_coordinator(TRANSACTION, self._id)
            raise Refused(code, None, partition)


def give_offsets(
    cluster: ClusterClient,
    group: str,
    api: Api[Codes],
    body: bytes,
    partitions: Iterable[TopicPartition],
    waiting: Backoff,
) -> None:
    """Give offsets of partitions to the coordinator of their group."""

    def attempt() -> None:
        codes = dict.fromkeys(partitions, UNKNOWN) | cluster.ask_coordinator(GROUP, group, api, body, waiting)
        for partition, code in codes.items():
            if code in MOVED:
                cluster.forget_coordinator(GROUP, group)
            if code:
                raise Refused(code, None, partition)

    cluster.persist(waiting, attempt)
