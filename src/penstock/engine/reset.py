"""Forget an application: its offsets, its own topics, its local state. Input and output topics stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.dev.cache import cache_root
from penstock.engine.record import read_last
from penstock.log.kafka import KafkaLog
from penstock.log.topics import changelog_name, epochs_name
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


def reset(topology: Topology | None, config: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, list[str]]:
    """Delete what the application keeps; return what was (or, ``dry_run``, would be) deleted."""
    application_id = config["application_id"]
    log = KafkaLog(config["bootstrap_servers"], config["kafka"])
    try:
        topics = own_topics(log, topology, application_id)
        folder = Path(config["state_dir"] or cache_root() / "state") / application_id
        found = {
            "topics": topics,
            "groups": [application_id] if log.admin.committed(application_id) else [],
            "folders": [str(folder)] if folder.exists() else [],
        }
        if not dry_run:
            log.producer(application_id).init()  # an instance that runs after all is fenced: it writes nothing any more
            log.admin.delete_topics(topics)
            log.admin.delete_group(application_id)
            remove_state(folder)
        return found
    finally:
        log.close()
