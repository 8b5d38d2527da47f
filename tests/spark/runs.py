"""One case, twice: through the engine on Spark and a real broker, and through the test driver, with the same cuts.

The engine leads: after each of its epochs the driver gets the records of exactly that epoch and closes its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition
from msgspec.structs import replace as replace_fields
from tests.spark.scripts import Sent

from penstock import Topology
from penstock import config as settings
from penstock.clock import Clock, SystemClock
from penstock.engine.committed_state import CommittedState
from penstock.engine.engine import Engine
from penstock.engine.topics import WINDOWED, changelog_specs, logged_stores
from penstock.lane.source import Raw
from penstock.lane.worker import Worker
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog
from penstock.protocol.envelope import SINK, EnvelopeRow, unpack_place
from penstock.protocol.request import EpochRequest
from penstock.record import NO_ORIGIN, Headers
from penstock.state.spec import StoreKind, StoreSpec
from penstock.testing import TopologyTestDriver
from penstock.testing.application import TestedApplication
from penstock.testing.open_epochs import OpenEpochs

FOR_EVER = {"retention.ms": "-1"}
#: rounds without a record after which a reader gives up
PATIENCE = 400


class Layout(NamedTuple):
    """How a case is run. ``chunks``: how often records are sent; ``epoch``: the most records of an epoch.

    ``inline``: which epochs are inline, by their number modulo two. The others are read and exchanged by Spark.
    """

    lanes: int
    shards: int
    partitions: int
    chunks: int
    epoch: int = 500_000
    inline: tuple[int, ...] = (0,)

    def __str__(self) -> str:
        cut = f"{self.chunks} chunks" if self.epoch == 500_000 else f"epochs of {self.epoch}"
        return f"{self.lanes} lanes, {self.shards} shards, {self.partitions} partitions, {cut}"


class Written(NamedTuple):
    """A committed record of a topic, without its key."""

    partition: int
    value: bytes | None
    timestamp: int
    headers: Headers


#: who wrote a record: a shard, or where nothing is kept the source partition; known of the test driver only
Writer = tuple[Any, ...]


@dataclass
class Seen:
    """What can be seen of a run."""

    #: topic → key → records in order, each with its writer
    sinks: dict[str, dict[bytes | None, list[tuple[Writer, Written]]]] = field(default_factory=dict)
    #: store → (shard, key) → the last row of the changelog
    changelogs: dict[str, dict[tuple[int, bytes | None], Written]] = field(default_factory=dict)
    #: stores whose changelogs are cut once their rows have expired
    cut: frozenset[str] = frozenset()
    #: store → its rows
    stores: dict[str, list[Any]] = field(default_factory=dict)
    #: (node, reason) → records dropped
    dropped: dict[tuple[str, str], int] = field(default_factory=dict)
    epochs: int = 0
    #: store → its rows, as found by a machine that has nothing but the changelogs
    restored: dict[str, list[Any]] = field(default_factory=dict)


# ---- the test driver


class WitnessEpochs(OpenEpochs):
    """Open epochs that remember who wrote each record; each shard must have a lane of its own."""

    def __init__(self, application: TestedApplication, committed: CommittedState | None) -> None:
        #: topic → writer, key and the rest of each record, in order
        self.written: dict[str, list[tuple[Writer, bytes | None, Written]]] = {}
        self._exchange = {step.level: step.exchange for step in application.plan.steps}
        self._topics: tuple[str, ...] = ()
        super().__init__(application, committed)

    def run_one(self) -> None:
        """Run one epoch, be there something to read or not."""
        self._run_epoch()

    def _run(self, request: EpochRequest, arrived: list[Raw]) -> list[EnvelopeRow]:
        self._topics = request.topics
        return super()._run(replace_fields(request, places=True), arrived)

    def _publish(self, rows: list[EnvelopeRow]) -> None:
        output = self._application.output
        before = {topic: len(records) for topic, records in output.items()}
        super()._publish(rows)
        for row in (row for row in rows if row.kind == SINK):
            at = before.setdefault(row.name, 0)
            before[row.name] += 1
            key, value, timestamp, headers, partition = output[row.name][at]
            written = Written(partition, value, timestamp, headers)
            self.written.setdefault(row.name, []).append((self._writer(row), key, written))

    def _writer(self, row: EnvelopeRow) -> Writer:
        """Return the shard; of a step that runs where the records are read the source partition."""
        level, lane = row.route >> 56, row.route >> 32 & 0xFFFFFF
        if self._exchange[level]:
            return ("shard", lane)
        origin = NO_ORIGIN if row.place is None else unpack_place(row.place, self._topics)
        return ("partition", origin.topic, origin.partition)


class WitnessDriver(TopologyTestDriver):
    """A test driver that remembers who wrote each record."""

    _runner: WitnessEpochs

    def __init__(self, topology: Topology, **options: Any) -> None:
        options["config"] = {**options["config"], "lanes": options["config"]["shards"]}
        super().__init__(topology, auto_commit=False, **options)

    def _new_runner(self, auto_commit: bool, committed: CommittedState | None = None) -> WitnessEpochs:
        return WitnessEpochs(self._application, committed)

    def commit(self) -> None:
        """Run one epoch, as the engine has just run one; with nothing to read it is a tick."""
        self._runner.run_one()

    def seen(self) -> Seen:
        """Return what can be seen of the run."""
        found = Seen(dropped=self.metrics()["dropped_by_node"])
        for topic, rows in self._runner.written.items():
            for writer, key, written in rows:
                found.sinks.setdefault(topic, {}).setdefault(key, []).append((writer, written))
        application = self._application
        for store, spec in application.topology.stores.items():
            rows_of_store = application.output.get(f"{application.id}-{store}-changelog", [])
            last = {(row.partition, row.key): Written(row.partition, *row[1:4]) for row in rows_of_store}
            if last:
                found.changelogs[store] = last
            if spec.kind in QUERYABLE and used(application.topology, store):
                found.stores[store] = contents(spec, self.store(store), last)
        return found


# ---- the engine


class Bench:
    """A broker and a Spark session, on which cases run one after the other."""

    def __init__(self, bootstrap_servers: str, session: Any, folder: Path, master: str = "local[2]") -> None:
        self.bootstrap_servers = bootstrap_servers
        self.session = session
        self.folder = folder
        self.master = master
        self.log = KafkaLog(bootstrap_servers)
        self._producer = self.log.producer(None)
        self._numbers = itertools.count()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "witness",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 10,
            }
        )

    def fresh(self, name: str) -> str:
        """Return an application id that no other case has."""
        return f"{name}-{next(self._numbers)}"

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()
        self.log.close()

    def make_topics(self, topology: Topology, application: str, topics: list[str], layout: Layout) -> list[str]:
        """Make all topics of a case so that the broker keeps old times; return their names, the epochs' topic too."""
        own = changelog_specs(topology, application, layout.shards, 1)
        specs = [replace(spec, configs={**spec.configs, **FOR_EVER}) for spec in own]
        specs += [TopicSpec(topic, layout.partitions, FOR_EVER) for topic in topics]
        self.log.admin.ensure_topics(specs)
        return [*(spec.name for spec in specs), f"{application}-epochs"]

    def send(self, steps: list[Sent]) -> None:
        """Write records, and wait until they are there."""
        self._producer.produce(steps)
        self._producer.flush()

    def engine(
        self, topology: Topology, application: str, layout: Layout, config: Mapping[str, Any], clock: Clock
    ) -> Engine:
        """Make the engine of a case."""
        given = {
            "application_id": application,
            "bootstrap_servers": self.bootstrap_servers,
            "master": self.master,
            "lanes": layout.lanes,
            "shards": layout.shards,
            "max_epoch_records": layout.epoch,
            "state_dir": str(self.folder),
            **config,
        }
        return Engine(topology, settings.load(given, environ={}), self.session, clock=clock)

    def committed(
        self, topics: Mapping[str, int], ends: Mapping[tuple[str, int], int]
    ) -> dict[str, list[tuple[int, bytes | None, Written]]]:
        """Return all committed records of topics (with their partitions): partition, key and the rest, in offset order.

        ``ends``: up to where some partitions reach, so the engine says; a partition that never does is an error.
        """
        found: dict[str, list[tuple[int, bytes | None, Written]]] = {topic: [] for topic in topics}
        places = [(topic, partition) for topic, count in topics.items() for partition in range(count)]
        waiting = {place: max(end, ends.get(place, 0)) for place, end in self.log.admin.end_offsets(places).items()}
        for topic, partition, key, written in self._read(waiting):
            found[topic].append((partition, key, written))
        return found

    def _read(self, waiting: dict[tuple[str, int], int]) -> Iterator[tuple[str, int, bytes | None, Written]]:
        """Read up to the ends: a commit returns before its marker is in every partition, and a reader waits for it."""
        self._consumer.list_topics(timeout=30)  # a client that has to find out where a new topic is takes half a second
        starts = self.log.admin.earliest_offsets(waiting)  # the changelogs of windows are cut
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in sorted(starts.items())])
        quiet = 0
        while waiting:
            messages = self._consumer.consume(1000, 0.05)
            quiet = 0 if messages else quiet + 1
            assert quiet < PATIENCE, f"these partitions never reach their ends: {waiting}"
            for message in messages:
                place = (message.topic(), message.partition())
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    if message.offset() >= waiting.get(place, 0):
                        waiting.pop(place, None)
                    continue
                headers = tuple(message.headers() or ())
                yield *place, message.key(), Written(place[1], message.value(), message.timestamp()[1], headers)
        self._consumer.unassign()


class Case:
    """An application between its first record and what is left of it; ``engine`` runs, ``driver`` follows."""

    def __init__(
        self,
        bench: Bench,
        topology: Topology,
        application: str,
        inputs: list[str],
        outputs: list[str],
        layout: Layout,
        config: Mapping[str, Any],
    ) -> None:
        self.bench = bench
        self.topology = topology
        self.application = application
        self.layout = layout
        self._outputs = outputs
        self.topics = bench.make_topics(topology, application, [*inputs, *outputs], layout)
        ours = {"application_id": application, "shards": layout.shards, **config}
        start = SystemClock().now_ms()
        self.driver = WitnessDriver(
            topology, config=ours, lanes=layout.lanes, partitions=layout.partitions, start=start
        )
        #: both have the same wall clock; it moves by hand
        self.clock = self.driver._clock
        self.engine = bench.engine(topology, application, layout, config, self.clock)
        self._waiting: dict[tuple[str, int], list[Sent]] = {}
        self._global = {topic for table in topology.global_stores.values() for topic in table.source.topics}
        self._taken: dict[tuple[str, int], int] = {}

    def run(self, script: list[Sent]) -> None:
        """Send the script in chunks; run epochs until each chunk is consumed."""
        loop = self.engine.start()
        loop.observers.append(self._send_by_turns)
        size = -(-len(script) // self.layout.chunks)
        for at in range(0, len(script), size):
            chunk = script[at : at + size]
            self.bench.send(chunk)
            for step in chunk:
                self._waiting.setdefault((step.topic, step.partition), []).append(step)
            while loop.step():
                self._follow(loop.committed.positions)

    def _send_by_turns(self, step: str, epoch: int) -> None:
        if step == "run lanes":
            assert self.engine.executor is not None
            self.engine.executor.inline_epochs.most_records = 500_000 if epoch % 2 in self.layout.inline else 0

    def _follow(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Give the driver what the engine took in its last epoch; global tables are taken whole."""
        for place, waiting in self._waiting.items():
            end = len(waiting) if place[0] in self._global else positions[place]
            for step in waiting[self._taken.get(place, 0) : end]:
                self.driver.pipe_raw(*step)
            self._taken[place] = end
        self.driver.commit()

    def seen(self, elsewhere: Path | None = None) -> Seen:
        """Return what can be seen of the engine's run: in the topics, and in the stores of its last barrier.

        ``elsewhere``: an empty folder, into which the stores are restored from the changelogs alone.
        """
        loop = self.engine.loop
        assert loop is not None
        logged = logged_stores(self.topology)
        cut = frozenset(store for store, spec in logged.items() if spec.kind in WINDOWED)
        found = Seen(dropped=dict(loop.totals.dropped), epochs=loop.totals.epochs, cut=cut)
        changelogs = {f"{self.application}-{store}-changelog": store for store in logged}
        counts = dict.fromkeys(self._outputs, self.layout.partitions) | dict.fromkeys(changelogs, self.layout.shards)
        ends = {
            (topic, shard): end
            for topic, store in changelogs.items()
            for shard, end in enumerate(loop.committed.changelogs[store])
        }
        for topic, rows in self.bench.committed(counts, ends).items():
            for partition, key, written in rows:
                if topic in changelogs:
                    found.changelogs.setdefault(changelogs[topic], {})[partition, key] = written
                else:
                    found.sinks.setdefault(topic, {}).setdefault(key, []).append(((), written))
        for store, spec in self.topology.stores.items():
            if spec.kind in QUERYABLE and used(self.topology, store):
                found.stores[store] = contents(spec, self.engine.view(store), found.changelogs.get(store, {}))
        if elsewhere is not None:
            worker = Worker(replace(self.engine.stage, state_dir=str(elsewhere)))
            request = loop.committed.request("elsewhere", source_of={}, partitions={}, global_ends={})
            for store in logged.keys() & found.stores.keys():
                spec, last = self.topology.stores[store], found.changelogs.get(store, {})
                found.restored[store] = contents(spec, worker.view(store, request), last)
            worker.shards.close()
        return found

    def close(self) -> None:
        """End both; the topics go."""
        self.driver.close()
        self.engine.close()
        self.bench.log.admin.delete_topics(self.topics)


# ---- the rows of a store, by the verbs of a query

QUERYABLE = (
    StoreKind.KEY_VALUE,
    StoreKind.SHARED,
    StoreKind.LRU,
    StoreKind.WINDOW,
    StoreKind.SESSION,
    StoreKind.VERSIONED,
)


def used(topology: Topology, store: str) -> bool:
    """Whether a node uses a store, or all of them can read it."""
    return store in topology.global_stores or any(store in topology.stores_of(node) for node in topology.nodes)


def contents(spec: StoreSpec, view: Any, changelog: Mapping[tuple[int, bytes | None], Any]) -> list[Any]:
    """Return every row of a view, in the view's order; of a versioned store, which has no scan, by the keys of its changelog."""
    match spec.kind:
        case StoreKind.WINDOW:
            return [(key.key, key.start, key.end, value) for key, value in view.all()]
        case StoreKind.SESSION:
            return [(key.key, key.start, key.end, value) for key, value in view.fetch_range(None, None)]
        case StoreKind.VERSIONED:
            assert spec.key is not None
            keys = sorted({spec.key.deserialize(key) for _, key in changelog if key is not None})
            return [(key, *version) for key in keys for version in view.history(key)]
        case _:
            return [(key, view.get_with_timestamp(key)) for key, _ in view.all()]
