"""The oldest broker that is supported: what is written and read there, and that late rows stay invisible although it verifies nothing."""

from __future__ import annotations

import logging

import pytest
from proxy import Proxy

from penstock.dev import server
from penstock.dev.broker import QUICK_START, Broker
from penstock.errors import FencedError
from penstock.kafka_wire.producer import VERIFYING, TransactionalWire
from penstock.kafka_wire.protocol import requests
from penstock.log import producers
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog


@pytest.fixture(scope="module")
def through():
    """A proxy with the oldest broker behind it."""
    proxy = Proxy()
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
    with Broker(java_options=[QUICK_START], settings=advertised, kafka=server.OLDEST_KAFKA) as broker:
        proxy.target = broker.port
        yield proxy
    proxy.close()


@pytest.fixture
def log(through):
    made = KafkaLog(f"127.0.0.1:{through.port}", timeout=30)
    yield made
    made.close()


@pytest.fixture
def topic(log, name):
    wanted = name("old")
    log.admin.ensure_topics([TopicSpec(wanted, 2, {"cleanup.policy": "compact"})])
    return wanted


def rows(topic, first, last):
    return [(topic, n % 2, b"k%d" % n, b"%d" % n, 5 + n, (("h", b"1"),)) for n in range(first, last)]


def write(producer, topic, group, first, last):
    producer.begin()
    producer.produce(rows(topic, first, last))
    producer.send_offsets(group, {(topic, 0): last})


def found(log, topic):
    places = [(topic, 0), (topic, 1)]
    while log.admin.stable_offsets(places) != (ends := log.admin.end_offsets(places)):
        pass
    reader = log.reader()
    return sorted(int(record.value) for place in places for record in reader.read(*place, 0, ends[place]))


def test_both_writers_commit_and_abort_and_all_readers_read(log, topic, name, body):
    first, second = (log.producer(name("app")) for _ in range(2))
    first.init()
    assert isinstance(getattr(first, "wire", None), TransactionalWire) == (body == "wire")
    write(first, topic, name("group"), 0, 100)
    first.commit()
    write(first, topic, name("group"), 100, 200)
    first.flush()
    first.abort()
    write(first, topic, name("group"), 200, 300)
    first.commit()
    second.init()
    first.begin()
    first.produce(rows(topic, 300, 400))
    with pytest.raises(FencedError):
        first.commit()
    plain = log.producer(None)
    plain.init()
    plain.begin()
    plain.produce(rows(topic, 400, 402))
    plain.commit()
    assert found(log, topic) == [*range(100), *range(200, 300), 400, 401]
    assert log.admin.committed(name("group"), [(topic, 0)]) == {(topic, 0): 300}
    (read, other) = log.ranges(timeout=10).read([(topic, 0, 0, 50), (topic, 1, 0, 50)], 1 << 20)
    assert read.values.to_pylist() == [b"%d" % n for n in range(0, 100, 2)]
    assert other.headers == [(("h", b"1"),)] * 50
    last = log.reader().last_record(topic, 1)
    assert last is not None
    assert last.value == b"401"
    assert log.admin.configs(topic)["cleanup.policy"] == "compact"


def test_rows_that_come_after_their_transaction_was_aborted_are_never_visible(through, log, topic, name, caplog):
    if not producers.uses_wire():
        pytest.skip("the loops in C are not built here")
    producer = log.producer(name("app"))
    with caplog.at_level(logging.WARNING, "penstock.kafka"):
        producer.init()
    assert producer.wire._cluster.newest(requests.ADD_PARTITIONS) < VERIFYING
    assert "does not verify which partitions take part" in caplog.text
    write(producer, topic, name("group"), 0, 100)
    producer.commit()
    through.cut_once(requests.PRODUCE.key, "hold")
    write(producer, topic, name("group"), 100, 200)
    producer.abort()
    through.decide = lambda api: None
    through.release()
    write(producer, topic, name("group"), 200, 300)
    producer.commit()
    assert found(log, topic) == [*range(100), *range(200, 300)]
