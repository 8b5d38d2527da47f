"""All shards of a topology in one process: routing, reading, barriers. The test driver is a face of this."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from penstock.clock import Clock
from penstock.errors import DeserializationError, TopologyError, nearest
from penstock.lane.async_calls import CallPool
from penstock.lane.global_tables import GlobalTables
from penstock.lane.sink import Row
from penstock.lane.source import Raw, SourceReader
from penstock.lane.task import Task
from penstock.lane.timeline import NO_MOVES, Timelines, find_moves
from penstock.plan.passes import make_plan
from penstock.processor.node_meter import NodeMeter
from penstock.processor.resources import Resources
from penstock.protocol.raw_rows import PARTITIONS
from penstock.protocol.timing import ObservedTimes, Place, TimeUpdate, Timing, feeds_of, is_due
from penstock.record import Headers, Origin
from penstock.serde import Serde
from penstock.serde.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.state.base import Sealed, ShardState
from penstock.state.cache import budget_of_shard
from penstock.state.memory import MemoryState
from penstock.state.shards import lane_of, shard_of
from penstock.topology.defaults import bound_topology
from penstock.topology.functions import check_dead_letters
from penstock.topology.node import SinkNode, SourceNode
from penstock.topology.topology import Topology


class Decoded(NamedTuple):
    """A record ready to be processed: where it goes and what it is."""

    source: str
    shard: int
    key: Any
    value: Any
    timestamp: int
    headers: Headers
    origin: Origin


class ChangelogRow(NamedTuple):
    """A row of a store's changelog: the partition is the shard."""

    store: str
    shard: int
    key: bytes
    value: bytes | None
    timestamp: int
    headers: Headers


class InProcessExecutor:
    """The tasks of every shard, run one after the other in this process.

    Invariant: what a shard computes depends only on the records of that shard and their order, never on the number of lanes.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        application_id: str,
        config: Mapping[str, Any],
        clock: Clock,
        shards: int = 1,
        lanes: int = 1,
        partitions: int = 1,
        state: Callable[[int | str], ShardState] = lambda shard: MemoryState(),
        keep_processors: bool = False,
    ) -> None:
        self.config = config
        self.shards = shards
        self.lanes = lanes
        self.application_id = application_id
        self._partitions = partitions
        check_dead_letters(topology, config)
        plan = make_plan(bound_topology(topology, application_id, config))
        self.topology = topology = plan.topology
        self.levels = plan.level_of
        self.subtopology_of = plan.subtopology_of
        self._one_shard = plan.one_shard
        self._staying = plan.staying
        self.carried, self.returning = plan.carried, plan.returning
        self._by_partition = plan.by_partition
        self._scopes = plan.scopes
        self._follows = plan.follows
        self.sources = {name: node for name, node in topology.nodes.items() if isinstance(node, SourceNode)}
        self._partitioned = {topic for name in plan.by_partition for topic in self.sources[name].topics}
        self._source_of_topic: dict[str, str] = {}
        self._readers = {name: SourceReader(node, clock) for name, node in self.sources.items()}
        self._reached: dict[tuple[str, int], int] = {}
        self._clock = clock
        self._timing = Timing(topology, idle_ms=config["idle_ms"])
        self._steps = {step.level: step for step in plan.steps}
        self._time_update = TimeUpdate()
        self._moves: list[tuple[Place, int, int, int]] = []
        self._made_times: Timelines | None = None
        self._started: set[tuple[int, int]] = set()
        self._marks: dict[Place, int] = {}
        self._new: set[Place] = set()
        self._observed = ObservedTimes()
        self._ahead: dict[tuple[str, int], int] = {}
        self.dropped: dict[tuple[str, str], int] = {}
        self._keep_processors = keep_processors
        self.meter = NodeMeter()
        #: what user code has made for as long as this process runs
        self.resources = Resources()
        self._shared: dict[str, Any] = {
            "application_id": application_id,
            "config": config,
            "clock": clock,
            "partitions": self.partitions_of,
            "feeds": feeds_of(topology),
            "resources": self.resources,
        }
        self.globals = GlobalTables(topology, state("global"), self._shared, clock)
        self._calls = CallPool()
        #: shards whose task has done something since the last barrier
        self._ran: set[int] = set()
        #: shard → snapshot of its task, which was closed at a barrier: a new one takes its place when there is work for it
        self._snapshots: dict[int, dict[str, Any]] = {}
        self.tasks = [self._open(shard, state(shard)) for shard in range(shards)]
        self._in_order = sorted(range(shards), key=lambda shard: (lane_of(shard, lanes), shard))
        self.view_of: Callable[[str], Any] = lambda name: self.tasks[0].stores[name]

    # tasks

    def _open(self, shard: int, state: ShardState) -> Task:
        return Task(
            self.topology,
            shard,
            state,
            global_stores=self.globals.stores,
            views=self.view,
            calls=partial(self._calls.caller, lane_of(shard, self.lanes)),
            for_one_epoch=not self._keep_processors,
            shards=self.shards,
            scopes=self._scopes,
            follows=self._follows,
            cache_bytes=budget_of_shard(self.config["cache_max_bytes"], self.shards),
            meter=self.meter,
            **self._shared,
        )

    def touch(self, shard: int) -> Task:
        """Return the task of a shard for work in this epoch: a new one, if it had worked in an epoch before.

        As in production: a task, and with it the user's processors, lives for one epoch.
        """
        task = self.tasks[shard]
        snapshot = self._snapshots.pop(shard, None)
        if snapshot is not None:
            old, task = task, self._open(shard, task.state)
            self.tasks[shard] = task
            task.resume(snapshot)
            task.outputs += old.outputs
            task.dropped = dict(Counter(old.dropped) + Counter(task.dropped))
        self._ran.add(shard)
        return task

    def view(self, name: str) -> Any:
        """Return a read-only view of a store over all shards."""
        return self.view_of(name)

    def partitions_of(self, topic: str) -> int:
        """Return how many partitions a topic has; a repartition topic (by its plain name) may ask for its own number.

        One with a partitioner has a partition for each shard otherwise, as in production.
        """
        internal = self.topology.internal_topics.get(topic)
        if internal is not None and internal.partitions is not None:
            return internal.partitions
        return self.shards if topic in self._partitioned else self._partitions

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

    # reading

    def full_name(self, topic: str) -> str:
        """Return a repartition topic's name with the application's prefix."""
        return f"{self.application_id}-{topic}"

    def source_of(self, topic: str) -> str | None:
        """Return the source node that reads a topic (internal ones by their full name), or None."""
        if topic not in self._source_of_topic:
            found = next((name for name, node in self.sources.items() if self._reads(node, topic)), None)
            if found is None:
                return None
            self._source_of_topic[topic] = found
        return self._source_of_topic[topic]

    def _reads(self, node: SourceNode, topic: str) -> bool:
        names = [self.full_name(name) for name in node.topics] if node.internal else node.topics
        return topic in names or (node.pattern is not None and re.fullmatch(node.pattern, topic) is not None)

    def check_topic(self, topic: str) -> None:
        """Raise unless some source or global table reads the topic."""
        known = [t for node in self.sources.values() if not node.internal for t in node.topics]
        known += self.globals.topics
        if self.source_of(topic) is None and topic not in self.globals.topics:
            raise TopologyError(
                f"no source reads the topic {topic!r}{nearest(topic, known)}; the topology reads {known}"
            )

    def route(self, source: str, key: bytes | None, partition: int) -> int:
        """Return the shard of a record at a source."""
        return 0 if source in self._one_shard else shard_of(key, self.shards, partition)

    def reached(self, raw: Raw) -> int:
        """Return the greatest timestamp read so far from a record's topic-partition; −1 before the first."""
        return self._reached.get((raw.topic, raw.partition), -1)

    def read(self, source: str, raw: Raw, partition_time: int) -> Decoded | None:
        """Decode a record, give it its place in time; None if it was dropped (and counted)."""
        try:
            key, value, timestamp = self._readers[source].read(raw, partition_time)
        except DeserializationError as error:
            self.touch(0).errors.refuse_input(source, raw, error)
            return None
        if timestamp < 0:
            self.drop_at(source, "negative_timestamp")
            return None
        origin = raw.origin or self._origin(source, raw, key, value, timestamp)
        if source in self._one_shard:
            shard = 0
        elif source in self._staying:
            shard = raw.partition
        elif source in self._by_partition:
            shard = raw.partition % self.shards
        else:
            shard = self.route(source, raw.key, max(origin.partition_index, 0))
        return Decoded(source, shard, key, value, timestamp, raw.headers, origin)

    def _origin(self, source: str, raw: Raw, key: Any, value: Any, timestamp: int) -> Origin:
        place = (raw.topic, raw.partition)
        self._new.add(place)
        before = self._reached.get(place, -1)
        reached = self._reached[place] = max(before, timestamp)
        watermark, strategy = reached, self.sources[source].watermark
        if strategy is not None and strategy.function is not None:
            mark = self._readers[source].watermark(key, value, timestamp, raw)
            watermark = self._marks[place] = max(self._marks.get(place, -1), -1 if mark is None else mark)
        elif strategy is not None:
            watermark = max(reached - strategy.lag, 0)
        self._moves.append((place, raw.offset, reached, watermark))
        self._made_times = None
        return Origin(
            raw.topic, raw.partition, raw.offset, timestamp, raw.key, raw.value, raw.headers, raw.partition, reached
        )

    def drop_at(self, node: str, reason: str) -> None:
        """Count a dropped record."""
        self.dropped[node, reason] = self.dropped.get((node, reason), 0) + 1

    # running

    def process(self, record: Decoded) -> None:
        """Run one record in its shard, then the punctuators that its time makes due."""
        task = self.touch(record.shard)
        self._start(task, self.levels[record.source])
        task.process(record.source, record.key, record.value, record.timestamp, record.headers, record.origin)

    def punctuate_wall_clock(self) -> None:
        """Run the wall-clock punctuators that are due, shard by shard."""
        for task in self.tasks:
            due = task.punctuation.due
            if due is not None and due <= self._clock.now_ms():
                awake = self.touch(task.shard)
                awake.time.start(self._timelines(), nodes=())
                awake.punctuation.punctuate()

    # time

    def time_update(self, waiting: Container[Place] = ()) -> TimeUpdate:
        """Return what the tasks are told of time in an epoch that begins now; ``waiting``: partitions that it reads."""
        topics = {topic: source for topic, _ in self._observed.reached if (source := self.source_of(topic)) is not None}
        time_update = self._timing.time_update(self._observed, topics, waiting, self._clock.now_ms())
        self._ahead = {(group, index): time for group, index, time in time_update.ahead}
        return time_update

    def is_due(self, time_update: TimeUpdate) -> bool:
        """Whether an epoch without records would give something."""
        return any(is_due(time_update, {"due": task.time.due()}) for task in self.tasks)

    def begin(self, time_update: TimeUpdate) -> None:
        """Begin an epoch. Its records are to be read before the first one is run: they say how time goes on."""
        self._time_update, self._made_times = time_update, None
        self._started.clear()

    def catch_up(self) -> None:
        """Let the stores of all shards come to the time of the last barrier: whoever looks from outside sees what has expired."""
        self.begin(self.time_update())
        for task in self.tasks:
            task.time.start(self._timelines(), nodes=())
            task.time.reach_stores()

    def _timelines(self) -> Timelines:
        if self._made_times is None:
            topics = sorted({topic for topic, _ in self._reached})
            numbers = {topic: number for number, topic in enumerate(topics)}
            rows = sorted((numbers[t] * PARTITIONS + p, offset, *rest) for (t, p), offset, *rest in self._moves)
            columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
            source_of = {topic: source for topic in topics if (source := self.source_of(topic)) is not None}
            moves = find_moves(*columns) if rows else NO_MOVES
            self._made_times = Timelines(moves, topics, source_of, self._time_update.feeds, self._reached)
        return self._made_times

    def _start(self, task: Task, level: int) -> None:
        if (level, task.shard) not in self._started:
            self._started.add((level, task.shard))
            task.time.start(self._timelines(), self._steps[level].nodes)
            task.begin()

    def finish_step(self, level: int | None = None) -> None:
        """Bring the tasks to the time at the end of the epoch, and let them give out what is due: the nodes of a level, or of all."""
        for step in self._steps.values() if level is None else [self._steps[level]] if level in self._steps else []:
            for shard in range(self.shards):
                if (step.level, shard) in self._started:
                    self.tasks[shard].finish()
                elif self.tasks[shard].time.is_due(self._timelines(), step.nodes):
                    task = self.touch(shard)
                    self._start(task, step.level)
                    task.finish()

    def flush(self) -> None:
        """Let every cached store forward what changed, and all calls be answered."""
        try:
            for shard in sorted(self._ran):
                self.tasks[shard].flush()
        except BaseException:
            self._calls.give_up()
            raise

    def take_rows(self) -> list[Row]:
        """Return the rows that left the tasks since the last call, lane by lane."""
        rows: list[Row] = []
        for task in (self.tasks[shard] for shard in self._in_order):
            rows += task.take_rows()  # records go one by one here
        return rows + self.globals.take_dead_letters()

    def end_time(self) -> None:
        """Keep how far time has come: it begins there in the next epoch."""
        self._moves, self._made_times = [], None
        arrived = {**self._observed.arrived, **dict.fromkeys(self._new, self._clock.now_ms())}
        self._new.clear()
        self._observed = ObservedTimes(
            dict(self._reached), dict(self._marks), arrived, {**self._observed.ahead, **self._ahead}
        )

    def commit(self) -> Iterator[ChangelogRow]:
        """Seal what every shard has written, write it to the state, and yield its changelog rows."""
        started = {shard for _, shard in self._started}
        for shard in sorted(self._ran | started):
            task = self.tasks[shard]
            sealed = task.seal()
            for name, writes in sealed.items():
                spec = self.topology.stores[name]
                if spec.logged and spec.source_topic is None:
                    for key, value, timestamp, headers in writes.changelog:
                        yield ChangelogRow(name, task.shard, key, value, timestamp, headers)
            self._end_epoch(task, sealed)
        self._ran.clear()

    def _end_epoch(self, task: Task, sealed: Mapping[str, Sealed]) -> None:
        """Write what a task has sealed; then it ends, and the user's processors with it, unless there are none or they are to be kept."""
        snapshot = None
        if task.init_calls and not self._keep_processors and (task.shard in self._ran or task.shard in self._snapshots):
            snapshot = task.snapshot()
        task.apply(sealed)
        task.commit_requested = False
        if snapshot is not None:
            self._snapshots[task.shard] = snapshot
            self._started -= {(level, task.shard) for level in self._steps}
            task.close()

    def all_dropped(self) -> dict[tuple[str, str], int]:
        """Return the dropped records by (node, reason)."""
        total = dict(self.dropped)
        for task in [*self.tasks, *self.globals.tasks]:
            for counter, count in task.dropped.items():
                total[counter] = total.get(counter, 0) + count
        return total

    def close(self) -> None:
        """Close the user's processors; end the calls."""
        self._calls.close()
        try:
            for task in [*self.tasks, *self.globals.tasks]:
                task.close()
        finally:
            self.resources.close()
