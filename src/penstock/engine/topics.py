"""The topics that an application needs before it runs: its own are made and checked, those it writes to are found or made."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.log.base import Log, TopicSpec
from penstock.log.topics import changelog_name, changelog_topic, epochs_name, epochs_topic
from penstock.state.spec import StoreKind, StoreSpec
from penstock.topology.node import SinkNode
from penstock.topology.topology import Topology

logger = logging.getLogger("penstock.engine")

#: stores whose rows end by time
WINDOWED = (StoreKind.WINDOW, StoreKind.SESSION)


def changelog_specs(topology: Topology, application_id: str, shards: int, replication: int) -> list[TopicSpec]:
    """Return the specification of every changelog."""
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


def own_topics(topology: Topology, application_id: str) -> list[str]:
    """Return the names of the topics that the application has for itself."""
    return [*(changelog_name(application_id, store) for store in logged_stores(topology)), epochs_name(application_id)]


def warn_of_one_copy(log: Log, topics: Iterable[str]) -> None:
    """Warn of topics that lose committed records with one broker, though the cluster has several: exactly once is not more than that."""
    names = sorted(topics)
    if log.admin.brokers() < 2:
        return
    single = [name for name, found in log.admin.describe(names).items() if found.replication < 2]
    unsure = [n for n in names if n not in single and int(log.admin.configs(n)["min.insync.replicas"]) < 2]
    if not single and not unsure:
        return
    said = [f"{', '.join(single)}: one replica"] * bool(single) + [
        f"{', '.join(unsure)}: min.insync.replicas is 1"
    ] * bool(unsure)
    logger.warning(
        "processing_guarantee is exactly_once, but records that are committed are lost with one broker: %s. Give new topics more replicas "
        "(replication_factor=3 for those of the application; kafka-reassign-partitions for topics that exist), and let two confirm each "
        "write: `penstock topics alter TOPIC --config min.insync.replicas=2`",
        "; ".join(said),
    )


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
