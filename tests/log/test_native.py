"""Rows without objects: the loops in C do what those in Python do, on a real broker."""

from __future__ import annotations

import gc
import random
from importlib.util import find_spec
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer

from penstock.errors import BrokerError, ProductionError
from penstock.log import partition_queue, producers
from penstock.log.base import RowColumns, TopicSpec
from penstock.log.kafka import KafkaLog
from penstock.log.rows import records_of
from penstock.native.loader import in_c
from penstock.record import raw_name, undecodable_name

WAYS = ["in C", "in Python", "wire"]


@pytest.fixture(autouse=True)
def way(request, monkeypatch):
    """Run a test all ways: librdkafka's writer with the loops in C and without them, and the writer that needs no librdkafka."""
    wanted = getattr(request, "param", None)
    if wanted is None:
        return
    if (wanted != "in Python" and partition_queue.loops is None) or (wanted == "wire" and not producers.uses_wire()):
        pytest.skip("the loops in C are not built here")
    if wanted != "wire":
        monkeypatch.setattr(producers, "uses_wire", lambda: False)
    if wanted == "in Python":
        monkeypatch.setattr(partition_queue, "loops", None)


@pytest.fixture
def log(kafka_broker, way):
    made = KafkaLog(kafka_broker.bootstrap_servers, timeout=30)
    yield made
    made.close()


@pytest.fixture
def topic(log, name):
    wanted = name("native")
    log.admin.ensure_topics([TopicSpec(wanted, 3)])
    return wanted


@pytest.fixture
def writer(log, name):
    made = log.producer(name("writer"))
    made.init()
    made.begin()
    return made


def columns(topic, keys, values, times=None, partitions=None, headers=None):
    times = np.array(range(1, len(keys) + 1) if times is None else times, np.int64)
    places = None if partitions is None else np.array(partitions, np.int32)
    return RowColumns(topic, places, pa.array(keys, pa.binary()), pa.array(values, pa.binary()), times, headers)


def stable_end(log, topic, partition):
    """Where a partition ends, once the markers of all transactions are in it."""
    places = [(topic, partition)]
    while log.admin.stable_offsets(places) != (ends := log.admin.end_offsets(places)):
        pass
    return ends[topic, partition]


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_what_is_written_by_column_is_read_by_column(log, topic, writer):
    keys = [None, b"", b"k", b"key" * 100] * 500
    values = [b"", None, b"v" * 1000, b"w"] * 500
    written = columns(topic, keys, values, [0, 1, 1_700_000_000_000, 5] * 500, [2] * 2000)
    writer.produce_columns(written)
    writer.commit()
    found = list(log.reader().rows(topic, 2, 3, 1999, 300))
    assert {(rows.topic, rows.partition, rows.headers) for rows in found} == {(topic, 2, None)}
    assert [offset for rows in found for offset in rows.offsets.tolist()] == list(range(3, 1999))
    assert [key for rows in found for key in rows.keys.to_pylist()] == keys[3:1999]
    assert [value for rows in found for value in rows.values.to_pylist()] == values[3:1999]
    # to the client 0 is "now"
    assert [time for rows in found for time in rows.timestamps.tolist()] == ([1, 1, 1_700_000_000_000, 5] * 500)[3:1999]


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_a_part_of_a_larger_array_is_written_as_what_it_is(log, topic, writer):
    keys = pa.array([None if n % 7 == 0 else b"k%d" % n for n in range(100)], pa.binary())
    values = pa.array([b"v%d" % n for n in range(100)], pa.binary())
    writer.produce_columns(
        RowColumns(topic, np.zeros(60, np.int32), keys[21:81], values[21:81], np.arange(60) + 1, None)
    )
    writer.commit()
    (rows,) = log.reader().rows(topic, 0, 0, 60)
    assert rows.keys.to_pylist() == keys[21:81].to_pylist()
    assert rows.values.to_pylist() == values[21:81].to_pylist()


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_keys_choose_the_partition_as_those_of_single_rows_do(log, topic, writer):
    keys = [b"k%d" % n for n in range(50)]
    writer.produce_columns(columns(topic, keys, [b"by column"] * 50, partitions=[-1] * 50))
    writer.produce([(topic, None, key, b"by row", 1, ()) for key in keys])
    writer.commit()
    for partition in range(3):
        (rows,) = log.reader().rows(topic, partition, 0, stable_end(log, topic, partition))
        half = rows.size // 2
        assert rows.values.to_pylist() == [b"by column"] * half + [b"by row"] * half
        assert rows.keys.to_pylist()[:half] == rows.keys.to_pylist()[half:]


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_rows_of_a_partition_keep_their_order(log, topic, writer):
    keys = [None if n % 11 == 0 else b"%d" % (n * n % 37) * (n % 5 + 1) for n in range(500)]
    values = [b"%d" % n for n in range(500)]
    places = [n % 3 if n % 11 == 0 or n % 7 == 0 else -1 for n in range(500)]
    writer.produce_columns(columns(topic, keys, values, partitions=places))
    writer.commit()
    found = {}
    for partition in range(3):
        (rows,) = log.reader().rows(topic, partition, 0, stable_end(log, topic, partition))
        found[partition] = [int(value) for value in rows.values.to_pylist()]
        assert all(places[n] in (partition, -1) for n in found[partition])
        assert [keys[n] for n in found[partition]] == rows.keys.to_pylist()
        assert found[partition] == sorted(found[partition])
    assert sorted(n for some in found.values() for n in some) == list(range(500))


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_headers_are_written_and_read(log, topic, writer):
    headers = [(), (("a", b"1"), ("a", None)), (("b", b""),)]
    writer.produce_columns(columns(topic, [b"k"] * 3, [b"v"] * 3, partitions=[1] * 3, headers=headers))
    writer.commit()
    (rows,) = log.reader().rows(topic, 1, 0, 3)
    assert rows.headers == headers


def hostile_rows(topic, seed, count):
    """Rows of random bytes, a name of a header among them in most; librdkafka ends a name at a byte of zero."""
    chosen = random.Random(seed)

    def some():
        return chosen.choice([None, b"", chosen.randbytes(chosen.randrange(40))])

    def named():
        return chosen.randbytes(chosen.randrange(6)).replace(b"\0", b"").decode("utf-8", "surrogateescape")

    headers = [tuple((named(), some()) for _ in range(chosen.randrange(4))) for _ in range(count)]
    return [(topic, 0, some(), some(), chosen.randrange(1, 2**40), pairs) for pairs in headers]


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_random_bytes_go_through_every_reader(kafka_broker, log, topic, name, monkeypatch):
    """What is written by the writer that takes all bytes is read by all readers, those in Python without the other headers."""
    rows = hostile_rows(topic, 1, 500)
    with monkeypatch.context() as patch:
        patch.setattr(producers, "uses_wire", lambda: True)
        if in_c("record_batches") is None or find_spec("penstock.kafka_wire") is None:
            pytest.skip("the writer that takes all bytes is not here")
        other = KafkaLog(kafka_broker.bootstrap_servers)
        plain = other.producer(None)
        plain.produce(rows)
        plain.flush()
        other.close()

    def told_in_python(headers):
        bad = undecodable_name(headers)
        return headers if bad is None else ((bad, None),)

    all_told = [row[2:] for row in rows]
    less_told = [(*row[2:5], told_in_python(row[5])) for row in rows]
    told = less_told if partition_queue.loops is None else all_told
    assert all_told != less_told
    one = log.reader()
    assert [record[3:] for record in one.read(topic, 0, 0, 500)] == told
    (columns_read,) = one.columns(topic, 0, 0, 500)
    assert list(zip(*columns_read[1:], strict=True)) == [row[:3] for row in told]
    following = (record for record in one.follow({(topic, 0): 0}) if record is not None)
    assert [record[3:] for record in islice(following, 500)] == less_told
    short = log.ranges(timeout=10)
    for start in range(500):
        found = short.read([(topic, 0, start, start + 1)], 1000)
        if partition_queue.loops is not None and undecodable_name(rows[start][5]) is not None:
            assert found is None  # the other reader tells all of it
        else:
            assert [record[3:] for rows_found in found for record in records_of(rows_found)] == [told[start]]


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_header_names_of_random_bytes_are_written(log, topic, writer, monkeypatch):
    rows = hostile_rows(topic, 2, 500)
    writer.produce(rows)
    writer.commit()
    wanted = [row[2:] for row in rows]
    if partition_queue.loops is None:  # the client cannot be told such a name: it is escaped
        escaped = [
            tuple((raw_name(name).decode(errors="backslashreplace"), data) for name, data in row[5]) for row in rows
        ]
        wanted = [
            (*row[2:5], row[5] if undecodable_name(row[5]) is None else told)
            for row, told in zip(rows, escaped, strict=True)
        ]
    assert [record[3:] for record in log.reader().read(topic, 0, 0, 500)] == wanted


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_aborted_records_and_markers_are_not_read(log, topic, writer):
    for n, end in enumerate([writer.commit, writer.abort, writer.commit]):
        writer.produce_columns(columns(topic, [b"k"] * 2, [b"v%d" % n] * 2, partitions=[0, 0]))
        writer.flush()
        end()
        writer.begin()
    assert stable_end(log, topic, 0) == 9
    found = list(log.reader().rows(topic, 0, 0, 9))
    assert [value for rows in found for value in rows.values.to_pylist()] == [b"v0", b"v0", b"v2", b"v2"]
    assert [offset for rows in found for offset in rows.offsets.tolist()] == [0, 1, 6, 7]
    assert [reached for reached, *_ in log.reader().columns(topic, 0, 2, 6)] == []


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_a_reader_goes_from_range_to_range_and_back_to_single_records(log, topic, writer):
    writer.produce_columns(columns(topic, [None] * 30, [b"%d" % n for n in range(30)], partitions=[0, 1, 2] * 10))
    writer.commit()
    one = log.reader()
    for partition, start in [(0, 4), (1, 0), (0, 2), (2, 9), (0, 4)]:
        wanted = [b"%d" % (3 * n + partition) for n in range(start, 10)]
        assert [v for rows in one.rows(topic, partition, start, 10, 3) for v in rows.values.to_pylist()] == wanted
        assert [record.value for record in one.read(topic, partition, start, 10)] == wanted
    left = one.rows(topic, 0, 0, 10, 2)
    assert next(left).size == 2
    assert [v for rows in one.rows(topic, 1, 8, 10) for v in rows.values.to_pylist()] == [b"25", b"28"]
    with pytest.raises(RuntimeError, match="one range at a time"):
        next(left)


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_what_is_not_there_is_an_error(log, topic, writer, name):
    writer.produce_columns(columns(topic, [b"k"] * 5, [b"v"] * 5, partitions=[0] * 5))
    writer.commit()
    log.admin.delete_records({(topic, 0): 3})
    with pytest.raises(BrokerError, match=f"read {topic}-0: .*gone") as raised:
        list(log.reader().rows(topic, 0, 1, 5))
    assert not raised.value.retriable
    with pytest.raises(BrokerError, match="read up to 9"):
        list(log.reader(timeout=0.5).rows(topic, 1, 0, 9))
    with pytest.raises(BrokerError, match="topic"):
        list(log.reader(timeout=5).rows(name("missing"), 0, 0, 9))


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_a_row_that_is_refused_is_told_and_the_others_go_on(log, topic, writer):
    values = [b"a", b"b" * 2_000_000, b"other", b"c", b"d" * 2_000_000, b"e"]
    told = []
    written = columns(topic, [b"k"] * 6, values, partitions=[0, 0, 1, 0, 0, 0])
    for _ in range(2):
        writer.produce_columns(written, lambda row, error: told.append((row, str(error))))
    writer.commit()
    assert [row[:2] + row[4:] for row, _ in told] == [(topic, 0, 2, ()), (topic, 0, 5, ())] * 2
    assert all("was refused" in said for _, said in told)
    (rows,) = log.reader().rows(topic, 0, 0, 6)
    assert rows.values.to_pylist() == [b"a", b"c", b"e"] * 2
    (rows,) = log.reader().rows(topic, 1, 0, 2)
    assert rows.values.to_pylist() == [b"other"] * 2
    writer.begin()
    with pytest.raises(ProductionError, match="was refused"):
        writer.produce_columns(columns(topic, [b"k"], [b"b" * 2_000_000]))


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_rows_that_are_not_delivered_are_an_error_that_says_which_and_the_next_ones_arrive(log, name, transactional):
    topic = name("small")
    log.admin.ensure_topics([TopicSpec(topic, 2, {"max.message.bytes": "50000"})])
    writer = log.producer(name("writer") if transactional else None)
    writer.init()
    writer.begin()
    writer.produce_columns(columns(topic, [b"k"] * 2, [b"x" * 60_000] * 2, partitions=[1, 1]))
    with pytest.raises(BrokerError, match=f"deliver .*{topic}-1") as raised:
        writer.flush()
    assert raised.value.code == "MSG_SIZE_TOO_LARGE"
    writer.abort()
    writer.begin()
    writer.produce_columns(columns(topic, [b"k"], [b"small"], partitions=[0]))
    writer.commit()
    (rows,) = log.reader().rows(topic, 0, 0, 1)
    assert rows.values.to_pylist() == [b"small"]


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_a_full_queue_is_waited_for(kafka_broker, topic, name):
    log = KafkaLog(
        kafka_broker.bootstrap_servers, {"producer.queue.buffering.max.messages": 10, "linger.ms": 0}, timeout=30
    )
    writer = log.producer(name("writer"))
    writer.init()
    writer.begin()
    writer.produce_columns(columns(topic, [b"k"] * 300, [b"%d" % n for n in range(300)], partitions=[0] * 300))
    writer.commit()
    found = [value for rows in log.reader().rows(topic, 0, 0, 300) for value in rows.values.to_pylist()]
    assert found == [b"%d" % n for n in range(300)]
    log.close()


def test_what_is_no_client_of_ours_is_refused():
    if partition_queue.loops is None:
        pytest.skip("the loops in C are not built here")
    row = ("t", 0, b"k", b"v", 1, ((b"h", None),))
    with pytest.raises(ValueError, match="not made with this plugin"):
        partition_queue.loops.produce_row(Producer({"bootstrap.servers": "nowhere:1"}), *row)
    ours = Producer(partition_queue.plugged({"bootstrap.servers": "nowhere:1"}))
    assert partition_queue.loops.produce_row(ours, *row) == 0
    ours.purge()
    del ours
    gc.collect()  # the plugin forgets a client that is gone
