"""TopologyTestDriver: run a topology record by record, with the same operators, stores and barriers as in production.

What it does by default is what production does: sixteen shards, a task (and the user's processors in it) for each epoch of a shard,
the same refusals, the same configuration. With one shard, one partition and ``keep_processors=True`` it equals Kafka's driver. Each record
is processed to its end, punctuators that its time makes due run, a barrier follows, and what went to internal topics is fed back,
smallest timestamp first, each with a barrier of its own.
``auto_commit=False`` holds the epoch open: records wait, and ``commit()`` runs them as one epoch, level by level, as the engine does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock import config as settings
from penstock.clock import MockClock
from penstock.durations import millis
from penstock.engine.committed_state import CommittedState
from penstock.errors import ConfigError, StoreError, StreamsError, TopologyError
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
from penstock.strict import strict_options
from penstock.testing.application import TestedApplication
from penstock.testing.contents import store_contents
from penstock.testing.open_epochs import OpenEpochs
from penstock.testing.queries import DriverQueries
from penstock.testing.record_by_record import RecordByRecord
from penstock.testing.topics import InputTopic, OutputTopic
from penstock.testing.views import TestView
from penstock.topology.defaults import defaults_of
from penstock.topology.topology import Topology, built

if TYPE_CHECKING:
    from penstock.dsl.builder import StreamsBuilder

#: the two ways of running an application
Runner: TypeAlias = RecordByRecord | OpenEpochs


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
        self._closed = False
        self._clock = MockClock(start)
        self._partitions = _at_least_one(partitions, "partitions")
        self._keep_processors = keep_processors
        self._application = TestedApplication(topology, self._config, self._clock, partitions)
        self._asked: DriverQueries | None = None
        self._read: dict[str, int] = {}
        self._records_in = 0
        self._runner = self._new_runner(auto_commit)

    # epochs

    @property
    def auto_commit(self) -> bool:
        """Whether a barrier follows every record; set it to False to hold the epoch open. What waits then is committed first."""
        return isinstance(self._runner, RecordByRecord)

    @auto_commit.setter
    def auto_commit(self, value: bool) -> None:
        if value != self.auto_commit:
            self.commit()
            committed = self._runner.committed()
            self._runner.close()
            self._runner = self._new_runner(value, committed)

    def _new_runner(self, auto_commit: bool, committed: CommittedState | None = None) -> Runner:
        if auto_commit:
            return RecordByRecord(self._application, committed, keep_processors=self._keep_processors)
        if self._keep_processors:
            raise ConfigError(
                "keep_processors=True is Kafka's driver, which has a barrier after every record; in an open epoch processors live as "
                "long as in production: leave out keep_processors, or auto_commit=False"
            )
        return OpenEpochs(self._application, committed)

    # topics

    def input_topic(self, name: str, *, key: Serde[Any] = DEFAULT_KEY, value: Serde[Any] = DEFAULT_VALUE) -> InputTopic:
        """Return a handle that pipes records into a topic. Serdes not given are the default ones: string and JSON."""
        self._application.check_topic(name)
        return InputTopic(name, *self._bound(name, key, value), self.pipe_raw, self._clock.now_ms)

    def output_topic(self, name: str, *, key: Serde[Any] | None = None, value: Serde[Any] | None = None) -> OutputTopic:
        """Return a handle that reads what was written to a topic.

        Serdes not given are those of the sink that writes the topic, if there is one such, else the default ones.
        """
        sink_key, sink_value = self._application.serdes_of(name)
        key, value = key or sink_key, value or sink_value
        return OutputTopic(
            name, *self._bound(name, key, value), lambda topic: self._application.output.get(topic, []), self._read
        )

    def _bound(self, topic: str, key: Serde[Any], value: Serde[Any]) -> tuple[Serde[Any], Serde[Any]]:
        """Return the serdes of a topic; those with a schema registry know it, and the driver's registry, then."""
        registry, defaults = registry_of(self._config["registry"]), defaults_of(self._config)
        key, value = defaults.serde(key), defaults.serde(value)
        return bound(key, topic, "key", registry), bound(value, topic, "value", registry)

    def topics(self) -> set[str]:
        """Return the names of all topics written so far, internal ones too."""
        return set(self._application.output)

    def pipe_raw(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers = ()
    ) -> None:
        """Send one record as bytes."""
        if self._closed:
            raise StoreError("the driver is closed: pipe records inside the with block, or make a new driver")
        self._application.check_topic(topic)
        if not 0 <= partition < self._partitions:
            raise ConfigError(f"partition {partition} of {topic}: the driver has partitions={self._partitions}")
        self._records_in += 1
        raw = self._application.numbered(topic, partition, key, value, timestamp, headers)
        with self._keeping_failed():
            self._runner.pipe(raw)

    @contextmanager
    def _keeping_failed(self) -> Iterator[None]:
        """Keep the dead letter of a record that ends the application, if that is asked for (``dead_letter_failures``)."""
        try:
            yield
        except StreamsError as error:
            if (letter := failed_dead_letter(self._config, error)) is not None:
                topic, _, key, value, timestamp, headers = letter
                self._application.show(topic, key, value, timestamp, headers, 0)
            raise

    # time and barriers

    def advance_wall_clock(self, ms: timedelta | int) -> None:
        """Move wall-clock time forward (milliseconds or timedelta) and run the wall-clock punctuators that are due.

        Source partitions that are quiet for the idle time are not waited for any more: what that makes due comes out.
        """
        self._clock.advance(millis(ms, "the advance", least=0))
        self._runner.advance()

    def commit(self) -> None:
        """Close the epoch: run what waits, let caches forward, write state and changelogs, show the output."""
        with self._keeping_failed():
            self._runner.commit()

    # reading state

    def store(self, name: str) -> Any:
        """Return a store over all shards, with plain values; a test may also write to it, before or between records."""
        spec = self._application.spec(name)
        self._runner.catch_up()
        return TestView(spec, lambda: self._stores(name), lambda shard: self._store_of(name, shard))

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
            self._asked = DriverQueries(self._application, self._config["snapshot_timeout_ms"])
        self._runner.catch_up()
        return self._asked.at(self._position(), self._runner.snapshots())

    def _position(self) -> Position:
        """Return the last offset of each source partition that is part of the last barrier: what waits is not."""
        waiting = Counter((raw.topic, raw.partition) for raw in self._runner.waiting)
        ends = {place: end - waiting[place] for place, end in self._application.offsets.items()}
        return position_of({place: end for place, end in ends.items() if self._application.is_input(place[0])})

    def _stores(self, name: str) -> list[Any]:
        """Return a store of all shards; a global one is one."""
        tables = self._application.globals.stores
        return [tables[name]] if name in tables else self._runner.stores(name)

    def _store_of(self, name: str, shard: int) -> Any:
        """Return the store of a shard, to be written to."""
        tables = self._application.globals.stores
        return tables[name] if name in tables else self._runner.store_of(name, shard)

    def metrics(self) -> dict[str, Any]:
        """Return counters: records in and out, the dropped ones by reason and by (node, reason), and the work of each node."""
        application = self._application
        dropped = application.dropped + self._runner.dropped()
        for task in application.globals.tasks:
            dropped.update(task.dropped)
        reasons: Counter[str] = Counter()
        for (_, reason), count in dropped.items():
            reasons[reason] += count
        return {
            "records_in": self._records_in,
            "records_out": {topic: len(records) for topic, records in application.output.items()},
            "dropped_records": dropped.total(),
            "dropped_by_reason": dict(reasons),
            "dropped_by_node": dict(dropped),
            "user": application.meter.user.data(),
            "nodes": {node: work._asdict() for node, work in application.meter.work().items()},
        }

    def all_output(self) -> dict[str, list[tuple[bytes | None, bytes | None, int, Headers]]]:
        """Return every record written since the start, by topic, as bytes; internal topics under their full names."""
        return {topic: [record[:4] for record in records] for topic, records in self._application.output.items()}

    def store_contents(self, name: str) -> list[Any] | None:
        """Return the rows of a store as plain tuples, in any order."""
        application = self._application
        changelog = application.output.get(application.full_name(f"{name}-changelog"), [])
        self._runner.catch_up()
        spec = application.topology.stores[name]
        return store_contents(spec, self._stores(name), [(record.key, record.timestamp) for record in changelog])

    def close(self) -> None:
        """Close the user's processors and let go of the state; a folder of state is deleted, as by Kafka's driver."""
        if self._closed:
            return
        self._closed = True
        if self._asked is not None:
            self._asked.close()
        try:
            self._runner.close()
        finally:
            self._application.close()

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _at_least_one(number: int, name: str) -> int:
    if number < 1:
        raise TopologyError(f"{name} must be at least 1, but is {number}")
    return number
