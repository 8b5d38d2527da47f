"""Transactions of others in the input, the application's own output as another's input, and two instances of one application."""

from collections import Counter

import pytest

from penstock import FencedError, Serdes, Stores, StreamsBuilder

START = 1_600_000_020_000
TEXT = {"key": Serdes.string, "value": Serdes.string}


@pytest.fixture
def other(cluster):
    """A program that writes in transactions."""
    producer = cluster.log.producer(cluster.name("writer"))
    producer.init()
    return producer


def copying(source, target):
    builder = StreamsBuilder()
    builder.stream(source, **TEXT).to(target, **TEXT)
    return builder


def counting(source, target):
    builder = StreamsBuilder()
    words = builder.stream(source, **TEXT).group_by(lambda key, word: word, value=Serdes.string)
    counts = words.count(store=Stores.key_value("counts", cached=False), name="counted")
    counts.to_stream().map_values(str).to(target, **TEXT)
    return builder


@pytest.mark.parametrize("make", [copying, counting])
def test_aborted_records_are_skipped_and_committed_ones_read(start, cluster, other, make):
    source, target = cluster.topic("in"), cluster.topic("out")
    driven = start(make(source, target))
    read = []
    for number in range(8):
        other.begin()
        other.produce(cluster.row(source, "k", f"w{number}.{n}", START + n) for n in range(3))
        other.flush()
        if number % 3 == 1:
            other.abort()
        else:
            other.commit()
            read += [f"w{number}.{n}" for n in range(3)]
        if number in (1, 5):  # the range ends with a marker of an abort, then one of a commit
            driven.drain()
    _settled(cluster, source)
    driven.drain()
    found = cluster.texts(target)
    if make is copying:
        assert [value for _, value in found] == read
    else:
        assert Counter(key for key, _ in found) == Counter(read)
    assert driven.loop.lag == 0


def test_a_range_of_nothing_but_aborted_records_moves_the_offsets(start, cluster, other):
    source, target = cluster.topic("in"), cluster.topic("out")
    other.begin()
    other.produce([cluster.row(source, "k", "v", START)])
    other.flush()
    other.abort()
    end = _settled(cluster, source)
    start(copying(source, target)).drain()
    assert cluster.rows(target) == []
    assert cluster.log.admin.committed(start.application_id) == {(source, 0): end}


def test_an_open_transaction_holds_its_partition_back_and_no_other(start, cluster, other):
    source, target = cluster.topic("in", 2), cluster.topic("out")
    driven = start(copying(source, target))
    other.begin()
    other.produce([cluster.row(source, "a", "waits", START, 0)])
    other.flush()
    cluster.send(source, ("a", "behind", START, 0), ("b", "goes", START, 1), ("b", "on", START, 1))
    driven.drain()
    assert cluster.texts(target) == [("b", "goes"), ("b", "on")]
    other.commit()
    _settled(cluster, source)
    driven.drain()
    assert cluster.texts(target)[2:] == [("a", "waits"), ("a", "behind")]


def test_the_output_of_one_application_is_the_input_of_the_next(start, cluster):
    lines, counts, last = cluster.topic("lines"), cluster.topic("counts", 2), cluster.topic("last")
    first = start(counting(lines, counts))
    second = start(copying(counts, last), application_id=cluster.name("second"))
    for n in range(4):
        cluster.send(lines, *(("k", word, START + n) for word in "abc"))
        first.drain()
        _settled(cluster, counts)
        second.drain()
    _settled(cluster, counts)
    second.drain()
    found = {}
    for key, value in cluster.texts(last):
        found.setdefault(key, []).append(value)
    assert found == {word: ["1", "2", "3", "4"] for word in "abc"}
    assert second.loop.lag == 0
    ends = cluster.log.admin.end_offsets([(counts, 0), (counts, 1)])
    assert cluster.log.admin.committed(cluster.name("second")) == ends


def test_an_application_may_read_what_it_writes(start, cluster):
    numbers = cluster.topic("numbers")
    builder = StreamsBuilder()
    stream = builder.stream(numbers, value=Serdes.int64)
    stream.filter(lambda key, value: value > 0).map_values(lambda value: value - 1).to(numbers, value=Serdes.int64)
    cluster.send(numbers, ("k", (4).to_bytes(8, "big"), START))
    driven = start(builder)
    while len(cluster.numbers(numbers)) < 5:
        driven.drain()
    assert [value for _, value in cluster.numbers(numbers)] == [4, 3, 2, 1, 0]


def test_a_second_instance_fences_the_first_which_commits_nothing(start, cluster):
    lines, counts = cluster.topic("lines"), cluster.topic("counts")
    cluster.send(lines, *(("k", word, START) for word in "abc"))
    first = start(counting(lines, counts)).drain()
    second = start(counting(lines, counts))
    cluster.send(lines, *(("k", word, START + 1) for word in "abcd"))
    with pytest.raises(FencedError, match="another instance with the same application_id"):
        first.drain()
    assert sorted(cluster.texts(counts)) == [("a", "1"), ("b", "1"), ("c", "1")]
    with pytest.raises(FencedError):
        first.drain()
    second.drain()
    cluster.send(lines, *(("k", word, START + 1) for word in "abcd"))
    second.drain()
    wanted = {"a": 3, "b": 3, "c": 3, "d": 2}
    assert Counter(key for key, _ in cluster.texts(counts)) == wanted
    assert dict(second.view("counts").all()) == wanted
    assert cluster.log.admin.committed(start.application_id) == {(lines, 0): 11}


def test_a_start_that_is_refused_does_not_disturb_the_instance_that_runs(start, cluster):
    from penstock import TopologyChanged

    lines, counts = cluster.topic("lines"), cluster.topic("counts")
    cluster.send(lines, ("k", "a", START))
    first = start(counting(lines, counts)).drain()
    engine, _ = start.make(copying(lines, counts))
    with pytest.raises(TopologyChanged):
        engine.start()
    cluster.send(lines, ("k", "a", START))
    first.drain()
    assert cluster.texts(counts) == [("a", "1"), ("a", "2")]


def _settled(cluster, topic):
    """Wait until the markers of all transactions are written; return where the first partition ends."""
    places = [(topic, partition) for partition in range(cluster.log.admin.partitions([topic])[topic])]
    while (ends := cluster.log.admin.end_offsets(places)) != cluster.log.admin.stable_offsets(places):
        pass
    return ends[topic, 0]
