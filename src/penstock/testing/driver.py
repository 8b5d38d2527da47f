"""TopologyTestDriver: run a topology record by record, with the same operators, stores and barriers as in production.

What it does by default is what production does: sixteen shards, a task (and the user's processors in it) for each epoch of a shard,
the same refusals, the same configuration. With one shard, one partition and ``keep_processors=True`` it equals Kafka's driver. Each record
is processed to its end, punctuators that its time makes due run, a barrier follows, and what went to internal topics is fed back,
smallest timestamp first, each with a barrier of its own.
``auto_commit=False`` holds the epoch open: records wait, and ``commit()`` runs them as one epoch, level by level, as the engine does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from penstock import config as settings
from penstock.clock import MockClock
from penstock.durations import millis
from penstock.engine.executor.in_process import Decoded, InProcessExecutor
from penstock.errors import ConfigError, StoreError, StreamsError, TopologyError, nearest
from penstock.lane.siblings import FIRST_ROW, Siblings
from penstock.lane.sink import Row
from penstock.lane.source import Raw
from penstock.lane.task_time import PUNCTUATED, RELEASED
from penstock.log.partitioner import partition_for
from penstock.protocol.failure import failed_dead_letter
from penstock.query.barriers import Position, position_of
from penstock.query.queries import Query
from penstock.query.result import QueryResult
from penstock.query.routing import KeyMetadata
from penstock.query.service import Queries
from penstock.query.snapshot import Snapshot
from penstock.record import Headers
from penstock.serde import Serde
from penstock.serde.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.serde.registry.serde import bound
from penstock.serde.registry.settings import registry_of
from penstock.setting_types import AllSettings
from penstock.state.base import ShardState
from penstock.state.lmdb_store import LmdbState
from penstock.state.memory import MemoryState
from penstock.state.merged import merged_view
from penstock.state.open import Standalone, open_store
from penstock.state.spec import StoreSpec
from penstock.strict import strict_options
from penstock.testing.contents import store_contents
from penstock.testing.queries import DriverQueries
from penstock.testing.queues import QueueHeap, RecordQueue
from penstock.testing.topics import InputTopic, OutputTopic, ProducedRecord
from penstock.testing.views import TestView
from penstock.topology.defaults import defaults_of
from penstock.topology.topology import Topology, built

if TYPE_CHECKING:
    from penstock.dsl.builder import StreamsBuilder


@strict_options
class TopologyTestDriver:
    """Drives a topology by hand. A context manager.

    >>> from penstock import Serdes, StreamsBuilder
    >>> builder = StreamsBuilder()
    >>> builder.stream("words", value=Serdes.string).map_values(str.upper).to("loud", value=Serdes.string)
    >>> with TopologyTestDriver(builder) as driver:
    ...     driver.input_topic("words", value=Serdes.string).pipe("k", "hello", timestamp=5)
    ...     driver.output_topic("loud", value=Serdes.string).read()
    Record(key='k', value='HELLO', timestamp=5, headers=())

    ``shards``, ``lanes`` and ``partitions`` spread the records as in production. ``start`` is the wall-clock time at first, in
    milliseconds. ``keep_processors``: processors live as long as the driver does, not for one epoch, and may ``schedule`` at any time.
    State is in memory; with ``config={"state_dir": folder}`` it is on disk, as in production, until the driver is closed.
    """

    def __init__(
        self,
        topology_or_builder: StreamsBuilder | Topology,
        *,
        config: AllSettings | Mapping[str, Any] | None = None,
        lanes: int = 1,
        shards: int = 16,
        partitions: int = 1,
        start: int = 0,
        keep_processors: bool = False,
        auto_commit: bool = True,
    ) -> None:
        given = {"lanes": _at_least_one(lanes, "lanes"), "shards": _at_least_one(shards, "shards")}
        self._config = settings.load({"application_id": "test-app", **given, **(config or {})}, environ={})
        topology = built(topology_or_builder, "the driver", self._config["optimize"])
        self._config["lanes"] = min(self._config["lanes"] or lanes, self._config["shards"])
        self._states: list[ShardState] = []
        self._closed = False
        self._clock = MockClock(start)
        self._partitions = _at_least_one(partitions, "partitions")
        self.auto_commit = auto_commit
        self._lanes = InProcessExecutor(
            topology,
            application_id=self._config["application_id"],
            config=self._config,
            clock=self._clock,
            shards=self._config["shards"],
            lanes=self._config["lanes"],
            partitions=partitions,
            state=self._open_state,
            keep_processors=keep_processors,
        )
        self._lanes.view_of = self._view
        self._views: dict[str, Any] = {}
        self._asked: DriverQueries | None = None
        self._queues: dict[tuple[str, int], RecordQueue] = {}
        self._heap = QueueHeap()
        self._waiting: list[Raw] = []
        self._offsets: dict[tuple[str, int], int] = {}
        self._output: dict[str, list[ProducedRecord]] = {}
        self._read: dict[str, int] = {}
        self._wall_clock_moved = False
        self._records_in = 0
        self._barriers = 0
        self._emitted = FIRST_ROW - 1  # number of the last row for a later step, in this epoch
        self._siblings = Siblings()
        self._leaving: list[Raw] = []  # rows for later steps
        self._unfinished: list[int] = []  # levels whose tasks are not at the time of the end yet

    # topics

    def input_topic(self, name: str, *, key: Serde[Any] = DEFAULT_KEY, value: Serde[Any] = DEFAULT_VALUE) -> InputTopic:
        """Return a handle that pipes records into a topic. Serdes not given are the default ones: string and JSON."""
        self._lanes.check_topic(name)
        return InputTopic(name, *self._bound(name, key, value), self.pipe_raw, self._clock.now_ms)

    def output_topic(self, name: str, *, key: Serde[Any] | None = None, value: Serde[Any] | None = None) -> OutputTopic:
        """Return a handle that reads what was written to a topic.

        Serdes not given are those of the sink that writes the topic, if there is one such, else the default ones.
        """
        sink_key, sink_value = self._lanes.serdes_of(name)
        key, value = key or sink_key, value or sink_value
        return OutputTopic(name, *self._bound(name, key, value), lambda topic: self._output.get(topic, []), self._read)

    def _bound(self, topic: str, key: Serde[Any], value: Serde[Any]) -> tuple[Serde[Any], Serde[Any]]:
        """Return the serdes of a topic; those with a schema registry know it, and the driver's registry, then."""
        registry, defaults = registry_of(self._config["registry"]), defaults_of(self._config)
        key, value = defaults.serde(key), defaults.serde(value)
        return bound(key, topic, "key", registry), bound(value, topic, "value", registry)

    def topics(self) -> set[str]:
        """Return the names of all topics written so far, internal ones too."""
        return set(self._output)

    def pipe_raw(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers = ()
    ) -> None:
        """Send one record as bytes."""
        if self._closed:
            raise StoreError("the driver is closed: pipe records inside the with block, or make a new driver")
        self._lanes.check_topic(topic)
        if not 0 <= partition < self._partitions:
            raise ConfigError(f"partition {partition} of {topic}: the driver has partitions={self._partitions}")
        self._records_in += 1
        raw = self._numbered(topic, partition, key, value, timestamp, headers)
        if not self.auto_commit:
            self._waiting.append(raw)
            return
        with self._keeping_failed():
            if self._lanes.source_of(topic) is not None:
                self._enqueue(raw)
                self._complete_work()
            if topic in self._lanes.globals.topics:
                self._lanes.globals.apply(raw)
                self._publish(self._lanes.take_rows())  # dead letters

    @contextmanager
    def _keeping_failed(self) -> Iterator[None]:
        """Keep the dead letter of a record that ends the application, if that is asked for (``dead_letter_failures``)."""
        try:
            yield
        except StreamsError as error:
            if (letter := failed_dead_letter(self._config, error)) is not None:
                topic, _, key, value, timestamp, headers = letter
                kept = ProducedRecord(key, value, timestamp, headers, 0)
                self._output.setdefault(topic, []).append(kept)
            raise

    # time and barriers

    def advance_wall_clock(self, ms: timedelta | int) -> None:
        """Move wall-clock time forward (milliseconds or timedelta) and run the wall-clock punctuators that are due.

        Source partitions that are quiet for the idle time are not waited for any more: what that makes due comes out.
        """
        self._clock.advance(millis(ms, "the advance", least=0))
        if not self.auto_commit:
            self._wall_clock_moved = True
            return
        self._begin()
        self._lanes.punctuate_wall_clock()
        self._flush()
        self._complete_work()

    def commit(self) -> None:
        """Close the epoch: run what waits, let caches forward, write state and changelogs, show the output."""
        if self.auto_commit:
            self._begin()
            self._flush()
            self._complete_work()
            return
        with self._keeping_failed():
            while self._waiting or self._wall_clock_moved or self._lanes.is_due(self._lanes.time_update()):
                self._run_epoch()

    # reading state

    def store(self, name: str) -> Any:
        """Return a store over all shards, with plain values; a test may also write to it, before or between records."""
        spec, _ = self._found(name)
        self._lanes.catch_up()
        return TestView(spec, lambda: self._found(name)[1], lambda shard: self._store_of(name, shard))

    def query(self, store: str, query: Query, *, at_least: Position | None = None, wait_ms: int = 0) -> QueryResult:
        """Answer a query at the last barrier, as `App.query` does. The driver does not run on its own: nothing is waited for."""
        return self._queries().query(store, query, at_least=at_least)

    def snapshot(
        self, *, at_least: Position | None = None, wait_ms: int = 0, timeout: timedelta | int | None = None
    ) -> Snapshot:
        """Return all stores at the last barrier, as `App.snapshot` does; records that are piped later do not show."""
        return self._queries().snapshot(at_least=at_least, timeout=timeout)

    def metadata_for_key(self, store: str, key: Any) -> KeyMetadata:
        """Return the shard and the lane that a key of a store is kept in."""
        return self._queries().metadata_for_key(store, key)

    def _queries(self) -> Queries:
        if self._closed:
            raise StoreError("the driver is closed: ask inside the with block")
        if self._asked is None:
            self._asked = DriverQueries(self._lanes, self._config["snapshot_timeout_ms"])
        self._lanes.catch_up()
        return self._asked.at(self._barriers, self._position())

    def _position(self) -> Position:
        """Return the last offset of each source partition that is part of the last barrier: what waits is not."""
        waiting: dict[tuple[str, int], int] = {}
        for raw in self._waiting:
            waiting[raw.topic, raw.partition] = waiting.get((raw.topic, raw.partition), 0) + 1
        ends = {place: end - waiting.get(place, 0) for place, end in self._offsets.items() if self._is_input(place[0])}
        return position_of(ends)

    def _is_input(self, topic: str) -> bool:
        source = self._lanes.source_of(topic)
        internal = source is not None and self._lanes.sources[source].internal
        return (source is not None and not internal) or topic in self._lanes.globals.topics

    def _store_of(self, name: str, shard: int) -> Any:
        """Return the store of a shard, to be written to: that is work of the epoch."""
        if name in self._lanes.globals.stores:
            return self._lanes.globals.stores[name]
        return self._lanes.touch(shard).stores[name]

    def _found(self, name: str) -> tuple[StoreSpec, list[Any]]:
        if name in self._lanes.globals.stores:
            return self._lanes.topology.stores[name], [self._lanes.globals.stores[name]]
        if name not in self._lanes.topology.stores:
            known = list(self._lanes.topology.stores)
            raise StoreError(f"there is no store {name!r}{nearest(name, known)}; the topology has {known}")
        if name not in self._lanes.tasks[0].stores:
            raise StoreError(f"no node uses the store {name!r}, so nothing is kept in it: connect it to a processor")
        return self._lanes.topology.stores[name], [task.stores[name] for task in self._lanes.tasks]

    def _view(self, name: str) -> Any:
        """Return what a processor sees of a store that is not its own: any key, at the last barrier, as in production."""
        if name not in self._views:
            spec, stores = self._found(name)
            if name not in self._lanes.globals.stores:
                stores = [open_store(spec, task.state, Standalone()) for task in self._lanes.tasks]
            self._views[name] = merged_view(spec, stores)
        return self._views[name]

    def metrics(self) -> dict[str, Any]:
        """Return counters: records in and out, the dropped ones by reason and by (node, reason), and the work of each node."""
        dropped = self._lanes.all_dropped()
        reasons: dict[str, int] = {}
        for (_, reason), count in dropped.items():
            reasons[reason] = reasons.get(reason, 0) + count
        return {
            "records_in": self._records_in,
            "records_out": {topic: len(records) for topic, records in self._output.items()},
            "dropped_records": sum(dropped.values()),
            "dropped_by_reason": reasons,
            "dropped_by_node": dropped,
            "user": self._lanes.meter.user.data(),
            "nodes": {node: work._asdict() for node, work in self._lanes.meter.work().items()},
        }

    def all_output(self) -> dict[str, list[tuple[bytes | None, bytes | None, int, Headers]]]:
        """Return every record written since the start, by topic, as bytes; internal topics under their full names."""
        return {topic: [record[:4] for record in records] for topic, records in self._output.items()}

    def store_contents(self, name: str) -> list[Any] | None:
        """Return the rows of a store as plain tuples, in any order."""
        changelog = self._output.get(f"{self._lanes.application_id}-{name}-changelog", [])
        self._lanes.catch_up()
        return store_contents(self._lanes, name, [(record.key, record.timestamp) for record in changelog])

    def close(self) -> None:
        """Close the user's processors and let go of the state; a folder of state is deleted, as by Kafka's driver."""
        if self._closed:
            return
        self._closed = True
        if self._asked is not None:
            self._asked.close()
        try:
            self._lanes.close()
        finally:
            for state in self._states:
                state.destroy()

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open_state(self, shard: int | str) -> ShardState:
        folder = self._config["state_dir"]
        self._states.append(MemoryState() if folder is None else LmdbState(Path(folder) / f"shard-{shard}"))
        return self._states[-1]

    # record by record, as Kafka's driver

    def _complete_work(self) -> None:
        """Run all that waits, each record with a barrier of its own; time goes by source records, with all that becomes of them."""
        self._publish(self._lanes.take_rows())
        try:
            while self._heap or self._unfinished or self._lanes.is_due(self._lanes.time_update()):
                if self._heap:
                    self._run(self._poll())
                elif not self._unfinished:  # an epoch without a record, as the engine runs one
                    self._begin()
                self._finish_steps()
                self._write_changelogs()
                self._barriers += 1
        except BaseException:
            self._unfinished, self._leaving = [], []
            raise

    def _poll(self) -> Decoded:
        queue = self._heap.poll()
        record = queue.poll()
        if queue.head is not None:
            self._heap.offer(queue)
        return record

    def _run(self, record: Decoded) -> None:
        if not self._unfinished or not self._lanes.sources[record.source].internal:
            self._begin(record)
        self._lanes.process(record)
        self._flush()

    def _begin(self, record: Decoded | None = None) -> None:
        """Begin with a source record, or with none; time has come to its end for the one before."""
        while self._unfinished:
            self._finish_step(self._unfinished.pop(0))
        self._lanes.begin(
            self._lanes.time_update(() if record is None else {(record.origin.topic or "", record.origin.partition)})
        )
        self._unfinished = list(range(max(self._lanes.levels.values(), default=0) + 1))

    def _finish_steps(self) -> None:
        """Bring the levels to the end of time that have no record left."""
        while self._unfinished and self._unfinished[0] < min(self._levels_waiting(), default=self._unfinished[0] + 1):
            self._finish_step(self._unfinished.pop(0))
        if not self._unfinished:
            self._lanes.end_time()

    def _levels_waiting(self) -> Iterator[int]:
        heads = (queue.head.source for queue in self._queues.values() if queue.head is not None)
        return (self._lanes.levels[source] for source in heads if self._lanes.sources[source].internal)

    def _finish_step(self, level: int) -> None:
        self._lanes.finish_step(level)
        self._flush()
        ready = [raw for raw in self._leaving if self._level_of(raw) == level + 1]
        self._leaving = [raw for raw in self._leaving if self._level_of(raw) > level + 1]
        for raw in self._in_order(ready):
            self._enqueue(raw)

    def _in_order(self, ready: list[Raw]) -> list[Raw]:
        """Return the rows of one source record in order: what time gives out is first, punctuators are last, the others are as they came;
        but of those that one row has become, what stands for the row itself is first."""
        came: dict[tuple[int, ...], int] = {}

        def order_key(raw: Raw) -> tuple[Any, ...]:
            assert raw.origin is not None
            sub, carried = raw.origin.sub, self._lanes.source_of(raw.topic) in self._lanes.carried
            if sub[0] in (RELEASED, PUNCTUATED):
                return (0 if sub[0] == RELEASED else 2, sub)
            return 1, came.setdefault(sub[:-2] if carried else sub[:-1], len(came)), not carried

        return sorted(ready, key=order_key)

    def _level_of(self, raw: Raw) -> int:
        return self._lanes.levels[self._lanes.source_of(raw.topic) or ""]

    def _flush(self) -> None:
        self._lanes.flush()
        self._publish(self._lanes.take_rows())

    def _enqueue(self, raw: Raw) -> None:
        source = self._lanes.source_of(raw.topic)
        assert source is not None
        place = (raw.topic, raw.partition)
        if self._lanes.sources[source].internal:  # rows on their way to a later step keep their order in all partitions
            place = ("" if self._lanes.carried else raw.topic, -1)
        if place not in self._queues:
            self._queues[place] = RecordQueue(self._decode)
        if self._queues[place].add(raw):
            self._heap.offer(self._queues[place])

    def _decode(self, raw: Raw, partition_time: int) -> Decoded | None:
        return self._lanes.read(self._lanes.source_of(raw.topic) or "", raw, partition_time)

    def _publish(self, rows: list[Row]) -> None:
        """Show the rows, and feed back those whose topic some source or global table reads.

        Rows for a later step wait until all steps before it have come to their end: those of several shards go on in order.
        """
        for row in rows:
            raw = self._written(row)
            if row.internal:
                self._leaving.append(self._positioned(raw))
            elif self._lanes.source_of(raw.topic) is not None:
                self._enqueue(raw)
            if raw.topic in self._lanes.globals.topics:
                self._lanes.globals.apply(raw)

    # an open epoch, level by level, as the engine

    def _run_epoch(self) -> None:
        arrived, self._waiting = self._waiting, []
        time_update = self._lanes.time_update({(raw.topic, raw.partition) for raw in arrived})
        self._lanes.begin(time_update)
        self._emitted = FIRST_ROW - 1
        if self._wall_clock_moved:
            self._wall_clock_moved = False
            self._lanes.punctuate_wall_clock()
        by_level: dict[int, list[tuple[Any, Decoded]]] = {}
        for raw in arrived:
            if raw.topic in self._lanes.globals.topics:
                self._lanes.globals.apply(raw)
        for raw in arrived:
            self._admit(raw, by_level)
        for level in range(max(self._lanes.levels.values(), default=0) + 1):
            for _, record in sorted(by_level.pop(level, ()), key=lambda entry: entry[0]):
                self._lanes.process(record)
                self._pass_on(self._lanes.take_rows(), by_level)
            self._lanes.finish_step(level)
            self._lanes.flush()
            self._pass_on(self._lanes.take_rows(), by_level)
        self._lanes.end_time()
        self._write_changelogs()
        self._barriers += 1

    def _admit(self, raw: Raw, by_level: dict[int, list[tuple[Any, Decoded]]]) -> None:
        source = self._lanes.source_of(raw.topic)
        if source is None:
            return
        reached = self._lanes.reached(raw)
        record = self._lanes.read(source, raw, reached)
        if record is not None:
            by_level.setdefault(self._lanes.levels[source], []).append((_place(record), record))

    def _pass_on(self, rows: list[Row], by_level: dict[int, list[tuple[Any, Decoded]]]) -> None:
        """Give internal rows to their level, in order of their source record; a topic that is read again waits for the next epoch."""
        for row in rows:
            raw = self._written(row)
            if row.internal:
                self._admit(self._positioned(raw), by_level)
            elif self._lanes.source_of(raw.topic) is not None or raw.topic in self._lanes.globals.topics:
                self._waiting.append(raw)

    def _positioned(self, raw: Raw) -> Raw:
        """Return a row on its way to a later step with its position among its siblings."""
        source, origin = self._lanes.source_of(raw.topic), raw.origin
        assert source is not None
        assert origin is not None
        self._emitted += 1
        carried, returning = source in self._lanes.carried, source in self._lanes.returning
        number = self._lanes.subtopology_of[source]
        sub = self._siblings.placed(self._emitted, origin, number, carried=carried, returning=returning)
        return raw._replace(origin=origin._replace(sub=sub))

    # writing

    def _written(self, row: Row) -> Raw:
        topic = self._lanes.full_name(row.topic) if row.internal else row.topic
        partition, headers = row.partition, row.headers
        if not row.internal and self._config["epoch_header"] is not None:
            headers = (*headers, (self._config["epoch_header"], str(self._barriers + 1).encode()))
        if partition is None:
            count = self._lanes.partitions_of(row.topic)
            partition = partition_for(row.key, count) if row.key is not None else self._without_key(row) % count
        if not row.internal or row.topic in self._lanes.topology.internal_topics:  # else it stays in its sub-topology
            record = ProducedRecord(row.key, row.value, row.timestamp, headers, partition)
            self._output.setdefault(topic, []).append(record)
        raw = self._numbered(topic, partition, row.key, row.value, row.timestamp, headers)
        return raw._replace(origin=row.origin) if row.internal else raw

    @staticmethod
    def _without_key(row: Row) -> int:
        """Return where a row without a key goes: between steps it stays with its source partition."""
        return max(row.origin.partition_index, 0) if row.internal else 0

    def _write_changelogs(self) -> None:
        self._views = {}
        for row in self._lanes.commit():
            topic = f"{self._lanes.application_id}-{row.store}-changelog"
            self._output.setdefault(topic, []).append(
                ProducedRecord(row.key, row.value, row.timestamp, row.headers, row.shard)
            )

    def _numbered(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers
    ) -> Raw:
        offset = self._offsets.get((topic, partition), 0)
        self._offsets[topic, partition] = offset + 1
        return Raw(topic, partition, offset, key, value, timestamp, headers)


def _place(record: Decoded) -> tuple[Any, ...]:
    """Return what rows of a step are ordered by."""
    origin = record.origin
    return origin.reached, origin.topic or "", origin.partition, origin.offset, origin.sub


def _at_least_one(number: int, name: str) -> int:
    if number < 1:
        raise TopologyError(f"{name} must be at least 1, but is {number}")
    return number
