"""Clients that are told where to read: they belong to no group, commit nothing, and tell of the end of a partition."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException

from penstock.log.client import Connection
from penstock.log.failures import made
from penstock.log.partition_queue import plugged

METADATA_SECONDS = 5.0


def assigned_consumer(
    connection: Connection, group: str, fetch_wait_ms: int, *, committed: bool = True, **preferred: Any
) -> Consumer:
    """Make a client. ``group``: asked for by the client, and its name in the broker's log.

    ``fetch_wait_ms``: how long the broker holds back an answer when there is nothing new. The end of a partition is told after this
    time, and another range can begin only then. ``preferred``: settings (``_`` for ``.``) unless the user says otherwise.
    """
    settings = connection.settings(
        "consumer",
        group_id=group,
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        enable_partition_eof=True,
        auto_offset_reset="error",
        isolation_level="read_committed" if committed else "read_uncommitted",
        fetch_wait_max_ms=fetch_wait_ms,
    )
    return made(Consumer, plugged({name.replace("_", "."): value for name, value in preferred.items()} | settings))


class KnownTopics:
    """Topics that a client knows of. It would find out by itself where a new one is, but a second later."""

    def __init__(self, client: Consumer) -> None:
        self._client = client
        self._topics: set[str] = set()

    def learn(self, topics: Iterable[str]) -> None:
        """Ask where topics are before they are first read; a cluster that does not answer is the business of the read itself."""
        for topic in set(topics) - self._topics:
            with contextlib.suppress(KafkaException):
                self._client.list_topics(topic, timeout=METADATA_SECONDS)
                self._topics.add(topic)
