"""Ranges of several partitions, read at once from a real broker."""

from __future__ import annotations

import pytest

from penstock.errors import BrokerError
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog

PLENTY = 1 << 20


@pytest.fixture
def log(kafka_broker):
    made = KafkaLog(kafka_broker.bootstrap_servers, timeout=30)
    yield made
    made.close()


@pytest.fixture
def topic(log, name):
    wanted = name("ranges")
    log.admin.ensure_topics([TopicSpec(wanted, 3)])
    return wanted


@pytest.fixture
def ranges(log):
    return log.ranges(timeout=10)


def write(log, name, rows, *, commit=True):
    producer = log.producer(name("writer"))
    producer.init()
    producer.begin()
    producer.produce(rows)
    producer.flush()
    producer.commit() if commit else producer.abort()


def stable(log, topic):
    """Where the partitions end, once the markers of all transactions are in them."""
    places = [(topic, partition) for partition in range(3)]
    while (ends := log.admin.stable_offsets(places)) != log.admin.end_offsets(places):
        pass
    return [ends[place] for place in places]


def plain(rows):
    """Columns as lists, to be compared."""
    return tuple(column.tolist() if hasattr(column, "tolist") else column for column in rows)


def test_several_ranges_are_read_exactly(log, topic, name, ranges):
    write(log, name, [(topic, n % 3, b"k%d" % n, b"v%d" % n, 10 + n, ()) for n in range(12)])
    one, other = ranges.read([(topic, 0, 1, 3), (topic, 2, 0, 2)], PLENTY)
    assert plain(one) == (topic, 0, [1, 2], [b"k3", b"k6"], [b"v3", b"v6"], [13, 16], None)
    assert plain(other) == (topic, 2, [0, 1], [b"k2", b"k5"], [b"v2", b"v5"], [12, 15], None)


def test_one_range_after_the_other_is_read_by_the_same_client(log, topic, name, ranges):
    write(log, name, [(topic, 0, None, b"v%d" % n, 1, ()) for n in range(6)])
    for n in (0, 3, 5, 2):
        assert ranges.read([(topic, 0, n, n + 1)], PLENTY)[0].values.to_pylist() == [b"v%d" % n]


def test_keys_values_and_headers_may_be_missing(log, topic, name, ranges):
    write(log, name, [(topic, 0, None, None, 1, ()), (topic, 0, b"k", b"v", 2, (("a", b"1"), ("a", None)))])
    (rows,) = ranges.read([(topic, 0, 0, 2)], PLENTY)
    assert plain(rows)[3:] == ([None, b"k"], [None, b"v"], [1, 2], [(), (("a", b"1"), ("a", None))])


def test_a_range_may_end_with_markers_and_hold_aborted_records(log, topic, name, ranges):
    write(log, name, [(topic, 0, None, b"kept", 1, ())])
    write(log, name, [(topic, p, None, b"aborted", 1, ()) for p in (0, 1)], commit=False)
    ends = stable(log, topic)
    assert ends == [4, 2, 0]
    found = ranges.read([(topic, partition, 0, end) for partition, end in enumerate(ends)], PLENTY)
    assert [rows.values.to_pylist() for rows in found] == [[b"kept"], [], []]


def test_records_that_are_too_large_together_are_not_read(log, topic, name, ranges):
    write(log, name, [(topic, 0, None, b"x" * 1000, 1, ()) for _ in range(5)])
    assert ranges.read([(topic, 0, 0, 5)], 3000) is None
    assert len(ranges.read([(topic, 0, 0, 5)], 5000)[0].values) == 5


def test_records_that_are_gone_are_an_error_that_does_not_pass(log, topic, name, ranges):
    write(log, name, [(topic, 0, None, b"v", 1, ()) for _ in range(5)])
    log.admin.delete_records({(topic, 0): 3})
    with pytest.raises(BrokerError, match="gone") as raised:
        ranges.read([(topic, 0, 1, 5)], PLENTY)
    assert not raised.value.retriable
    assert list(ranges.read([(topic, 0, 3, 5)], PLENTY)[0].offsets) == [3, 4]


def test_a_range_that_is_not_there_yet_is_given_up_as_one_that_may_come(log, topic, name):
    write(log, name, [(topic, 0, None, b"v", 1, ())])
    with pytest.raises(BrokerError, match="up to 9") as raised:
        log.ranges(timeout=0.5).read([(topic, 0, 0, 9)], PLENTY)
    assert raised.value.retriable


def test_offsets_are_those_of_the_records_where_others_were_aborted(log, topic, name, ranges):
    rows = [(topic, 0, b"k", b"v%d" % n, 1, ()) for n in range(2)]
    write(log, name, rows)
    write(log, name, rows, commit=False)
    write(log, name, rows)
    (end, *_) = stable(log, topic)
    (found,) = ranges.read([(topic, 0, 0, end)], PLENTY)
    assert found.values.to_pylist() == [b"v0", b"v1", b"v0", b"v1"]
    assert list(found.offsets) == [0, 1, 6, 7]  # two markers, two aborted records in between
    batches = list(log.reader().rows(topic, 0, 0, end))
    assert [offset for batch in batches for offset in batch.offsets] == [0, 1, 6, 7]
