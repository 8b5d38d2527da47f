"""A store at the last committed barrier, found in Kafka: which ranges of which topic hold its rows. Needs no running application.

The epoch record says where each changelog ended at the barrier, and what the stores are. A *split* is what is read as a whole::

    a changelog        one split per shard: one partition of the topic
    a source topic     the shards are spread over as many splits as the topic has partitions, and each reads all of these and keeps
                       its own keys: a key may be in several partitions, and its last row counts

Everything here is plain data: splits are sent to the tasks that read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.engine.record import EpochRecord, read_last
from penstock.engine.store_descriptions import StoreDescription, read_descriptions
from penstock.errors import RecoveryError, StoreError, nearest
from penstock.log.base import Log, Offsets, TopicPartition
from penstock.log.topics import changelog_name, epochs_name
from penstock.state.spec import StoreKind

#: kinds whose rows are a user's keys and values
READABLE = (
    StoreKind.KEY_VALUE,
    StoreKind.SHARED,
    StoreKind.LRU,
    StoreKind.WINDOW,
    StoreKind.SESSION,
    StoreKind.VERSIONED,
)


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads. ``number`` of ``count``; ``ranges``: (topic, partition, end), in the order in which rows count."""

    number: int
    count: int
    ranges: tuple[tuple[str, int, int], ...]

    @property
    def offsets(self) -> int:
        """How many offsets it has at most."""
        return sum(end for _, _, end in self.ranges)


@dataclass(frozen=True, slots=True)
class CommittedStore:
    """A store at a barrier."""

    application_id: str
    store: StoreDescription
    epoch: int
    shards: int
    splits: tuple[Split, ...]
    #: level → shard → what the store told of itself at the barrier: its time above all
    snapshots: Mapping[str, Mapping[str, Mapping[str, Any]]]
    #: input offsets of the barrier
    position: Offsets


def find_store(log: Log, application_id: str, name: str) -> CommittedStore:
    """Find a store at the last barrier; raise ``StoreError`` if it cannot be read from Kafka, with what to do instead."""
    record = find_record(log, application_id)
    store = _described(record, name)
    ranges = _ranges(log, record, store)
    return CommittedStore(
        application_id,
        store,
        record.epoch,
        record.shards,
        _splits(record, store, ranges),
        _snapshots(record, name),
        record.positions,
    )


def find_record(log: Log, application_id: str) -> EpochRecord:
    """Return the record of the last epoch; raise ``StoreError`` if there is none."""
    record = read_last(log, application_id)
    if record is None:
        raise StoreError(
            f"this cluster has no committed epoch of an application {application_id!r} (topic {epochs_name(application_id)}): check the "
            "name and the cluster, or start the application first"
        )
    return record


def descriptions(record: EpochRecord) -> dict[str, StoreDescription]:
    """Return the stores of an application by name; raise ``StoreError`` if its last epoch does not say."""
    found = read_descriptions(record)
    if found is None:
        raise StoreError(
            f"the last epoch of {record.application_id!r} was written by an earlier version of Penstock, which did not say what its "
            "stores are: start the application once with this version, and let it commit an epoch"
        )
    return found


def _described(record: EpochRecord, name: str) -> StoreDescription:
    known = descriptions(record)
    if name not in known:
        has = ", ".join(sorted(known)) or "none"
        raise StoreError(
            f"application {record.application_id!r} has no store {name!r}{nearest(name, known)}; it has: {has}"
        )
    store = known[name]
    if StoreKind(store.kind) not in READABLE:
        raise StoreError(
            f"store {name!r} is a {store.kind} store: it holds records that wait for their time, in a form of its own, and cannot be "
            f"read as a table. Read what leaves it, or one of: {', '.join(_readable(known)) or 'no other store'}"
        )
    if not store.used:
        raise StoreError(f"no node uses the store {name!r}, so nothing is kept in it: connect it to a processor")
    if store.everywhere == "processor":
        raise StoreError(
            f"the global store {name!r} is what a processor makes of topic {store.options['source_topic']!r}, and in no topic itself: "
            "read that topic, or ask the application while it runs: app.store, `penstock query --url`"
        )
    spec = store.spec()
    if not spec.logged and spec.source_topic is None:
        raise StoreError(
            f"store {name!r} has logged=False, so its rows are in no topic: give it logged=True, or ask the application while it runs: "
            "app.store, `penstock query --url`"
        )
    return store


def _readable(known: Mapping[str, StoreDescription]) -> list[str]:
    return sorted(name for name, store in known.items() if StoreKind(store.kind) in READABLE)


def _ranges(log: Log, record: EpochRecord, store: StoreDescription) -> dict[TopicPartition, int]:
    """Return the end of each partition that holds rows of the store."""
    source = store.options.get("source_topic")
    if source is None:
        topic = changelog_name(record.application_id, store.name)
        ends = {(topic, shard): end for shard, end in enumerate(record.changelogs.get(store.name, [0] * record.shards))}
    elif store.everywhere:  # no barrier holds it: a lane sees its topic as far as it goes
        partitions = log.admin.partitions([source])[source]
        return dict(log.admin.stable_offsets([(source, partition) for partition in range(partitions)]))
    else:
        ends = {place: end for place, end in sorted(record.positions.items()) if place[0] == source}
    _check(log, record, {place: end for place, end in ends.items() if end})
    return ends


def _check(log: Log, record: EpochRecord, ends: Mapping[TopicPartition, int]) -> None:
    """Refuse topics that are shorter than they were at the barrier: rows of them are missing."""
    for (topic, partition), found in log.admin.end_offsets(ends).items() if ends else ():
        end = ends[topic, partition]
        if found < end - bool(found):  # the marker of the last barrier may not be written yet
            raise RecoveryError(
                f"{topic}-{partition} ends at offset {found}, but at epoch {record.epoch} of {record.application_id!r} at {end}: it was "
                "deleted or made anew, or the cluster has lost rows of it. Restore the topic, or begin anew: `penstock reset`"
            )


def _splits(record: EpochRecord, store: StoreDescription, ends: Mapping[TopicPartition, int]) -> tuple[Split, ...]:
    ranges = [(topic, partition, end) for (topic, partition), end in ends.items()]
    if "source_topic" not in store.options:
        return tuple(Split(shard, record.shards, (each,)) for shard, each in enumerate(ranges))
    count = 1 if store.one_shard else max(1, min(record.shards, len(ranges)))
    return tuple(Split(number, count, tuple(ranges)) for number in range(count))


def _snapshots(record: EpochRecord, name: str) -> dict[str, dict[str, Any]]:
    levels = {
        level: {shard: shot["stores"][name] for shard, shot in shots.items() if name in shot.get("stores", {})}
        for level, shots in record.snapshots.items()
    }
    return {level: shots for level, shots in levels.items() if shots}
