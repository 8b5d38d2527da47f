"""A real broker, one Spark session for all, and applications that are driven epoch by epoch.

Topics and applications have names of their own in every test, because the broker is shared.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import App, Topology
from penstock.clock import Clock, SystemClock
from penstock.config import load
from penstock.engine.engine import Engine
from penstock.engine.loop import Loop
from penstock.engine.recovery import RestoreProgress
from penstock.log.base import LogRecord, TopicSpec
from penstock.log.kafka import KafkaLog
from penstock.record import Headers
from penstock.testing import TopologyTestDriver

NUMBERS = itertools.count()


def as_bytes(data: Any) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


class Cluster:
    """The broker as a test uses it: topics with names of their own, records in, committed records out."""

    def __init__(self, servers: str, tag: str) -> None:
        self.servers = servers
        self.tag = tag
        self.log = KafkaLog(servers, timeout=30)
        self._sent = self.log.producer(None)

    def name(self, word: str) -> str:
        return f"{word}-{self.tag}"

    def topic(self, word: str, partitions: int = 1, **configs: Any) -> str:
        """Make a topic that keeps old records; options are its settings, with _ for the dots."""
        settings = {"retention.ms": "-1"} | {name.replace("_", "."): str(value) for name, value in configs.items()}
        self.log.admin.ensure_topics([TopicSpec(self.name(word), partitions, settings)])
        return self.name(word)

    def send(self, topic: str, *rows: tuple[Any, ...]) -> None:
        """Write (key, value, timestamp [, partition [, headers]]) as they are."""
        self._sent.begin()
        self._sent.produce(self.row(topic, *row) for row in rows)
        self._sent.commit()

    @staticmethod
    def row(topic: str, key: Any, value: Any, timestamp: int, partition: int = 0, headers: Headers = ()) -> Any:
        return topic, partition, as_bytes(key), as_bytes(value), timestamp, headers

    def read(self, topic: str, *, committed: bool = True) -> list[LogRecord]:
        """Return all records of a topic, in order of partition and offset. A commit returns before all of it can be seen: wait for it."""
        reader = self.log.reader(committed=committed)
        places = [(topic, partition) for partition in range(self.log.admin.partitions([topic])[topic])]
        ends = self.log.admin.end_offsets(places)
        begins = self.log.admin.earliest_offsets(places)
        found = [record for place in places for record in reader.read(*place, begins[place], ends[place])]
        reader.close()
        return found

    def rows(self, topic: str) -> list[tuple[Any, ...]]:
        """Return (key, value, timestamp, headers) of all records, as bytes, in order of partition and offset."""
        return [(r.key, r.value, r.timestamp, r.headers) for r in self.read(topic)]

    def texts(self, topic: str) -> list[tuple[str | None, str | None]]:
        """Return key and value of all records, as text."""
        return [(r.key and r.key.decode(), r.value and r.value.decode()) for r in self.read(topic)]

    def numbers(self, topic: str) -> list[tuple[str, int]]:
        """Return key and value of all records, the value as a whole number of 8 bytes."""
        return [((r.key or b"").decode(), int.from_bytes(r.value or b"", "big")) for r in self.read(topic)]

    def close(self) -> None:
        self.log.close()


class Driven:
    """An engine, started, whose epochs the test runs."""

    def __init__(self, engine: Engine, progress: list[RestoreProgress]) -> None:
        self.engine = engine
        self.progress = progress
        self.loop: Loop = engine.start()

    @property
    def restored(self) -> int:
        """How many rows were read back at the start."""
        return self.progress[-1].restored

    def drain(self) -> Driven:
        """Run epochs until nothing waits."""
        while self.loop.step():
            pass
        return self

    def view(self, store: str) -> Any:
        return self.engine.view(store)

    def close(self) -> None:
        self.engine.close()


class Starter:
    """Starts engines and applications of one test; what is left open is closed at its end."""

    def __init__(self, spark: Any, cluster: Cluster, folder: Path) -> None:
        self._spark = spark
        self._cluster = cluster
        self.folder = folder
        self.application_id = cluster.name("app")
        self._open: list[Engine | App] = []

    def settings(self, **given: Any) -> dict[str, Any]:
        return {
            "application_id": self.application_id,
            "bootstrap_servers": self._cluster.servers,
            "state_dir": str(self.folder),
            "shards": 4,
            "lanes": 2,
            "commit_interval_ms": 0,
            **given,
        }

    def make(
        self, topology: Any, *, allow_topology_change: bool = False, clock: Clock | None = None, **given: Any
    ) -> tuple[Engine, list[Any]]:
        """Make an engine that is not started yet, and the list of what it tells of its restore."""
        progress: list[RestoreProgress] = []
        built = topology if isinstance(topology, Topology) else topology.build()
        engine = Engine(
            built,
            load(self.settings(**given), environ={}),
            self._spark,
            clock=clock or SystemClock(),
            notify=progress.append,
            allow_topology_change=allow_topology_change,
        )
        self._open.append(engine)
        return engine, progress

    def __call__(self, topology: Any, **given: Any) -> Driven:
        """Start an engine."""
        return Driven(*self.make(topology, **given))

    def app(self, topology: Any, **given: Any) -> App:
        """Make an application on the shared session."""
        app = App(topology, spark=self._spark, **self.settings(**given))
        self._open.append(app)
        return app

    def forget(self) -> None:
        """Delete the local state; a task that was told of the last barrier may still be tidying up there."""
        while self.folder.exists():
            shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        for each in reversed(self._open):
            each.close()


@pytest.fixture
def cluster(kafka_broker: Any) -> Iterator[Cluster]:
    made = Cluster(kafka_broker.bootstrap_servers, f"{os.getpid()}-{next(NUMBERS)}")
    yield made
    made.close()


@pytest.fixture
def start(spark_session: Any, cluster: Cluster, tmp_path: Path) -> Iterator[Starter]:
    made = Starter(spark_session, cluster, tmp_path / "state")
    yield made
    made.close()


class Twin:
    """The test driver, given what the application is given, cut as the application is cut."""

    def __init__(self, topology: Any, application_id: str, partitions: int, config: dict[str, Any]) -> None:
        settings = {"application_id": application_id, "shards": 4, **config}
        self.driver = TopologyTestDriver(topology, config=settings, lanes=2, partitions=partitions, auto_commit=False)

    def send(self, topic: str, *rows: tuple[Any, ...]) -> None:
        """Take what `Cluster.send` takes."""
        for row in rows:
            self.driver.pipe_raw(*Cluster.row(topic, *row))

    def rows(self, topic: str) -> list[tuple[Any, ...]]:
        """Return what `Cluster.rows` returns, of a topic with one partition."""
        return [tuple(row) for row in self.driver.all_output().get(topic, [])]


@pytest.fixture
def twin(start: Starter) -> Iterator[Callable[..., Twin]]:
    """Make the test driver that an application is compared with."""
    made: list[Twin] = []

    def make(topology: Any, *, partitions: int = 1, **config: Any) -> Twin:
        made.append(Twin(topology, start.application_id, partitions, config))
        return made[-1]

    yield make
    for each in made:
        each.driver.close()


@pytest.fixture
def by_key() -> Callable[[list[tuple[Any, ...]]], dict[Any, list[Any]]]:
    """Group rows by their key: the order of a key's rows is promised, that of different keys is not."""

    def group(rows: list[tuple[Any, ...]]) -> dict[Any, list[Any]]:
        found: dict[Any, list[Any]] = {}
        for key, *rest in rows:
            found.setdefault(key, []).append(tuple(rest))
        return found

    return group
