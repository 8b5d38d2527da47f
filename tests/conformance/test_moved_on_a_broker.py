"""docs/migration/state.md with a real broker: Kafka Streams is closed, the page's programs move its state, Python goes on.

The long form, ``PENSTOCK_LONG=1``, runs the page's commands, each in a process of its own with its own Spark, deletes what was made and
lets Java go on, and moves versioned stores and a foreign-key join.
"""

import inspect
import os
import runpy
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import oracle
import pytest
from moved_state import (
    AFTER,
    BEFORE,
    OUTPUT,
    RESET,
    SHOP_AFTER,
    SHOP_BEFORE,
    STORES,
    by_key,
    code,
    commands,
    compacted,
    java_topology,
    program,
    shop,
)
from oracle.jvm import J
from tests.app.conftest import Cluster
from tests.terminals import SECONDS, Terminals

from penstock import App, Serdes
from penstock.cli.locate import locate_program
from penstock.cli.run import conduct
from penstock.cli.run_view import LineView
from penstock.clock import SystemClock
from penstock.log.base import TopicSpec

pytestmark = pytest.mark.xdist_group("spark")
LONG = pytest.mark.skipif(not os.environ.get("PENSTOCK_LONG"), reason="the long form: set PENSTOCK_LONG=1")

SUBSCRIPTIONS = "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000008"
OLD, NEW, HOUR = "visits-java", "visits", 3_600_000
EVERY_UPDATE = {"statestore.cache.max.bytes": "0"}
BEGIN = SystemClock().now_ms() // HOUR * HOUR - 3 * HOUR  # a broker deletes what is too old


@dataclass(frozen=True)
class Case:
    """An application in both languages, and (topic, key, value, second) for it, before the move and after it.

    ``at_once``: how many records are sent together. Where results depend on the order of topics the next one waits for its results.
    """

    java: Callable[..., Any]
    python: str
    before: list[tuple[str, str, str | None, int]]
    after: list[tuple[str, str, str | None, int]]
    stores: tuple[str, ...]
    output: tuple[str, ...]
    at_once: int

    @property
    def input(self) -> set[str]:
        return {topic for topic, *_ in self.before}

    def steps(self, folder):
        """Return the records that are sent together, with what a Java application has written by then that is never stopped."""
        with oracle.TopologyTestDriver(self.java(folder), config=EVERY_UPDATE) as driver:
            for records in (self.before, self.after):
                found = []
                for first in range(0, len(records), self.at_once):
                    sent = records[first : first + self.at_once]
                    for topic, key, value, second in sent:
                        driver.input_topic(topic, value=Serdes.string).pipe(key, value, BEGIN + second * 1000)
                    output = driver.all_output()
                    found.append((sent, {topic: by_key(output.get(topic, ())) for topic in self.output}))
                yield found


class JavaApplication:
    """The program in Java, as an instance of Kafka Streams with exactly once; closed in order at the end of the block."""

    def __init__(self, topology, servers, folder):
        properties = J["java.util.Properties"]()
        for name, value in {
            "application.id": OLD,
            "bootstrap.servers": servers,
            "processing.guarantee": "exactly_once_v2",
            "session.timeout.ms": "6000",  # for so long a closed instance keeps its partitions
            "state.dir": str(folder),
            **EVERY_UPDATE,
        }.items():
            properties.put(name, value)
        self._streams = J["org.apache.kafka.streams.KafkaStreams"](topology.java, properties)

    def __enter__(self):
        self._streams.start()

    def __exit__(self, *_):
        assert self._streams.close(J["java.time.Duration"].ofSeconds(SECONDS))


class Topics:
    """The topics of an application, each of two partitions."""

    def __init__(self, cluster, case):
        self._cluster, self._output = cluster, case.output
        cluster.log.admin.ensure_topics([TopicSpec(topic, 2) for topic in (*case.input, *case.output)])
        self._input = [(topic, partition) for topic in case.input for partition in (0, 1)]
        self._partition_of = J["org.apache.kafka.clients.producer.internals.BuiltInPartitioner"].partitionForKey

    def send(self, records):
        for topic, key, value, second in records:
            partition = int(self._partition_of(key.encode(), 2))
            self._cluster.send(topic, (key, value, BEGIN + second * 1000, partition))

    def output(self):
        return {topic: by_key(self._cluster.rows(topic)) for topic in self._output}

    def changelog(self, application, store):
        return compacted(self._cluster.rows(f"{application}-{store}-changelog"))

    def await_output(self, group, expected, logs=str):
        """Wait until all is read and there are as many rows as expected; a test that waits for too long says what there is."""
        deadline = time.monotonic() + SECONDS
        while self._is_behind(group) or count(self.output()) < count(expected):
            assert time.monotonic() < deadline, f"{self.output()}\n!=\n{expected}\n{logs()}"
            time.sleep(0.1)

    def _is_behind(self, group):
        admin = self._cluster.log.admin
        ends, read = admin.end_offsets(self._input), admin.committed(group, self._input)
        return any(read.get(place, 0) < end for place, end in ends.items())


def count(output):
    return sum(len(rows) for topic in output.values() for rows in topic.values())


class Here:
    """The programs of the page in this process, on the Spark session that all tests share."""

    def __init__(self, folder, servers, spark, monkeypatch):
        self._folder, self._running = folder, None
        self._settings = {"bootstrap_servers": servers, "spark": spark, "shards": 4, "lanes": 2, "cache_max_bytes": 0}
        monkeypatch.setenv("PENSTOCK_BOOTSTRAP_SERVERS", servers)
        monkeypatch.syspath_prepend(folder)
        for name in ("visits", "move"):  # both are away from here at the end
            monkeypatch.delitem(sys.modules, name, raising=False)
            monkeypatch.setitem(sys.modules, name, None)

    def write(self, name, text):
        (self._folder / name).write_text(text)
        sys.modules.pop(name.removesuffix(".py"))

    def _app(self, name):
        program = locate_program(f"{self._folder / name}:builder")
        return App(program, application_id=NEW, state_dir=str(self._folder / "state"), **self._settings)

    def move(self):
        assert conduct(self._app("move.py"), LineView(), until_caught_up=True, trace=False) == 0

    def copy_offsets(self):
        runpy.run_path(str(self._folder / "move.py"), run_name="__main__")

    def start(self):
        self._running = self._app("visits.py")
        self._running.allow_topology_change = True
        self._running.start()

    def logs(self):
        return f"{self._running.state}: {self._running.error}"

    def close(self):
        if self._running is not None:
            self._running.close()


class ByCommands(Terminals):
    """The commands of the page, in terminals."""

    def __init__(self, folder, servers):
        super().__init__(folder, servers, cache_max_bytes=0, shards=4, lanes=2)
        self._commands = commands()

    def move(self):
        self.run(self._commands[0])

    def copy_offsets(self):
        self.run(self._commands[1])

    def start(self):
        self.start_beside(self._commands[2], until="RUNNING")


@pytest.fixture
def cluster(kafka_broker):
    made = Cluster(kafka_broker.bootstrap_servers, "moved")
    yield made
    made.close()


@pytest.fixture
def here(tmp_path, cluster, spark_session, monkeypatch):
    made = Here(tmp_path, cluster.servers, spark_session, monkeypatch)
    yield made
    made.close()


@pytest.fixture
def terminals(tmp_path, cluster):
    made = ByCommands(tmp_path, cluster.servers)
    yield made
    made.close()


def clicks(records):
    return [("clicks", key, "click", second) for key, second in records]


def run_java(case, cluster, folder, steps):
    """Let the Java application work off records, and close it; return its topics."""
    topics = Topics(cluster, case)
    with JavaApplication(case.java(folder), cluster.servers, folder / "java"):
        for records, expected in steps:
            topics.send(records)
            topics.await_output(OLD, expected)
    return topics


def move(case, cluster, ways, folder):
    """Run Java, move what it has, run Python: the output of both is that of Java alone."""
    before, ((waiting, expected), *after) = case.steps(folder)
    topics = run_java(case, cluster, folder, before)
    ways.write("visits.py", case.python)
    ways.write("move.py", code("move.py").replace('{"clicks"}', repr(case.input)))
    ways.move()
    for store in case.stores:
        assert topics.changelog(NEW, store) == topics.changelog(OLD, store), store
    topics.send(waiting)
    ways.copy_offsets()
    ways.start()
    topics.await_output(NEW, expected, ways.logs)
    for records, expected in after:
        topics.send(records)
        topics.await_output(NEW, expected, ways.logs)
    for topic in case.output:
        assert topics.output()[topic] == expected[topic], topic


VISITS = Case(
    lambda folder: oracle.Topology(java_topology(folder)),
    code("visits.py"),
    clicks(BEFORE),
    clicks(AFTER),
    STORES,
    OUTPUT,
    4,
)


def shop_in_java(_):
    builder = oracle.StreamsBuilder()
    shop(builder)
    return builder.build()


def test_a_running_application_is_moved(cluster, here, tmp_path):
    move(VISITS, cluster, here, tmp_path)


@LONG
def test_versioned_tables_and_a_foreign_key_join_are_moved(cluster, here, tmp_path):
    python = f"""from penstock import App, Serdes, Stores, StreamsBuilder


{inspect.getsource(shop)}

builder = StreamsBuilder()
shop(builder)
app = App(builder, application_id="visits")
"""
    stores = ("orders", "customers", "prices", SUBSCRIPTIONS)
    case = Case(shop_in_java, python, SHOP_BEFORE, SHOP_AFTER, stores, ("named", "sold"), 1)
    move(case, cluster, here, tmp_path)


@LONG
def test_the_commands_of_the_page_move_a_running_application(cluster, terminals, tmp_path):
    move(VISITS, cluster, terminals, tmp_path)
    start = commands()[-1]
    terminals.stop(start)
    terminals.run(f"{start.removesuffix(' --allow-topology-change')} --until-caught-up")  # later starts need no option


@LONG
def test_after_a_reset_java_goes_on(cluster, terminals, tmp_path):
    before, after = VISITS.steps(tmp_path)
    run_java(VISITS, cluster, tmp_path, before)
    for name in ("visits.py", "move.py"):
        terminals.write(name, code(name))
    terminals.move()
    terminals.copy_offsets()
    terminals.run(f"{RESET} --yes")
    assert run_java(VISITS, cluster, tmp_path, after).output() == after[-1][1]


def test_offsets_are_not_copied_while_rows_wait_in_a_repartition_topic(cluster, monkeypatch):
    program("visits", monkeypatch)
    move, inside = program("move", monkeypatch), f"{OLD}-by-word-repartition"
    cluster.log.admin.ensure_topics([TopicSpec("clicks", 1), TopicSpec(inside, 1)])
    cluster.send(inside, ("a", "waits", BEGIN))
    producer = cluster.log.producer(OLD)
    producer.init()
    for read, refused in ((0, True), (1, False)):
        producer.begin()
        producer.send_offsets(OLD, {("clicks", 0): 7, (inside, 0): read})
        producer.commit()
        with pytest.raises(SystemExit, match=inside) if refused else nullcontext():
            move.copy_offsets(cluster.servers, OLD, NEW, {"clicks"})
        assert cluster.log.admin.committed(NEW, [("clicks", 0)]) == ({} if refused else {("clicks", 0): 7})
    producer.close()
