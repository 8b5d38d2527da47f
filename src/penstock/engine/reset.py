"""Forget an application: its offsets, its own topics, its local state. Input and output topics stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.dev.cache import cache_root
from penstock.lane.shards import remove_state
from penstock.log.kafka import KafkaLog
from penstock.log.topics import epochs_name
from penstock.topology.topology import Topology


def own_topics(log: KafkaLog, topology: Topology | None, application_id: str) -> list[str]:
    """Return the names of the topics that an application has for itself and that exist."""
    there = log.admin.topics()
    if topology is None:
        prefix = f"{application_id}-"
        changelogs = {t for t in there if t.startswith(prefix) and t.endswith("-changelog")}
    else:
        changelogs = {f"{application_id}-{store}-changelog" for store in topology.stores}
    return sorted((changelogs | {epochs_name(application_id)}) & there.keys())


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
            log.admin.delete_topics(topics)
            log.admin.delete_group(application_id)
            remove_state(folder)
        return found
    finally:
        log.close()
