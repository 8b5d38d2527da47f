"""The topics that an application needs before it runs: its own are made and checked, those it writes to are found or made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.log.base import Log, TopicSpec
from penstock.log.topics import changelog_topic, epochs_topic
from penstock.state.spec import StoreKind, StoreSpec
from penstock.topology.node import SinkNode
from penstock.topology.topology import Topology

#: stores whose rows end by time
WINDOWED = (StoreKind.WINDOW, StoreKind.SESSION)


def changelog_specs(topology: Topology, application_id: str, shards: int, replication: int) -> list[TopicSpec]:
    """Say how the changelog of every store must be."""
    return [
        changelog_topic(
            application_id,
            name,
            shards=shards,
            windowed=spec.kind in WINDOWED,
            history_ms=spec.history,
            configs=spec.topic_config,
            replication=replication,
        )
        for name, spec in logged_stores(topology).items()
    ]


def logged_stores(topology: Topology) -> dict[str, StoreSpec]:
    """Return the stores that have a changelog of their own; one that no node uses has none."""
    used = {store for node in topology.nodes for store in topology.stores_of(node)}
    return {
        name: spec
        for name, spec in topology.stores.items()
        if spec.logged and spec.source_topic is None and name in used
    }


def ensure_own(log: Log, topology: Topology, application_id: str, shards: int, replication: int) -> list[str]:
    """Make the application's own topics, or check that they are as they must be; return the new ones."""
    specs = changelog_specs(topology, application_id, shards, replication)
    return log.admin.ensure_topics([*specs, epochs_topic(application_id, replication=replication)])


def ensure_sinks(log: Log, topology: Topology, config: Mapping[str, Any]) -> dict[str, int]:
    """Make the topics that are written to and do not exist, as the cluster makes topics; return all with their partitions."""
    named = {
        node.topic
        for node in topology.nodes.values()
        if isinstance(node, SinkNode) and not node.internal and node.topic is not None
    }
    if config["dead_letter_topic"] is not None:
        named.add(config["dead_letter_topic"])
    missing = sorted(named - log.admin.topics().keys())
    log.admin.ensure_topics([TopicSpec(name, replication=config["replication_factor"]) for name in missing])
    return log.admin.partitions(sorted(named))
