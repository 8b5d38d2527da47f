"""What may change between two starts, and while the application runs: the topology, partitions, topics of a pattern."""

import re

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from penstock import ConfigError, Serdes, Stores, StreamsBuilder, TimeWindows, TopologyChanged

START = 1_600_000_020_000
TEXT = {"key": Serdes.string, "value": Serdes.string}


def counts(lines, out, *more, name="counts", windows=False):
    """Count by key, and whatever ``more`` adds."""
    builder = StreamsBuilder()
    stream = builder.stream(lines, name="lines", **TEXT)
    if windows:
        stream.group_by_key().windowed_by(TimeWindows(1000, grace=0)).count(store="windows", name="windowed")
    table = stream.group_by_key().count(store=Stores.key_value(name, cached=False), name=name)
    table.to_stream(name="changes").to(out, value=Serdes.int64, name="out")
    for add in more:
        add(stream)
    return builder


def add_lengths(stream):
    lengths = stream.group_by(lambda key, value: str(len(value)), name="by-length", value=Serdes.string)
    lengths.count(store="lengths", name="lengths")


@pytest.fixture
def topics(cluster):
    return cluster.topic("lines"), cluster.topic("out")


def test_a_changed_topology_is_refused_with_the_difference(start, cluster, topics):
    start(counts(*topics), shards=2).close()
    cluster.send(topics[0], ("a", "v", START))
    start(counts(*topics), shards=2).drain().close()
    engine, _ = start.make(counts(*topics, add_lengths), shards=2)
    with pytest.raises(TopologyChanged) as raised:
        engine.start()
    said = str(raised.value)
    assert "has run until epoch 1" in said
    assert re.search(r"^\+ .*lengths: key_value, key Serdes.string, value Serdes.int64", said, re.MULTILINE)
    assert "--allow-topology-change" in said
    assert f"{start.application_id}-lengths-changelog" not in cluster.log.admin.topics()


def test_stores_that_stay_keep_their_rows_if_the_change_is_allowed(start, cluster, topics):
    lines, out = topics
    cluster.send(lines, ("a", "one", START), ("b", "two", START), ("a", "three", START))
    start(counts(*topics)).drain().close()
    cluster.send(lines, ("a", "four", START), ("c", "five", START))
    changed = start(counts(*topics, add_lengths), allow_topology_change=True)
    assert changed.restored == 2
    changed.drain()
    assert dict(changed.view("counts").all()) == {"a": 3, "b": 1, "c": 1}
    assert dict(changed.view("lengths").all()) == {"4": 2}
    changed.close()
    same = start(counts(*topics, add_lengths))
    assert same.restored == 0
    same.close()
    start.forget()
    cluster.send(lines, ("c", "six", START))
    again = start(counts(*topics, add_lengths)).drain()
    assert dict(again.view("counts").all()) == {"a": 3, "b": 1, "c": 2}
    assert dict(again.view("lengths").all()) == {"4": 2, "3": 1}
    assert sorted(cluster.numbers(out)) == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1), ("c", 2)]


def test_a_store_that_is_taken_out_and_put_back_has_its_rows_still(start, cluster, topics):
    lines, _ = topics
    cluster.send(lines, ("a", "one", START))
    start(counts(*topics, add_lengths)).drain().close()
    cluster.send(lines, ("a", "two", START))
    start(counts(*topics), allow_topology_change=True).drain().close()
    cluster.send(lines, ("a", "six", START))
    back = start(counts(*topics, add_lengths), allow_topology_change=True).drain()
    assert dict(back.view("lengths").all()) == {"3": 2}
    assert dict(back.view("counts").all()) == {"a": 3}
    back.close()
    start.forget()
    again = start(counts(*topics, add_lengths))
    assert dict(again.view("lengths").all()) == {"3": 2}


def test_clocks_go_on_where_they_were_when_the_topology_changes(start, cluster, topics):
    lines, _ = topics
    cluster.send(lines, ("a", "on time", START), ("a", "later", START + 60_000))
    start(counts(*topics, windows=True)).drain().close()
    changed = start(counts(*topics, add_lengths, windows=True), allow_topology_change=True)
    cluster.send(lines, ("a", "late", START + 1), ("b", "late", START + 1), ("a", "on time", START + 60_001))
    changed.drain()
    found = {(key.key, key.start - START): count for key, count in changed.view("windows").all() if key.start > START}
    assert found == {("a", 60_000): 2}
    assert sum(changed.loop.totals.dropped.values()) == 2


def test_another_number_of_shards_is_refused_with_the_remedy(start, cluster, topics):
    cluster.send(topics[0], ("a", "one", START))
    start(counts(*topics), shards=2).drain().close()
    for allowed in (False, True):
        engine, _ = start.make(counts(*topics), shards=4, allow_topology_change=allowed)
        with pytest.raises(ConfigError, match=r"first started with shards=2.*set shards=2"):
            engine.start()


def test_a_store_of_another_kind_needs_another_name(start, cluster, topics):
    cluster.send(topics[0], ("a", "one", START))
    start(counts(*topics)).drain().close()
    builder = StreamsBuilder()
    stream = builder.stream(topics[0], name="lines", **TEXT).group_by_key()
    stream.windowed_by(TimeWindows(1000, grace=0)).count(store="counts", name="counts")
    engine, _ = start.make(builder, allow_topology_change=True)
    with pytest.raises(TopologyChanged, match="'counts' was a key_value store and is a window store now"):
        engine.start()


def test_new_partitions_are_read_from_their_beginning_while_it_runs(start, cluster):
    lines, out = cluster.topic("lines"), cluster.topic("out")
    builder = counts(lines, out)
    driven = start(builder)
    driven.loop._input._refresh_ms = 0  # look at every epoch
    cluster.send(lines, ("a", "1", START))
    driven.drain()
    admin = AdminClient({"bootstrap.servers": cluster.servers})
    admin.create_partitions([NewPartitions(lines, 3)])[lines].result()
    while cluster.log.admin.partitions([lines])[lines] < 3:
        pass
    knowing = type(cluster)(cluster.servers, cluster.tag)  # a producer that knows the new partitions
    knowing.send(lines, ("a", "2", START), ("b", "3", START, 1), ("c", "4", START, 2), ("c", "5", START, 2))
    while not _has(driven, {"a": 2, "b": 1, "c": 2}):
        driven.loop.step()
    driven.close()
    knowing.send(lines, ("b", "6", START, 1))
    knowing.close()
    again = start(builder).drain()
    assert dict(again.view("counts").all()) == {"a": 2, "b": 2, "c": 2}
    assert {place[1] for place in cluster.log.admin.committed(start.application_id)} == {0, 1, 2}


def test_new_topics_of_a_pattern_are_read_from_their_beginning_while_it_runs(start, cluster):
    out = cluster.topic("out")
    pattern = re.compile(f"orders-.*-{cluster.tag}")
    builder = StreamsBuilder()
    stream = builder.stream(pattern, **TEXT).group_by_key()
    stream.count(store=Stores.key_value("counts", cached=False)).to_stream().to(out, value=Serdes.int64)
    driven = start(builder)
    driven.loop._input._refresh_ms = 0
    driven.drain()
    for number, word in enumerate(("orders-old", "orders-new"), start=1):
        topic = cluster.topic(word, number)
        cluster.send(topic, ("a", "1", START), ("b", "2", START, number - 1))
        while not _has(driven, {"a": number, "b": number}):
            driven.loop.step()
    driven.close()
    cluster.send(cluster.name("orders-new"), ("a", "3", START))
    start(builder).drain()
    found = {}
    for key, count in cluster.numbers(out):
        found.setdefault(key, []).append(count)
    assert found == {"a": [1, 2, 3], "b": [1, 2]}


def _has(driven, rows):
    return dict(driven.view("counts").all()) == rows
