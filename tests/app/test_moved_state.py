"""The state of a Kafka Streams application that ran on this broker is moved, as docs/migration/state.md says; results go on as Java's."""

import time

import pytest
from moved_state import AFTER, BEFORE, OUTPUT, by_key, java_topology, program
from oracle.jvm import J, scratch

from penstock.log.base import TopicSpec


@pytest.fixture
def java(tmp_path, cluster):
    """Run the page's Java program for a while: until it has read and committed everything."""
    topology = java_topology(tmp_path)
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


def rows(records):
    """Return records as they are written, spread over two partitions by key."""
    return [(key, "click", second * 1000, sum(key.encode()) % 2) for key, second in records]


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
