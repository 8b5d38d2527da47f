"""The state of a Kafka Streams application that ran on this broker is moved, as docs/migration/state.md says; results go on as Java's."""

import re
import sys
import time
from pathlib import Path
from types import ModuleType

import jpype
import oracle
import pytest
from bench.peers.java import CompilerNotFound, compiled, find_javac
from oracle.jvm import J, scratch

from penstock.log.base import TopicSpec

TEXT = (Path(__file__).parents[2] / "docs" / "migration" / "state.md").read_text()
IMPORTS = """
import java.time.Duration;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
"""
OUTPUT = ("visit-counts", "minute-counts", "session-counts")
#: keys, and seconds: sessions that grow and merge, late records, windows of before that go on
BEFORE = [("ann", 0), ("bob", 10), ("ann", 50), ("ann", 400), ("cem", 30), ("bob", 800), ("dan", 805), ("ann", 20)]
AFTER = [("ann", 70), ("bob", 820), ("ann", 200), ("eve", 900), ("cem", 40), ("dan", 1300), ("bob", 15), ("ann", 1000)]


@pytest.fixture
def java(tmp_path, cluster):
    """Run the page's Java program for a while: until it has read and committed everything."""
    try:
        find_javac()
    except CompilerNotFound as error:
        pytest.skip(str(error))
    source = tmp_path / "Visits.java"
    source.write_text(IMPORTS + re.search(r"<!-- file: Visits.java -->.*?```java\n(.*?)```", TEXT, re.DOTALL)[1])
    folder = compiled(source).split(":")[0]
    oracle.start()
    loader = J["java.net.URLClassLoader"](
        [J["java.io.File"](folder + "/").toURI().toURL()], J["java.lang.ClassLoader"].getSystemClassLoader()
    )
    topology = jpype.JClass("Visits", loader=loader).topology()
    properties = J.Properties()
    for name, value in {
        "application.id": "visits-java",
        "bootstrap.servers": cluster.servers,
        "state.dir": str(scratch()),
        "processing.guarantee": "exactly_once_v2",
        "statestore.cache.max.bytes": "0",
        "replication.factor": "1",
    }.items():
        properties.put(name, value)

    def run():
        streams = J["org.apache.kafka.streams.KafkaStreams"](topology, properties)
        streams.start()
        places = [("clicks", 0), ("clicks", 1)]
        ends = cluster.log.admin.end_offsets(places)
        deadline = time.monotonic() + 90
        while cluster.log.admin.committed("visits-java", places) != ends:
            assert time.monotonic() < deadline, streams.state().toString()
            time.sleep(0.1)
        options = J["org.apache.kafka.streams.CloseOptions"]
        leave = options.groupMembershipOperation(options.GroupMembershipOperation.LEAVE_GROUP)
        assert streams.close(leave)

    return run


def program(name, modules):
    """Run a program of the page as a module that others may import."""
    code = re.search(rf'```python title="{name}.py"\n(.*?)```', TEXT, re.DOTALL)[1]
    module = ModuleType(name)
    modules.setitem(sys.modules, name, module)
    exec(compile(code, f"{name}.py", "exec"), module.__dict__)
    return module


def rows(records):
    """Return records as they are written, spread over two partitions by key."""
    return [(key, "click", second * 1000, sum(key.encode()) % 2) for key, second in records]


def by_key(found):
    """Return values and timestamps of each key, in their order."""
    keys = {}
    for key, value, timestamp, _ in found:
        keys.setdefault(key, []).append((value, timestamp))
    return keys


def test_what_python_writes_after_the_move_is_what_java_would_have_written(cluster, start, java, monkeypatch):
    settings = {"retention.ms": "-1"}
    cluster.log.admin.ensure_topics(
        [TopicSpec("clicks", 2, settings), *(TopicSpec(name, 1, settings) for name in OUTPUT)]
    )
    cluster.send("clicks", *rows(BEFORE))
    java()
    moved = {topic: len(cluster.rows(topic)) for topic in OUTPUT}

    visits, move = program("visits", monkeypatch), program("move", monkeypatch)
    start(move.builder, application_id="visits", cache_max_bytes=0).drain().close()
    move.copy_offsets(cluster.servers, "visits-java", "visits", {"clicks"})

    cluster.send("clicks", *rows(AFTER))
    java()  # what it would have written
    expected = {topic: cluster.rows(topic)[moved[topic] :] for topic in OUTPUT}
    going_on = start(visits.builder, application_id="visits", cache_max_bytes=0, allow_topology_change=True).drain()
    assert dict(going_on.view("visits").all()) == {"ann": 7, "bob": 4, "cem": 2, "dan": 2, "eve": 1}
    for topic in OUTPUT:
        got = cluster.rows(topic)[moved[topic] + len(expected[topic]) :]
        assert by_key(got) == by_key(expected[topic]), topic
        assert len(got) >= len(AFTER)
