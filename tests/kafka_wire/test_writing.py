"""What is written is what a consumer reads, and what the settings say is done."""

from __future__ import annotations

import logging
import random
import threading

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.errors import BrokerError, ConfigError, ProductionError, TopicError
from penstock.kafka_wire.producer import PlainWire, TransactionalWire
from penstock.kafka_wire.settings import UnsupportedSetting, parse_settings
from penstock.log import producers
from penstock.log.base import RowColumns, TopicSpec
from penstock.log.kafka import KafkaLog
from penstock.log.partitioner import partition_for
from penstock.log.producer import PlainProducer, TransactionalProducer

PARTITIONS = 4


@pytest.fixture(autouse=True)
def built():
    if not producers.uses_wire():
        pytest.skip("the loops in C are not built here")


@pytest.fixture
def kafka(kafka_broker):
    made = []

    def make(settings=None, **more):
        made.append(KafkaLog(kafka_broker.bootstrap_servers, settings, **{"timeout": 30} | more))
        return made[-1]

    yield make
    for log in made:
        log.close()


@pytest.fixture
def topic(kafka, name):
    wanted = name("written")
    kafka().admin.ensure_topics([TopicSpec(wanted, PARTITIONS)])
    return wanted


def consumed(kafka_broker, topic, count):
    """Read everything with a consumer of librdkafka: rows of each partition, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka_broker.bootstrap_servers,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found = {partition: [] for partition in range(PARTITIONS)}
    while sum(map(len, found.values())) < count:
        for message in consumer.consume(10_000, 10):
            assert message.error() is None
            headers = tuple(message.headers() or ())
            row = (message.key(), message.value(), message.timestamp()[1], headers)
            found[message.partition()].append(row)
    consumer.close()
    return found


def values(log, topic):
    """The committed values of the first partition; waits for the marker of a transaction that was just committed."""
    end = log.admin.end_offsets([(topic, 0)])[topic, 0]
    return [record.value for record in log.reader().read(topic, 0, 0, end)]


def columns(topic, rows, places=None):
    keys, values, times, headers = zip(*rows, strict=True)
    numbers = None if places is None else np.array(places, np.int32)
    given = headers if any(headers) else None
    return RowColumns(
        topic, numbers, pa.array(keys, pa.binary()), pa.array(values, pa.binary()), np.array(times), given
    )


def some_rows(count, seed=1, headers=False):
    chosen = random.Random(seed)
    return [
        (
            b"key-%d" % chosen.randrange(100),
            None if n % 50 == 0 else chosen.randbytes(chosen.randrange(300)) + b"-%d" % n,
            1_700_000_000_000 - n if n % 3 else n + 1,
            (("n", b"%d" % n), ("e", b""), ("ü", None)) if headers and n % 2 else (),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("headers", [False, True])
@pytest.mark.parametrize(
    "settings", [{}, {"batch.size": 2000}, {"compression.type": "gzip"}, {"compression.codec": "zstd"}]
)
def test_a_consumer_reads_what_was_written_where_java_puts_it(kafka, kafka_broker, topic, name, settings, headers):
    rows = some_rows(20_000, headers=headers)
    producer = kafka(settings).producer(name("app"))
    assert isinstance(producer.wire, TransactionalWire)
    producer.init()
    producer.begin()
    for first in range(0, len(rows), 3000):
        producer.produce_columns(columns(topic, rows[first : first + 3000]))
    producer.commit()
    found = consumed(kafka_broker, topic, len(rows))
    for partition in range(PARTITIONS):
        assert found[partition] == [row for row in rows if partition_for(row[0], PARTITIONS) == partition]


@pytest.mark.parametrize("codec", ["lz4", "snappy"])
def test_other_codecs_are_librdkafka_s(kafka, name, codec):
    assert isinstance(kafka({"compression.type": codec}).producer(name("app")), TransactionalProducer)


def test_rows_without_a_key_are_spread(kafka, kafka_broker, topic):
    producer = kafka().producer(None)
    producer.begin()
    for _ in range(40):
        producer.produce_columns(columns(topic, [(None, b"v", 5, ())] * 1500))
    producer.produce([(topic, None, None, b"w", 5, ())] * 10)
    producer.commit()
    found = consumed(kafka_broker, topic, 60_010)
    assert min(map(len, found.values())) > 1500


def test_a_partition_that_does_not_exist_is_refused_and_the_others_go_on(kafka, kafka_broker, topic, name):
    rows, refused = [(b"k", b"%d" % n, 5, ()) for n in range(6)], []
    producer = kafka().producer(name("app"))
    producer.init()
    producer.begin()
    producer.produce_columns(
        columns(topic, rows, [0, 9, 1, -1, 4, 3]), lambda row, error: refused.append((row, str(error)))
    )
    with pytest.raises(ProductionError, match=f"{topic}-9 was refused"):
        producer.produce_columns(columns(topic, rows[:1], [9]))
    producer.commit()
    assert [row for row, _ in refused] == [(topic, 9, b"k", b"1", 5, ()), (topic, 4, b"k", b"4", 5, ())]
    found = consumed(kafka_broker, topic, 4)
    expected = {0: [b"0"], 1: [b"2"], 2: [], 3: [b"5"]}
    expected[partition_for(b"k", PARTITIONS)].append(b"3")
    assert {partition: [row[1] for row in its] for partition, its in found.items()} == {
        partition: sorted(its) for partition, its in expected.items()
    }


def test_a_row_is_refused_while_it_is_at_hand(kafka, topic, name):
    """Who hands over rows one by one knows then where the refused one came from."""
    producer = kafka({"message.max.bytes": 2000}).producer(name("app"))
    producer.init()
    producer.begin()
    at, refused = -1, []

    def given():
        nonlocal at
        for at in range(5000):
            size = 1950 if at == 3 else 2500 if at % 1000 == 7 else 10
            headers = (("h", b"x" * 2000),) if at == 1500 else ()
            yield (topic, 9 if at == 4000 else 0, b"k", b"x" * size, 5, headers)

    producer.produce(given(), lambda row, error: refused.append(at))
    producer.commit()
    assert refused == [3, 7, 1007, 1500, 2007, 3007, 4000, 4007]


def test_a_refused_row_may_be_answered_by_another_row(kafka, kafka_broker, topic, name):
    """A dead letter is written from inside the call that was refused."""
    producer = kafka({"message.max.bytes": 2000, "batch.size": 1500}).producer(name("app"))
    producer.init()
    producer.begin()
    rows = [(b"k", b"x" * (3000 if n % 7 == 3 else 600), 5, ()) for n in range(50)]
    producer.produce_columns(
        columns(topic, rows, [0] * 50), lambda row, error: producer.produce([(topic, 1, None, b"letter", 5, ())])
    )
    producer.commit()
    found = consumed(kafka_broker, topic, 50)
    assert [len(found[partition]) for partition in range(PARTITIONS)] == [43, 7, 0, 0]


def test_a_topic_that_appears_late_is_waited_for(kafka, name):
    log, topic = kafka({"producer.topic.metadata.propagation.max.ms": 10_000}), name("late")
    producer = log.producer(name("app"))
    producer.init()
    producer.begin()
    threading.Timer(0.5, lambda: log.admin.ensure_topics([TopicSpec(topic, 1)])).start()
    producer.produce([(topic, 0, b"k", b"v", 5, ())])
    producer.commit()
    assert values(log, topic) == [b"v"]


def test_a_topic_that_is_deleted_and_made_again_is_found_again(kafka, name):
    log, topic = kafka({"topic.metadata.propagation.max.ms": 5000}), name("again")
    producer = log.producer(name("app"))
    producer.init()
    for partitions in (3, 1):
        log.admin.ensure_topics([TopicSpec(topic, partitions)])
        producer.begin()
        producer.produce([(topic, 0, b"k", b"v", 5, ())])
        producer.commit()
        assert values(log, topic) == [b"v"]
        log.admin.delete_topics([topic])
    producer.begin()
    producer.produce([(topic, 0, b"k", b"v", 5, ())])
    with pytest.raises(TopicError, match=topic) as caught:
        producer.commit()
    assert caught.value.abortable
    producer.abort()


def test_what_was_refused_once_is_refused_until_the_abort(kafka, name):
    log, topic = kafka(), name("small")
    log.admin.ensure_topics([TopicSpec(topic, 2, {"max.message.bytes": "50000"})])
    producer = log.producer(name("app"))
    producer.init()
    producer.begin()
    producer.produce([(topic, 0, b"k", b"x" * 60_000, 5, ())])
    for call in (producer.flush, producer.commit, lambda: producer.send_offsets(name("group"), {(topic, 0): 1})):
        with pytest.raises(BrokerError, match=f"deliver 1 rows, the first to {topic}-0") as caught:
            call()
        assert caught.value.abortable
    producer.abort()
    producer.begin()
    producer.produce([(topic, 0, b"k", b"y", 5, ())])
    producer.commit()
    assert values(log, topic) == [b"y"]


def test_a_timed_out_transaction_is_fenced_and_init_goes_on(kafka, topic, name):
    log = kafka({"transaction.timeout.ms": 1000})
    producer = log.producer(name("app"))
    producer.init()
    producer.begin()
    producer.produce([(topic, 0, b"k", b"old", 5, ())])
    producer.flush()
    while log.admin.stable_offsets([(topic, 0)]) != {(topic, 0): 2}:  # until the broker has aborted it
        pass
    with pytest.raises(BrokerError) as caught:
        producer.commit()
    assert caught.value.fatal
    producer.init()
    producer.begin()
    producer.produce([(topic, 0, b"k", b"new", 5, ())])
    producer.commit()
    assert values(log, topic) == [b"new"]


# which writer is used


@pytest.mark.parametrize(
    "settings",
    [
        {"debug": "all"},
        {"sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_SSL"},
        {"producer.partitioner": "random"},
        {"acks": 1},
        {"error_cb": print},
    ],
    ids=str,
)
def test_settings_that_are_not_known_are_left_to_librdkafka(kafka, name, settings, caplog):
    caplog.set_level(logging.DEBUG, "penstock.kafka")
    if settings == {"acks": 1}:
        with pytest.raises(ConfigError, match="acks"):  # as it does not go together with transactions
            kafka(settings).producer(name("app"))
    elif "OAUTHBEARER" not in settings.values():
        assert isinstance(kafka(settings).producer(name("app")), TransactionalProducer)
    assert next(iter(settings)).removeprefix("producer.") in caplog.text or "OAUTHBEARER" in str(settings)


def test_without_the_loop_in_c_rows_are_librdkafka_s(kafka, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, "penstock.kafka")
    monkeypatch.setattr(producers, "uses_wire", lambda: False)
    assert isinstance(kafka().producer(None), PlainProducer)
    assert "not built" in caplog.text


def test_it_can_be_left_out_by_a_setting(kafka, monkeypatch):
    assert isinstance(kafka().producer(None).wire, PlainWire)
    monkeypatch.setenv("PENSTOCK_WIRE", "0")
    assert isinstance(kafka().producer(None), PlainProducer)


def test_a_file_that_is_not_there_is_an_error_of_the_settings(kafka, name):
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location"):
        kafka({"security.protocol": "SSL", "ssl.ca.location": "nowhere.pem"}).producer(name("app"))


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ({}, "batch_bytes", 1_000_000),
        ({"batch.size": "5000"}, "batch_bytes", 5000),
        ({"message.max.bytes": 3000}, "batch_bytes", 3000),
        ({"retry.backoff.ms": 50}, "backoff_seconds", 0.05),
        ({"transaction.timeout.ms": 7000}, "transaction_ms", 7000),
        ({"sasl.mechanisms": "scram-sha-256", "security.protocol": "sasl_plaintext"}, "mechanism", "SCRAM-SHA-256"),
        ({"enable.idempotence": True, "acks": "all", "request.required.acks": -1}, "largest", 1_000_000),
        ({"compression.codec": "gzip", "compression.level": 3}, "level", 3),
    ],
    ids=str,
)
def test_settings_keep_their_meaning(given, field, expected):
    assert getattr(parse_settings({"bootstrap.servers": "a:1"} | given), field) == expected


def test_the_smaller_of_two_batch_sizes_counts():
    assert parse_settings({"bootstrap.servers": "a", "batch.size": 5000}, 3000).batch_bytes == 3000
    assert parse_settings({"bootstrap.servers": "a", "batch.size": 5000}, 9000).batch_bytes == 5000


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch.size": "many"},
        {"batch.size": -1},
        {"compression.type": "other"},
        {"bootstrap.servers": "a:b"},
        {"xyz": 1},
    ],
    ids=str,
)
def test_what_is_not_understood_is_not_guessed(wrong):
    with pytest.raises(UnsupportedSetting):
        parse_settings({"bootstrap.servers": "a:1"} | wrong)


def test_passwords_are_not_shown():
    assert "secret" not in repr(parse_settings({"bootstrap.servers": "a:1", "sasl.password": "secret"}))
