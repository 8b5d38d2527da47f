"""Topics, offsets and groups of a cluster in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.errors import BrokerError, TopicError
from penstock.log.base import Offsets, TopicDescription, TopicPartition, TopicSpec
from penstock.log.memory_cluster import MemoryCluster, Topic
from penstock.log.topics import check_configs, check_partitions

#: what a topic has that was made without a wish
DEFAULTS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "min.compaction.lag.ms": "0",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
}


class MemoryAdmin:
    """Topics, offsets and groups of a cluster in memory."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def topics(self) -> dict[str, int]:
        """Return every topic with the number of its partitions."""
        return {name: len(topic.partitions) for name, topic in sorted(self._cluster.topics.items())}

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic; raise ``TopicError`` if one is missing."""
        return {name: len(self._topic(name).partitions) for name in topics}

    def describe(self, topics: Iterable[str]) -> dict[str, TopicDescription]:
        """Return what the cluster tells of each topic; raise ``TopicError`` if one is missing."""
        return {name: self._description(self._topic(name)) for name in topics}

    def _description(self, topic: Topic) -> TopicDescription:
        return TopicDescription(len(topic.partitions), topic.topic_id, topic.replication)

    def brokers(self) -> int:
        """Return how many brokers the cluster is said to have."""
        return self._cluster.brokers

    def ensure_topics(self, specs: Iterable[TopicSpec]) -> list[str]:
        """Create the topics that are missing, check those that exist; return the names of the new ones."""
        created = []
        with self._cluster.lock:
            for spec in specs:
                if spec.name in self._cluster.topics:
                    check_partitions(spec, len(self._topic(spec.name).partitions))
                    check_configs(spec, self.configs(spec.name))
                else:
                    count = 1 if spec.partitions == -1 else spec.partitions
                    replication = max(1, spec.replication)
                    made = Topic(dict(spec.configs), [[] for _ in range(count)], replication=replication)
                    self._cluster.topics[spec.name] = made
                    created.append(spec.name)
        return created

    def configs(self, topic: str, *, own: bool = False) -> dict[str, str]:
        """Return the settings of a topic, defaults too; ``own``: only those that were set for this topic."""
        found = self._topic(topic).configs
        return dict(sorted(found.items())) if own else DEFAULTS | found

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Change settings of a topic; the others stay."""
        self._topic(topic).configs.update(configs)

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Delete the records below these offsets; those that are gone already are no error."""
        with self._cluster.lock:
            for place, offset in offsets.items():
                if offset > len(self._cluster.entries(place)):
                    raise BrokerError(f"could not delete records of {place[0]}: there is no offset {offset}")
                topic, partition = place
                self._topic(topic).begins[partition] = max(offset, self._cluster.begin(place))

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics; one that does not exist is no error."""
        for name in names:
            self._cluster.topics.pop(name, None)

    def earliest_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where each partition begins."""
        return {place: self._cluster.begin(place) for place in partitions}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where each partition ends, open transactions counted."""
        return {place: len(self._cluster.entries(place)) for place in partitions}

    def stable_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the last stable offset of each partition: no transaction is open below it."""
        with self._cluster.lock:
            return {place: self._cluster.stable_end(place) for place in partitions}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset whose timestamp is at least the given one, None where there is none."""
        return {place: self._first_at(place, time) for place, time in times.items()}

    def committed(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Offsets:
        """Return the offsets that a group has committed, of these partitions or of all."""
        found = dict(self._cluster.groups.get(group, {}))
        return found if partitions is None else {place: found[place] for place in partitions if place in found}

    def delete_group(self, group: str) -> None:
        """Forget a group and its offsets; one that does not exist is no error."""
        self._cluster.groups.pop(group, None)

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def _topic(self, name: str) -> Topic:
        if name not in self._cluster.topics:
            raise TopicError(
                f"there is no topic {name!r}: create it (`penstock topics create`), with enough partitions"
            )
        return self._cluster.topics[name]

    def _first_at(self, place: TopicPartition, time: int) -> int | None:
        begin, entries = self._cluster.begin(place), self._cluster.entries(place)[: self._cluster.stable_end(place)]
        later = (at for at, (timestamp, _, _) in enumerate(entries) if at >= begin and timestamp >= time)
        return next(later, None)
