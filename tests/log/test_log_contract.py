"""What the engine relies on, of the log in memory and of a real Kafka alike."""

from __future__ import annotations

import time
from random import Random

import pytest

from penstock.errors import BrokerError, FencedError, ProductionError, TopicError
from penstock.log import partition_queue
from penstock.log.base import LogRecord, TopicSpec
from penstock.log.memory import MemoryLog
from penstock.log.partitioner import partition_for
from penstock.record import undecodable_name


def row(topic, value, *, key=None, partition=0, timestamp=10, headers=()):
    return (topic, partition, key, value, timestamp, headers)


@pytest.fixture
def topic(log, name):
    wanted = name("topic")
    log.admin.ensure_topics([TopicSpec(wanted, 1)])
    return wanted


@pytest.fixture
def producer(log, name):
    made = log.producer(name("app"))
    made.init()
    return made


def committed(log, topic, partition=0):
    """All committed records; waits for the marker of a transaction that was just committed."""
    place = (topic, partition)
    return list(log.reader().read(topic, partition, 0, log.admin.end_offsets([place])[place]))


def eventually(find, expected, seconds=20):
    """Ask until the answer is as expected: a commit returns before all partitions have heard of it."""
    deadline = time.monotonic() + seconds
    while (found := find()) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found == expected


def values(log, topic, partition=0):
    return [record.value for record in committed(log, topic, partition)]


# topics


def test_missing_topics_are_created_and_existing_ones_are_left_alone(log, name):
    specs = [TopicSpec(name("a"), 3, {"cleanup.policy": "compact"}), TopicSpec(name("b"), 1)]
    assert sorted(log.admin.ensure_topics(specs)) == sorted(spec.name for spec in specs)
    assert log.admin.ensure_topics(specs) == []
    assert log.admin.partitions([name("a"), name("b")]) == {name("a"): 3, name("b"): 1}
    assert log.admin.configs(name("a"))["cleanup.policy"] == "compact"
    assert log.admin.configs(name("a"), own=True) == {"cleanup.policy": "compact"}
    assert log.admin.configs(name("b"), own=True) == {}
    assert log.admin.topics().items() >= {(name("a"), 3), (name("b"), 1)}


def test_a_topic_that_is_made_anew_is_described_by_another_id(log, topic):
    found = log.admin.describe([topic])[topic]
    assert found == (1, found.topic_id, 1)
    assert found.topic_id
    assert log.admin.describe([topic])[topic] == found
    assert log.admin.brokers() == 1
    log.admin.delete_topics([topic])
    with pytest.raises(TopicError):
        log.admin.describe([topic])
    log.admin.ensure_topics([TopicSpec(topic, 1)])
    assert log.admin.describe([topic])[topic].topic_id not in ("", found.topic_id)


def test_a_topic_with_other_partitions_or_settings_is_refused_with_a_remedy(log, name):
    log.admin.ensure_topics([TopicSpec(name("a"), 2)])
    with pytest.raises(TopicError, match=r"has 2 partitions, but must have 3"):
        log.admin.ensure_topics([TopicSpec(name("a"), 3)])
    wanted = TopicSpec(name("a"), 2, {"cleanup.policy": "compact"})
    with pytest.raises(TopicError, match=r"cleanup.policy is 'delete', but must be 'compact'.*topics alter"):
        log.admin.ensure_topics([wanted])
    log.admin.alter_configs(name("a"), {"cleanup.policy": "compact"})
    assert log.admin.ensure_topics([wanted]) == []


def test_more_retention_than_asked_for_is_welcome(log, name):
    log.admin.ensure_topics([TopicSpec(name("a"), 1, {"retention.ms": "5000"})])
    log.admin.ensure_topics([TopicSpec(name("a"), 1, {"retention.ms": "4000"})])
    with pytest.raises(TopicError, match=r"retention.ms is '5000', but must be '6000'"):
        log.admin.ensure_topics([TopicSpec(name("a"), 1, {"retention.ms": "6000"})])


def test_a_missing_topic_is_named(log, name):
    with pytest.raises(TopicError, match=name("none")):
        log.admin.partitions([name("none")])
    assert log.admin.partitions([]) == {}


@pytest.mark.parametrize("besides", [[], [0]], ids=["alone", "with others"])
def test_offsets_of_a_missing_topic_or_partition_are_an_error_of_that_topic(log, topic, name, besides):
    there = [(topic, partition) for partition in besides]
    for asked in (log.admin.earliest_offsets, log.admin.end_offsets, log.admin.stable_offsets):
        for missing in ((name("none"), 0), (topic, 99)):
            with pytest.raises(TopicError, match=missing[0]):
                asked([*there, missing])


def test_a_deleted_topic_is_gone_and_deleting_it_again_is_no_error(log, topic):
    log.admin.delete_topics([topic])
    assert topic not in log.admin.topics()
    log.admin.delete_topics([topic])
    log.admin.delete_topics([])


# transactions


def test_records_keep_key_value_timestamp_headers_and_order(log, topic, producer):
    rows = [
        (topic, 0, b"k", b"v", 5, (("h", b"1"), ("h", None), ("", b""))),
        (topic, 0, None, None, 7, ()),
        (topic, 0, b"", b"", 6, ()),
    ]
    producer.begin()
    producer.produce(rows)
    producer.commit()
    assert committed(log, topic) == [
        LogRecord(topic, 0, offset, *row[2:]) for offset, row in enumerate(rows)
    ]  # fmt: skip


def test_random_bytes_are_kept(log, topic, producer):
    """Of keys, values and names of headers, which need not be UTF-8; librdkafka ends a name at a byte of zero."""
    chosen = Random(3)

    def some():
        return chosen.choice([None, b"", chosen.randbytes(chosen.randrange(1, 9))])

    def named():
        return chosen.randbytes(chosen.randrange(4)).replace(b"\0", b"").decode("utf-8", "surrogateescape")

    if not isinstance(log, MemoryLog) and partition_queue.loops is None:
        pytest.skip("the loops in C are not built here: librdkafka's Python client writes no such names")
    rows = [(topic, 0, some(), some(), 5 + n, ((named(), some()),)) for n in range(200)]
    assert any(undecodable_name(headers) is not None for *_, headers in rows)
    producer.begin()
    producer.produce(rows)
    producer.commit()
    assert committed(log, topic) == [LogRecord(topic, 0, offset, *row[2:]) for offset, row in enumerate(rows)]
    (columns,) = log.reader().columns(topic, 0, 0, 200)
    assert list(zip(*columns[1:], strict=True)) == [row[2:5] for row in rows]


def test_a_timestamp_of_zero_is_written_as_one(log, topic, producer):
    producer.begin()
    producer.produce([row(topic, b"v", timestamp=0)])
    producer.commit()
    assert [record.timestamp for record in committed(log, topic)] == [1]


def test_a_key_goes_to_the_partition_that_java_chooses(log, name, producer):
    log.admin.ensure_topics([TopicSpec(name("keyed"), 4)])
    keys = [b"", *(f"key-{number}".encode() for number in range(40))]
    producer.begin()
    producer.produce([row(name("keyed"), b"v", key=key, partition=None) for key in keys])
    producer.commit()
    for partition in range(4):
        found = [record.key for record in committed(log, name("keyed"), partition)]
        assert found == [key for key in keys if partition_for(key, 4) == partition]


def test_nothing_is_visible_before_the_commit_and_all_of_it_after(log, name, producer):
    topics = [name("a"), name("b")]
    log.admin.ensure_topics(TopicSpec(each, 1) for each in topics)
    producer.begin()
    producer.produce(row(each, b"v") for each in topics)
    producer.send_offsets(name("group"), {(name("a"), 0): 17})
    producer.flush()
    places = [(each, 0) for each in topics]
    assert log.admin.end_offsets(places) == dict.fromkeys(places, 1)
    assert log.admin.stable_offsets(places) == dict.fromkeys(places, 0)
    assert [log.reader().last_record(each) for each in topics] == [None, None]
    producer.commit()
    assert [values(log, each) for each in topics] == [[b"v"], [b"v"]]
    assert log.admin.committed(name("group"), places) == {(name("a"), 0): 17}
    eventually(lambda: log.admin.committed(name("group")), {(name("a"), 0): 17})
    assert log.admin.committed(name("group"), []) == {}
    eventually(lambda: log.admin.stable_offsets(places), dict.fromkeys(places, 2))  # the marker has an offset, too


def test_an_aborted_transaction_leaves_no_record_and_no_offset(log, topic, name, producer):
    producer.begin()
    producer.produce([row(topic, b"lost")])
    producer.send_offsets(name("group"), {(topic, 0): 17})
    producer.abort()
    producer.begin()
    producer.produce([row(topic, b"kept")])
    producer.commit()
    assert values(log, topic) == [b"kept"]
    assert log.admin.committed(name("group")) == {}


def test_a_transaction_of_offsets_alone_is_committed(log, topic, name, producer):
    producer.begin()
    producer.send_offsets(name("group"), {(topic, 0): 3})
    producer.commit()
    assert log.admin.committed(name("group"), [(topic, 0)]) == {(topic, 0): 3}


def test_an_empty_transaction_is_no_error(log, topic, producer):
    producer.begin()
    producer.commit()
    producer.begin()
    producer.abort()
    assert values(log, topic) == []


def test_a_second_producer_of_an_id_fences_the_first_and_aborts_its_transaction(log, topic, name):
    first, second = (log.producer(name("app")) for _ in range(2))
    first.init()
    first.begin()
    first.produce([row(topic, b"first")])
    first.flush()
    second.init()
    with pytest.raises(FencedError, match=r"another instance.*Only one instance") as caught:
        first.commit()
    assert caught.value.fatal
    second.begin()
    second.produce([row(topic, b"second")])
    second.commit()
    assert values(log, topic) == [b"second"]


def test_a_producer_takes_over_from_itself(log, topic, name):
    producer, other = log.producer(name("app")), log.producer(name("app"))
    producer.init()
    producer.begin()
    producer.produce([(topic, 0, b"k", b"lost", 10, ())])
    producer.init()
    producer.begin()
    producer.produce([(topic, 0, b"k", b"kept", 10, ())])
    producer.commit()
    other.init()
    producer.begin()
    producer.init()
    other.begin()
    other.produce([(topic, 0, b"k", b"fenced", 10, ())])
    with pytest.raises(FencedError, match="another instance"):
        other.commit()
    end = log.admin.end_offsets([(topic, 0)])[topic, 0]
    assert [record.value for record in log.reader().read(topic, 0, 0, end)] == [b"kept"]


def test_a_producer_that_was_fenced_hears_of_it_while_it_hands_over_rows(log, topic, name):
    first, second = (log.producer(name("app")) for _ in range(2))
    first.init()
    first.begin()
    second.init()

    def send():
        first.produce([row(topic, b"first")])
        first.flush()

    for _ in range(2):  # as the rows are refused, and once the client is lost
        with pytest.raises(FencedError, match="another instance"):
            send()


def test_a_row_for_a_missing_topic_fails_the_transaction_which_can_be_aborted(log, topic, name, producer):
    producer.begin()
    producer.produce([row(topic, b"v"), row(name("none"), b"v")])
    with pytest.raises(TopicError, match=name("none")) as caught:
        producer.commit()
    assert caught.value.abortable
    producer.abort()
    producer.begin()
    producer.produce([row(topic, b"again")])
    producer.commit()
    assert values(log, topic) == [b"again"]


def test_a_row_that_is_too_large_is_refused_or_handed_back(log, topic, producer):
    large, small = row(topic, b"x" * 2_000_000), row(topic, b"small")
    producer.begin()
    with pytest.raises(ProductionError, match=topic):
        producer.produce([large])
    refused = []
    producer.produce([large, small], lambda row, error: refused.append(row))
    producer.commit()
    assert refused == [large]
    assert values(log, topic) == [b"small"]


def test_at_least_once_writes_rows_and_then_offsets(log, topic, name):
    producer = log.producer(None)
    producer.init()
    producer.begin()
    producer.produce([row(topic, b"1"), row(topic, b"2")])
    producer.send_offsets(name("group"), {(topic, 0): 5})
    assert log.admin.committed(name("group")) == {}
    producer.commit()
    assert values(log, topic) == [b"1", b"2"]
    assert log.admin.committed(name("group")) == {(topic, 0): 5}
    producer.begin()
    producer.send_offsets(name("group"), {(topic, 0): 9})
    producer.abort()
    producer.begin()
    producer.commit()
    assert log.admin.committed(name("group")) == {(topic, 0): 5}


def test_a_deleted_group_has_no_offsets(log, topic, name, producer):
    producer.begin()
    producer.send_offsets(name("group"), {(topic, 0): 3})
    producer.commit()
    assert log.admin.committed(name("group"), [(topic, 0)]) == {(topic, 0): 3}
    log.admin.delete_group(name("group"))
    assert log.admin.committed(name("group")) == {}
    log.admin.delete_group(name("group"))


# reading


@pytest.fixture
def three_epochs(log, topic, producer):
    """Offsets 0 1 | 2 (marker) | 3 aborted | 4 (marker) | 5 6 | 7 (marker)."""
    for numbers in ((b"0", b"1"), None, (b"5", b"6")):
        producer.begin()
        producer.produce(row(topic, value, timestamp=int(value) * 100) for value in numbers or (b"3",))
        producer.flush()
        if numbers is None:
            producer.abort()
        else:
            producer.commit()
    eventually(lambda: log.admin.stable_offsets([(topic, 0)]), {(topic, 0): 8})
    return topic


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 8, "0 1 5 6"),
        (0, 1, "0"),
        (1, 6, "1 5"),
        (2, 5, ""),
        (6, 7, "6"),
        (6, 8, "6"),
        (7, 8, ""),
        (8, 8, ""),
        (3, 3, ""),
    ],
)
def test_a_range_has_the_committed_records_between_its_offsets(log, three_epochs, start, end, expected):
    found = [record.value.decode() for record in log.reader().read(three_epochs, 0, start, end)]
    assert found == expected.split()


@pytest.mark.parametrize("most", [1, 2, 100])
@pytest.mark.parametrize("start", range(8))
def test_batches_hold_what_is_read_one_by_one(log, three_epochs, start, most):
    records = [(r.key, r.value, r.timestamp) for r in log.reader().read(three_epochs, 0, start, 8)]
    batches = list(log.reader().batches(three_epochs, 0, start, 8, most))
    assert [row for _, rows in batches for row in rows] == records
    assert all(0 < len(rows) <= most for _, rows in batches)
    columns = list(log.reader().columns(three_epochs, 0, start, 8, most))
    assert [row for _, *batch in columns for row in zip(*batch, strict=True)] == records
    assert all(0 < len(keys) <= most for _, keys, _, _ in columns)
    for reached, rows in batches:  # going on from there misses nothing and repeats nothing
        rest = [(r.key, r.value, r.timestamp) for r in log.reader().read(three_epochs, 0, reached, 8)]
        assert rest == records[records.index(rows[-1]) + 1 :]


def test_one_reader_reads_one_range_after_the_other(log, three_epochs):
    reader = log.reader()
    for _ in range(3):
        assert [record.offset for record in reader.read(three_epochs, 0, 0, 8)] == [0, 1, 5, 6]
        assert next(reader.read(three_epochs, 0, 1, 8)).offset == 1


def test_a_range_that_was_left_does_not_disturb_the_next(log, three_epochs):
    reader = log.reader()
    left = reader.read(three_epochs, 0, 0, 8)
    assert next(left).offset == 0
    begun = reader.read(three_epochs, 0, 5, 8)
    assert next(begun).offset == 5
    left.close()
    assert [record.offset for record in begun] == [6]


def test_an_uncommitted_reader_sees_aborted_records_too(log, three_epochs):
    assert [record.offset for record in log.reader(committed=False).read(three_epochs, 0, 0, 8)] == [0, 1, 3, 5, 6]


def test_a_range_beyond_the_end_is_an_error_and_not_a_short_answer(log, three_epochs):
    with pytest.raises(BrokerError, match="was to be read up to 9, but nothing comes after 8"):
        list(log.reader(timeout=0.3).read(three_epochs, 0, 0, 9))


def test_a_range_that_begins_beyond_the_end_is_an_error(log, three_epochs):
    with pytest.raises(BrokerError):
        list(log.reader().read(three_epochs, 0, 20, 30))


def test_the_last_record_is_found_behind_markers_and_aborted_records(log, three_epochs, producer):
    assert log.reader().last_record(three_epochs).offset == 6
    for _ in range(6):
        producer.begin()
        producer.produce([row(three_epochs, b"no")])
        producer.flush()
        producer.abort()
    assert log.reader().last_record(three_epochs).offset == 6


def test_an_empty_partition_has_no_last_record(log, topic):
    assert log.reader().last_record(topic) is None


def test_records_below_an_offset_can_be_deleted(log, name):
    wanted = name("cut")
    log.admin.ensure_topics([TopicSpec(wanted, 2, {"cleanup.policy": "compact,delete", "retention.ms": "-1"})])
    producer = log.producer(None)
    producer.begin()
    producer.produce(row(wanted, str(n).encode(), key=b"k", timestamp=100 + n, partition=n % 2) for n in range(10))
    producer.commit()
    places = [(wanted, 0), (wanted, 1)]
    log.admin.delete_records({(wanted, 0): 3})
    log.admin.delete_records({(wanted, 0): 2, (wanted, 1): 5})
    log.admin.delete_records({})
    assert log.admin.earliest_offsets(places) == {(wanted, 0): 3, (wanted, 1): 5}
    assert log.admin.end_offsets(places) == {(wanted, 0): 5, (wanted, 1): 5}
    assert [record.value for record in log.reader().read(wanted, 0, 3, 5)] == [b"6", b"8"]
    assert log.admin.offsets_for_times({(wanted, 0): 0}) == {(wanted, 0): 3}
    assert log.reader().last_record(wanted, 0).value == b"8"
    assert log.reader().last_record(wanted, 1) is None
    with pytest.raises(BrokerError):
        list(log.reader().read(wanted, 0, 2, 5))
    with pytest.raises(BrokerError, match="delete records"):
        log.admin.delete_records({(wanted, 0): 9})


def test_a_time_has_an_offset(log, topic):
    producer, place = log.producer(None), (topic, 0)
    producer.begin()
    producer.produce(row(topic, b"v", timestamp=timestamp) for timestamp in (100, 300, 200, 400))
    producer.commit()
    found = {time: log.admin.offsets_for_times({place: time})[place] for time in (0, 100, 101, 400, 401)}
    assert found == {0: 0, 100: 0, 101: 1, 400: 3, 401: None}
    assert log.admin.earliest_offsets([place]) == {place: 0}
    assert log.admin.offsets_for_times({}) == {}


def test_the_marker_of_a_transaction_has_the_time_of_its_end(log, three_epochs):
    place = (three_epochs, 0)
    found = {time: log.admin.offsets_for_times({place: time})[place] for time in (100, 101, 2**50)}
    assert found == {100: 1, 101: 2, 2**50: None}


def test_followers_see_what_comes(log, three_epochs, producer):
    records = log.reader().follow({(three_epochs, 0): 6})
    assert next(record for record in records if record is not None).offset == 6
    producer.begin()
    producer.produce([row(three_epochs, b"8")])
    producer.commit()
    assert next(record for record in records if record is not None).value == b"8"
    assert next(records) is None
