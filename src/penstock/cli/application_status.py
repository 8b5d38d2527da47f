"""Where an application stands, seen from outside: from its epoch record, its group's offsets and its topics. No Spark.

Whether a process runs cannot be seen: an application is no member of its group, and one without input commits nothing. What
can be seen is its last barrier, how old it is, and whether a transaction is open.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from penstock.clock import Clock
from penstock.engine.record import EpochRecord, read_last
from penstock.errors import TopicError
from penstock.log.base import Admin, Log, Offsets, TopicPartition
from penstock.log.topics import changelog_name, epochs_name


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition of the input. ``position`` None: nothing of it was read yet."""

    topic: str
    partition: int
    position: int | None
    stable: int
    end: int
    lag: int


@dataclass(frozen=True, slots=True)
class Changelog:
    """The changelog of a store: how many offsets it takes up in all its partitions."""

    store: str
    topic: str
    partitions: int
    offsets: int


@dataclass(frozen=True, slots=True)
class ApplicationStatus:
    """An application at its last barrier. ``epoch`` 0: it has committed nothing yet."""

    application_id: str
    epoch: int
    committed_at: int | None
    age_ms: int | None
    shards: int | None
    lanes: int | None
    fingerprint: str
    transaction_open: bool
    places: list[PartitionStatus]
    changelogs: list[Changelog]
    #: where the time of the epoch before went, in microseconds
    profile: dict[str, int]

    @property
    def lag(self) -> int:
        """How many offsets wait."""
        return sum(place.lag for place in self.places)

    def data(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return asdict(self) | {"lag": self.lag}


def look(log: Log, application_id: str, clock: Clock) -> ApplicationStatus:
    """Find out where an application stands; raise ``TopicError`` if the cluster knows nothing of it."""
    topics = log.admin.topics()
    record = read_last(log, application_id) if epochs_name(application_id) in topics else None
    group = log.admin.committed(application_id)
    if record is None and not group and epochs_name(application_id) not in topics:
        raise TopicError(
            f"this cluster knows no application {application_id!r}: it has no topic {epochs_name(application_id)} and no group "
            "of that name. Check the name and the cluster (--bootstrap-servers)"
        )
    changelogs = _changelogs(log.admin, topics, application_id, record)
    return ApplicationStatus(
        application_id=application_id,
        epoch=record.epoch if record else 0,
        committed_at=record.committed_at if record else None,
        age_ms=max(0, clock.now_ms() - record.committed_at) if record else None,
        shards=record.shards if record else None,
        lanes=record.lanes if record else None,
        fingerprint=record.fingerprint if record else "",
        transaction_open=_open(log.admin, topics, [epochs_name(application_id), *(each.topic for each in changelogs)]),
        places=_places(log.admin, topics, record, group),
        changelogs=changelogs,
        profile=record.profile if record else {},
    )


def _places(admin: Admin, topics: dict[str, int], record: EpochRecord | None, group: Offsets) -> list[PartitionStatus]:
    """Return all partitions of the topics that were read; of a partition that is new, everything waits."""
    read = {topic for topic, _ in [*group, *(record.positions if record else ())] if topic in topics}
    places = _partitions(topics, read)
    if not places:
        return []
    begins, stable, ends = admin.earliest_offsets(places), admin.stable_offsets(places), admin.end_offsets(places)
    return [
        PartitionStatus(
            *place,
            position=group.get(place),
            stable=stable[place],
            end=ends[place],
            lag=max(0, stable[place] - max(begins[place], group.get(place, 0))),
        )
        for place in places
    ]


def _changelogs(
    admin: Admin, topics: dict[str, int], application_id: str, record: EpochRecord | None
) -> list[Changelog]:
    names = {changelog_name(application_id, store): store for store in (record.changelogs if record else ())}
    places = _partitions(topics, set(names) & topics.keys())
    if not places:
        return []
    begins, ends = admin.earliest_offsets(places), admin.end_offsets(places)
    return [
        Changelog(names[topic], topic, topics[topic], sum(ends[p] - begins[p] for p in places if p[0] == topic))
        for topic in sorted({topic for topic, _ in places})
    ]


def _open(admin: Admin, topics: dict[str, int], own: list[str]) -> bool:
    """Return whether a transaction is open in the application's own topics."""
    places = _partitions(topics, set(own) & topics.keys())
    if not places:
        return False
    stable = admin.stable_offsets(places)
    ends = admin.end_offsets(places)
    return any(stable[place] < ends[place] for place in places)


def _partitions(topics: dict[str, int], names: set[str]) -> list[TopicPartition]:
    return [(topic, number) for topic in sorted(names) for number in range(topics[topic])]
