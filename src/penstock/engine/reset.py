"""Forget an application: its offsets, its own topics, its local state. Input and output topics stay."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.clock import SystemClock
from penstock.dev.cache import cache_root
from penstock.engine.record import PART_BYTES, EpochRecord, nested, read_last, rows_of
from penstock.engine.reset_point import ResetPoint
from penstock.engine.sources import find_topics, places_of
from penstock.errors import ConfigError
from penstock.log.base import Offsets, Producer, TopicPartition
from penstock.log.kafka import KafkaLog
from penstock.log.topics import changelog_name, epochs_name, epochs_topic
from penstock.protocol.state_folder import remove_state
from penstock.topology.topology import Topology


def own_topics(log: KafkaLog, topology: Topology | None, application_id: str) -> list[str]:
    """Return the names of the topics that an application has for itself and that exist.

    Its stores are those of its last epoch and of the topology, if one is given. A name that only looks like one of its own
    is not taken: ``shop-eu-counts-changelog`` may be of ``shop`` or of ``shop-eu``.
    """
    record = read_last(log, application_id)
    stores = {*(record.changelogs if record else ()), *(topology.stores if topology else ())}
    own = {epochs_name(application_id), *(changelog_name(application_id, store) for store in stores)}
    return sorted(own & log.admin.topics().keys())


def reset(
    topology: Topology | None, config: Mapping[str, Any], *, dry_run: bool = False, to: ResetPoint | None = None
) -> dict[str, list[str]]:
    """Delete what the application keeps; return what was (or, ``dry_run``, would be) deleted.

    ``to``: where the next start begins to read, told as ``offsets``. It is kept in the epochs topic, which stays then.
    """
    application_id = config["application_id"]
    log = KafkaLog(config["bootstrap_servers"], config["kafka"])
    try:
        topics = own_topics(log, topology, application_id)
        folder = state_folder(config)
        begin = None if to is None else to.positions(log.admin, _places(log, topology, application_id))
        if begin is not None:
            topics = [topic for topic in topics if topic != epochs_name(application_id)]
        found = {
            "topics": topics,
            "groups": [application_id] if log.admin.committed(application_id) else [],
            "folders": [str(folder)] if folder.exists() else [],
        }
        if begin is not None:
            found["offsets"] = [f"{topic}-{partition}: {at}" for (topic, partition), at in sorted(begin.items())]
        if not dry_run:
            producer = log.producer(application_id)
            producer.init()  # an instance that runs after all is fenced: it writes nothing any more
            log.admin.delete_topics(topics)
            log.admin.delete_group(application_id)
            remove_state(folder)
            if begin is not None:
                _begin_at(log, producer, config, begin)
        return found
    finally:
        log.close()


def clean_up(config: Mapping[str, Any], *, dry_run: bool = False) -> bool:
    """Delete the local state of an application on this machine alone; return whether there was (or is) any."""
    folder = state_folder(config)
    found = folder.exists()
    if found and not dry_run:
        remove_state(folder)
    return found


def state_folder(config: Mapping[str, Any]) -> Path:
    """Return where this machine keeps the state of an application."""
    return Path(config["state_dir"] or cache_root() / "state") / str(config["application_id"])


def _places(log: KafkaLog, topology: Topology | None, application_id: str) -> list[TopicPartition]:
    """Return the partitions that the application reads: those of its topology, or else of its last epoch."""
    if topology is not None:
        return places_of(find_topics(log.admin, topology, application_id).partitions)
    record = read_last(log, application_id)
    if record is None or not record.positions:
        raise ConfigError(f"which topics {application_id!r} reads is not known: give its program, module:app")
    return list(record.positions)


def _begin_at(log: KafkaLog, producer: Producer, config: Mapping[str, Any], begin: Offsets) -> None:
    """Write the record of an epoch 0, which nobody has run: the next start goes on from it."""
    application_id = config["application_id"]
    log.admin.ensure_topics([epochs_topic(application_id, replication=config["replication_factor"])])
    now = SystemClock().now_ms()
    record = EpochRecord(
        epoch=0,
        token="reset",
        application_id=application_id,
        shards=config["shards"],
        lanes=1,
        offsets=nested(begin),
        incarnation=uuid.uuid4().hex,
        committed_at=now,
    )
    producer.begin()
    producer.produce(rows_of(record, now, 2 * PART_BYTES))
    producer.commit()
