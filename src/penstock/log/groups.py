"""The offsets of consumer groups, read by a consumer of the group that never joins it.

Not by the admin client: a request of its to a group's coordinator that times out is served once more when the broker is back, after
its memory was freed, and takes the process with it (found with librdkafka 2.16; ``docs/decisions/0007``).
"""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Position

from penstock.log.base import Offsets, TopicPartition
from penstock.log.client import Connection
from penstock.log.failures import made

#: asked about when only the coordinator is to be met: every group has an answer
ANYWHERE = ("__consumer_offsets", 0)


class Groups:
    """One consumer for each group that was asked about. Calls raise ``KafkaException``; ``seconds`` bound them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._consumers: dict[str, Consumer] = {}

    def committed(self, group: str, partitions: Iterable[TopicPartition], seconds: float) -> Offsets:
        """Return what a group has committed of these partitions; a transaction that is about to end is waited for."""
        found = self._consumer(group).committed([Position(*place) for place in partitions], timeout=seconds)
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def find_coordinator(self, group: str, seconds: float) -> None:
        """Return when the group's coordinator answers."""
        self.committed(group, [ANYWHERE], seconds)

    def close(self) -> None:
        """Close the connections."""
        while self._consumers:
            self._consumers.popitem()[1].close()

    def _consumer(self, group: str) -> Consumer:
        if group not in self._consumers:
            settings = self._connection.settings(
                "consumer", group_id=group, enable_auto_commit=False, isolation_level="read_committed"
            )
            self._consumers[group] = made(Consumer, settings)
        return self._consumers[group]
