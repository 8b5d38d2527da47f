"""Where the changelogs end: rows of the next epoch begin there. Aborted rows and control records count."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import BrokerError
from penstock.log.base import Log, TopicPartition
from penstock.log.topics import changelog_name, epochs_name

#: how often the changelogs are looked at until the markers of an aborted transaction are in all of them
MOST_LOOKS = 10_000


class ChangelogEnds:
    """The end offsets of all changelogs: store → by shard."""

    def __init__(self, log: Log, application_id: str, stores: Mapping[str, list[int]]) -> None:
        self._log = log
        self._application_id = application_id
        self._shards = {store: len(by_shard) for store, by_shard in stores.items()}
        self.offsets = self._find()

    def locate(self) -> None:
        """Find the ends again after a run that failed. Raises a retriable error while the cluster is away."""
        self._log.admin.end_offsets([(epochs_name(self._application_id), 0)])
        found = self._find()
        self.offsets = {  # the markers of the last barrier are counted, but may not be written yet
            store: [max(pair) for pair in zip(found[store], ends, strict=True)] for store, ends in self.offsets.items()
        }

    def advance(self, changelogs: Mapping[str, list[int]]) -> None:
        """Go on after a committed epoch."""
        self.offsets = {store: changelogs[store] for store in self.offsets}

    def _find(self) -> dict[str, list[int]]:
        topics = {store: changelog_name(self._application_id, store) for store in self._shards}
        found = self._settled(
            [(topics[store], shard) for store, count in self._shards.items() for shard in range(count)]
        )
        return {store: [found[topics[store], shard] for shard in range(count)] for store, count in self._shards.items()}

    def _settled(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the ends once no transaction is open: an abort returns before its markers are written."""
        found = self._log.admin.end_offsets(partitions)
        for _ in range(MOST_LOOKS):
            if self._log.admin.stable_offsets(partitions) == found:
                return found
            found = self._log.admin.end_offsets(partitions)
        raise BrokerError("the changelogs do not come to rest: another program writes to them", retriable=True)
