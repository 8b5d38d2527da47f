"""The log whose body is a real Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.log.admin import KafkaAdmin
from penstock.log.base import Producer, Reader
from penstock.log.client import Connection
from penstock.log.deadline import Deadline
from penstock.log.producers import make_producer
from penstock.log.ranges import KafkaRanges
from penstock.log.reader import KafkaReader


class KafkaLog:
    """A cluster, and the clients to use it with. ``timeout``: seconds to wait for one that does not answer."""

    def __init__(self, bootstrap_servers: str, kafka: Mapping[str, Any] | None = None, *, timeout: float = 60) -> None:
        self.connection = Connection(bootstrap_servers, dict(kafka or {}))
        self._deadline = Deadline(timeout)
        self._admin: KafkaAdmin | None = None
        self._made: list[Producer | Reader | KafkaRanges] = []

    @property
    def admin(self) -> KafkaAdmin:
        """The one admin client, made when it is first asked for."""
        if self._admin is None:
            self._admin = KafkaAdmin(self.connection, self._deadline)
        return self._admin

    def producer(self, transactional_id: str | None, *, batch_bytes: int | None = None) -> Producer:
        """Make a producer: transactional, or without an id one that writes at least once; in batches of so many bytes at most."""
        made = make_producer(self.connection, self._deadline, transactional_id, batch_bytes)
        self._made.append(made)
        return made

    def reader(self, *, committed: bool = True, timeout: float | None = None) -> KafkaReader:
        """Make a reader of committed records, or of all. ``timeout``: seconds to wait for what must come."""
        deadline = self._deadline if timeout is None else Deadline(timeout, self._deadline.expedited)
        made = KafkaReader(self.connection, self.admin, deadline, committed=committed)
        self._made.append(made)
        return made

    def ranges(self, *, timeout: float) -> KafkaRanges:
        """Make a reader of small ranges, several at once. ``timeout``: seconds to wait for what must come."""
        made = KafkaRanges(self.connection, Deadline(timeout, self._deadline.expedited))
        self._made.append(made)
        return made

    def expedite(self) -> None:
        """Wait no longer than a few seconds for a cluster that does not answer, from now on: the program wants to end."""
        self._deadline.expedited.set()

    def close(self) -> None:
        """Close everything that was made here."""
        while self._made:
            self._made.pop().close()
        if self._admin is not None:
            self._admin.close()
            self._admin = None
