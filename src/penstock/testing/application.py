"""The application that a test drives, without what runs it: its plan, its topics by name, its shards, what it has counted and written.

Both ways of running it share this: ``testing.open_epochs``, the lanes themselves, and ``testing.record_by_record``, Kafka's driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.clock import Clock
from penstock.errors import StoreError, TopologyError, nearest
from penstock.lane.global_tables import GlobalTables
from penstock.lane.source import Raw
from penstock.log.partitioner import partition_for
from penstock.plan.passes import make_plan
from penstock.processor.node_meter import NodeMeter
from penstock.processor.resources import Resources
from penstock.protocol.request import ShardRequest, Stage
from penstock.protocol.timing import Timing
from penstock.record import Headers
from penstock.serde import Serde
from penstock.serde.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.state.base import Sealed, ShardState
from penstock.state.lmdb_store import LmdbState
from penstock.state.memory import MemoryState
from penstock.state.spec import StoreSpec
from penstock.testing.topics import ProducedRecord
from penstock.topology.defaults import bound_topology
from penstock.topology.functions import check_dead_letters
from penstock.topology.node import SinkNode
from penstock.topology.topology import Topology


class TestedApplication:
    """A compiled topology with sixteen shards, or as many as it was given, in this process."""

    __test__ = False  # pytest would take it for a class of tests

    def __init__(self, topology: Topology, config: Mapping[str, Any], clock: Clock, partitions: int) -> None:
        check_dead_letters(topology, config)
        self.config = config
        self.clock = clock
        self.id: str = config["application_id"]
        plan = make_plan(bound_topology(topology, self.id, config))
        self.stage = Stage(plan, self.id, config, config["shards"], config["lanes"], "", "")
        self.plan = plan
        self.topology = plan.topology
        self.timing = Timing(self.topology, idle_ms=config["idle_ms"])
        self._partitions = partitions
        self._partitioned = {topic for name in plan.by_partition for topic in self.stage.sources[name].topics}
        self._source_of: dict[str, str] = {}
        self.states = [self._new_state(shard) for shard in range(self.stage.shards)]
        #: no shard waits for writes: each is at the last barrier
        self.no_requests = tuple(ShardRequest() for _ in self.states)
        #: what user code has made for as long as this process runs
        self.resources = Resources()
        self.meter = NodeMeter()
        #: (node, reason) → records dropped, but for those of tasks that are open
        self.dropped: Counter[tuple[str, str]] = Counter()
        self.globals = GlobalTables(self.topology, self._new_state("global"), self.shared(), clock)
        #: topic → what was written to it, internal ones under their full names
        self.output: dict[str, list[ProducedRecord]] = {}
        self.offsets: dict[tuple[str, int], int] = {}
        #: number of the last barrier
        self.epoch = 0

    def shared(self) -> dict[str, Any]:
        """Return what all tasks are given."""
        return {
            "application_id": self.id,
            "config": self.config,
            "clock": self.clock,
            "partitions": self.partitions_of,
            "feeds": self.stage.feeds,
            "resources": self.resources,
        }

    def _new_state(self, shard: int | str) -> ShardState:
        folder = self.config["state_dir"]
        return MemoryState() if folder is None else LmdbState(Path(folder) / f"shard-{shard}")

    def close(self) -> None:
        """Let go of the state; a folder of state is deleted, as by Kafka's driver."""
        try:
            self.resources.close()
        finally:
            for state in (*self.states, self.globals.state):
                state.destroy()

    # ---- topics

    def full_name(self, topic: str) -> str:
        """Return a repartition topic's name with the application's prefix."""
        return f"{self.id}-{topic}"

    def source_of(self, topic: str) -> str | None:
        """Return the source node that reads a topic (internal ones by their full name), or None."""
        if topic not in self._source_of:
            sources = self.stage.sources.items()
            found = next((name for name, node in sources if self._reads(name, topic)), None)
            if found is None:
                return None
            self._source_of[topic] = found
        return self._source_of[topic]

    def _reads(self, source: str, topic: str) -> bool:
        node = self.stage.sources[source]
        return topic in map(self.full_name, node.topics) if node.internal else node.reads(topic)

    def sources_of(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the sources of those topics that have one."""
        return {topic: source for topic in topics if (source := self.source_of(topic)) is not None}

    def is_input(self, topic: str) -> bool:
        """Whether records of a topic are input of the application."""
        source = self.source_of(topic)
        return topic in self.globals.topics or (source is not None and not self.stage.sources[source].internal)

    def check_topic(self, topic: str) -> None:
        """Raise unless some source or global table reads the topic."""
        known = [t for node in self.stage.sources.values() if not node.internal for t in node.topics]
        known += self.globals.topics
        if self.source_of(topic) is None and topic not in self.globals.topics:
            raise TopologyError(
                f"no source reads the topic {topic!r}{nearest(topic, known)}; the topology reads {known}"
            )

    def partitions_of(self, topic: str) -> int:
        """Return how many partitions a topic has; a repartition topic (by its plain name) may ask for its own number.

        One with a partitioner has a partition for each shard otherwise, as in production.
        """
        internal = self.topology.internal_topics.get(topic)
        if internal is not None and internal.partitions is not None:
            return internal.partitions
        return self.stage.shards if topic in self._partitioned else self._partitions

    def serdes_of(self, topic: str) -> tuple[Serde[Any], Serde[Any]]:
        """Return the serdes a topic is written with, if its sinks agree, else the default ones.

        A topic that no sink names is written by those that name theirs record by record.
        """
        sinks = [node for node in self.topology.nodes.values() if isinstance(node, SinkNode) and not node.internal]
        written = [sink for sink in sinks if sink.topic == topic]
        if not written and topic != self.config["dead_letter_topic"]:
            written = [sink for sink in sinks if sink.topic is None]
        serdes = {(sink.key, sink.value) for sink in written}
        return serdes.pop() if len(serdes) == 1 else (DEFAULT_KEY, DEFAULT_VALUE)

    # ---- what is written

    def numbered(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers
    ) -> Raw:
        """Return a record as it is in its topic, with the next offset."""
        offset = self.offsets.get((topic, partition), 0)
        self.offsets[topic, partition] = offset + 1
        return Raw(topic, partition, offset, key, value, timestamp, headers)

    def write(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers,
    ) -> Raw:
        """Write a record of a sink to its topic, as part of the epoch that is under way; return it as it is there."""
        if self.config["epoch_header"] is not None:
            headers = (*headers, (self.config["epoch_header"], str(self.epoch + 1).encode()))
        if partition is None:
            partition = 0 if key is None else partition_for(key, self.partitions_of(topic))
        self.show(topic, key, value, timestamp, headers, partition)
        return self.numbered(topic, partition, key, value, timestamp, headers)

    def write_changelogs(self, shard: int, sealed: Mapping[str, Sealed]) -> None:
        """Write what a shard has sealed to the changelogs of its stores, whose partition is the shard."""
        for store, writes in sealed.items():
            spec = self.topology.stores[store]
            for row in writes.changelog if spec.logged and spec.source_topic is None else ():
                self.show(self.full_name(f"{store}-changelog"), *row, shard)

    def show(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers, partition: int
    ) -> None:
        """Let a test see a record of a topic."""
        self.output.setdefault(topic, []).append(ProducedRecord(key, value, timestamp, headers, partition))

    # ---- stores

    def spec(self, name: str) -> StoreSpec:
        """Return a store that some node uses, or a global one; raise ``StoreError`` for any other."""
        stores = self.topology.stores
        if name not in stores:
            raise StoreError(
                f"there is no store {name!r}{nearest(name, list(stores))}; the topology has {list(stores)}"
            )
        if name not in self.topology.global_stores and not any(name in step.stores for step in self.plan.steps):
            raise StoreError(f"no node uses the store {name!r}, so nothing is kept in it: connect it to a processor")
        return stores[name]
