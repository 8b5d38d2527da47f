"""Topics, offsets and groups of a real cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from penstock.clock import SystemClock
from penstock.log.base import Offsets, TopicDescription, TopicPartition, TopicSpec
from penstock.log.client import Connection
from penstock.log.deadline import Deadline
from penstock.log.failures import broker_error, kafka_error, made
from penstock.log.groups import Groups
from penstock.log.topics import check_configs, check_partitions

T = TypeVar("T")

SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 0.25  # seconds
REQUEST_SECONDS = 5.0
#: for a request to the coordinator of a group
LONG_SECONDS = 120.0


class KafkaAdmin:
    """The admin client of a cluster. What fails for a passing reason is tried again until the deadline."""

    def __init__(self, connection: Connection, deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline
        self._request_seconds = min(REQUEST_SECONDS, deadline.seconds)
        self._client = made(AdminClient, connection.settings("admin"))
        self._groups = Groups(connection)

    def cluster(self) -> tuple[str, list[str]]:
        """Return the id of the cluster, and where its brokers say that they are (host:port)."""
        found = self._call("describe the cluster", lambda: self._client.list_topics(timeout=self._request_seconds))
        return found.cluster_id or "", [f"{broker.host}:{broker.port}" for broker in found.brokers.values()]

    def topics(self) -> dict[str, int]:
        """Return every topic with the number of its partitions; those of the cluster itself left out."""
        found = self._call("list the topics", lambda: self._client.list_topics(timeout=self._request_seconds))
        return {
            name: len(topic.partitions) for name, topic in sorted(found.topics.items()) if not name.startswith("__")
        }

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic; raise ``TopicError`` if one is missing."""
        return {name: found.partitions for name, found in self.describe(topics).items()}

    def describe(self, topics: Iterable[str]) -> dict[str, TopicDescription]:
        """Return what the cluster tells of each topic; raise ``TopicError`` if one is missing."""
        return {name: self._described(name, future) for name, future in self._describe(topics).items()}

    def brokers(self) -> int:
        """Return how many brokers the cluster has now."""
        return len(self.cluster()[1])

    def ensure_topics(self, specs: Iterable[TopicSpec]) -> list[str]:
        """Create the topics that are missing, check those that exist; return the names of the new ones."""
        wanted = {spec.name: spec for spec in specs}
        if not wanted:
            return []
        created = self._call(f"create {', '.join(wanted)}", partial(self._create, list(wanted.values())))
        for name in wanted.keys() - set(created):
            check_partitions(wanted[name], self.partitions([name])[name])
            check_configs(wanted[name], self.configs(name))
        for name in created:  # the news takes a moment to reach every broker
            self._call(f"see the new topic {name!r}", partial(self._present, name))
        return created

    def configs(self, topic: str, *, own: bool = False) -> dict[str, str]:
        """Return the settings of a topic, defaults too; ``own``: only those that were set for this topic."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = self._ask(f"read the settings of topic {topic!r}", lambda: self._client.describe_configs([resource]))
        return {
            name: entry.value or ""
            for name, entry in sorted(found[resource].items())
            if not own or entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }

    def alter_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        """Change settings of a topic; the others stay."""
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        self._ask(f"change settings of topic {topic!r}", lambda: self._client.incremental_alter_configs([resource]))

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Delete the records below these offsets; those that are gone already are no error."""
        if not offsets:
            return
        positions = [Position(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        said = ", ".join(sorted({topic for topic, _ in offsets}))
        self._ask(f"delete records of {said}", lambda: self._client.delete_records(positions))

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics; one that does not exist is no error. Returns when they are gone."""
        names = list(names)
        if not names:
            return
        said = ", ".join(names)
        self._call(f"delete {said}", partial(self._delete, names))
        self._call(f"see that {said} are gone", partial(self._gone, set(names)))

    def earliest_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where each partition begins."""
        return self._offsets("find the beginning of", dict.fromkeys(partitions, OffsetSpec.earliest()))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return where each partition ends, open transactions counted."""
        wanted = dict.fromkeys(partitions, OffsetSpec.latest())
        return self._offsets("find the end of", wanted, IsolationLevel.READ_UNCOMMITTED)

    def stable_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the last stable offset of each partition: no transaction is open below it."""
        return self._offsets("find the stable end of", dict.fromkeys(partitions, OffsetSpec.latest()))

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset whose timestamp is at least the given one, None where there is none."""
        wanted = {place: OffsetSpec.for_timestamp(time) for place, time in times.items()}
        found = self._offsets("find a time in", wanted)
        return {place: None if offset < 0 else offset for place, offset in found.items()}

    def committed(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Offsets:
        """Return the offsets that a group has committed, of these partitions or of all; see the contract for open ones."""
        doing = f"read the offsets of group {group!r}"
        if partitions is None:
            return self._call(doing, partial(self._all_committed, group))
        places = list(partitions)
        if not places:
            return {}
        return self._call(doing, lambda: self._groups.committed(group, places, self._request_seconds))

    def _all_committed(self, group: str) -> Offsets:
        client = self._client_of_coordinator(group)
        query = ConsumerGroupTopicPartitions(group, None)
        asked = client.list_consumer_group_offsets([query], require_stable=True, request_timeout=LONG_SECONDS)
        found = asked[group].result().topic_partitions or []
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def delete_group(self, group: str) -> None:
        """Forget a group and its offsets; one that does not exist is no error."""

        def delete() -> None:
            client = self._client_of_coordinator(group)
            asked = client.delete_consumer_groups([group], request_timeout=LONG_SECONDS)
            _unless({KafkaError.GROUP_ID_NOT_FOUND}, asked[group])

        self._call(f"delete group {group!r}", delete)

    def close(self) -> None:
        """Close the connections."""
        self._groups.close()
        self._client.poll(0)

    def _create(self, specs: Iterable[TopicSpec]) -> list[str]:
        """Create topics; return the names of those that did not exist."""
        new = [NewTopic(spec.name, spec.partitions, spec.replication, config=dict(spec.configs)) for spec in specs]
        asked = self._client.create_topics(new, request_timeout=self._request_seconds)
        return [name for name, future in asked.items() if _unless({KafkaError.TOPIC_ALREADY_EXISTS}, future)]

    def _delete(self, names: list[str]) -> None:
        for future in self._client.delete_topics(names, request_timeout=self._request_seconds).values():
            _unless({KafkaError.UNKNOWN_TOPIC_OR_PART}, future)

    def _describe(self, topics: Iterable[str]) -> dict[str, Future[Any]]:
        names = list(topics)
        if not names:
            return {}
        return dict(self._client.describe_topics(TopicCollection(names), request_timeout=self._request_seconds))

    def _described(self, name: str, future: Future[Any]) -> TopicDescription:
        try:
            return _description(future.result())
        except KafkaException as exception:
            error = broker_error(kafka_error(exception), f"find topic {name!r}")
            if not error.retriable:
                raise error from exception
        doing = f"find topic {name!r}"
        return self._call(doing, lambda: _description(self._describe([name])[name].result()))

    def _present(self, name: str) -> None:
        """Raise a passing error while a new topic is not known everywhere, or has a partition without a leader."""
        try:
            parts = self._describe([name])[name].result().partitions
        except KafkaException as exception:
            if kafka_error(exception).code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            parts = []
        if not parts or any(part.leader is None for part in parts):
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "not known to all brokers yet"))

    def _gone(self, names: set[str]) -> None:
        if left := names & self.topics().keys():
            raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT, f"{', '.join(sorted(left))} still there"))

    def _offsets(
        self,
        doing: str,
        wanted: Mapping[TopicPartition, Any],
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> Offsets:
        if not wanted:
            return {}
        query = {Position(topic, partition): spec for (topic, partition), spec in wanted.items()}
        names = ", ".join(sorted({topic for topic, _ in wanted}))

        def ask() -> dict[TopicPartition, int]:
            asked = self._client.list_offsets(query, isolation_level=isolation, request_timeout=self._request_seconds)
            try:
                found = {(place.topic, place.partition): future.result().offset for place, future in asked.items()}
            except KafkaException as exception:
                if kafka_error(exception).code() == KafkaError._NOENT:
                    self._explain_no_leaders(wanted)
                raise
            if OFFSET_INVALID in found.values():  # without an error: the leader that the client knew of is gone
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            return found

        return self._call(f"{doing} {names}", ask)

    def _explain_no_leaders(self, places: Iterable[TopicPartition]) -> None:
        """Raise what "no leaders found" means, which the client says if it found none at all: not there, or not yet."""
        counts = self.partitions({topic for topic, _ in places})
        if any(partition >= counts[topic] for topic, partition in places):
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))

    def _ask(self, doing: str, request: Callable[[], Mapping[Any, Future[T]]]) -> dict[Any, T]:
        """Send a request and wait for all parts of its answer."""
        return self._call(doing, lambda: {key: future.result() for key, future in request().items()})

    def _client_of_coordinator(self, group: str) -> AdminClient:
        """Return a client for one request to the coordinator of a group, which must not time out (see ``Groups``).

        So the coordinator has answered a moment ago, and the client does not remember where it was earlier.
        """
        self._groups.find_coordinator(group, self._request_seconds)
        return made(AdminClient, self._connection.settings("admin"))

    def _refresh(self) -> None:
        """Ask who leads which partition: the client itself goes on with what it knew before a broker came back."""
        with contextlib.suppress(KafkaException):  # nobody answers yet: the next attempt will tell
            self._client.list_topics(timeout=1.0)

    def _call(self, doing: str, call: Callable[[], T]) -> T:
        """Run a call, again after a pause if it fails for a passing reason."""
        now_ms = SystemClock().now_ms
        began, pause = now_ms(), SHORTEST_PAUSE
        while True:
            try:
                return call()
            except KafkaException as exception:
                error = broker_error(kafka_error(exception), doing)
                if not error.retriable or self._deadline.is_over((now_ms() - began) / 1000):
                    raise error from exception
            self._client.poll(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            self._refresh()


def _description(found: Any) -> TopicDescription:
    """Return what the client tells of a topic. Brokers before 2.8 know no ids of topics, and tell zero."""
    number = found.topic_id
    known = number is not None and (number.get_most_significant_bits() or number.get_least_significant_bits())
    replication = min((len(part.replicas) for part in found.partitions), default=0)
    return TopicDescription(len(found.partitions), str(number) if known else "", replication)


def _unless(fine: set[int], future: Future[Any]) -> bool:
    """Wait for an answer; tell whether something was done: an error of a code in ``fine`` says that nothing was to do."""
    try:
        future.result()
    except KafkaException as exception:
        if kafka_error(exception).code() not in fine:
            raise
        return False
    return True
