"""An application on the oldest broker that is supported: exactly once, through failed epochs, restarts and lost state."""

import pytest

from penstock import Serdes, Stores, StreamsBuilder
from penstock.dev import server
from penstock.dev.broker import QUICK_START, Broker
from penstock.errors import BrokerError
from penstock.log import producers
from penstock.log.wire_producer import WireProducer

START = 1_600_000_020_000
TEXT = {"key": Serdes.string, "value": Serdes.string}
KEYS = [f"k{n}" for n in range(10)]
#: who writes, and the most records of an epoch that the driver reads itself
RUNS = [("wire", 20_000), ("librdkafka", 0), ("wire", 0)]


@pytest.fixture
def kafka_broker():
    """The oldest broker in place of the one that all tests share."""
    with Broker(java_options=[QUICK_START], kafka=server.OLDEST_KAFKA) as broker:
        yield broker


@pytest.fixture(autouse=True)
def _no_topics_are_left():
    """They go with the broker."""


def counting(lines, out):
    builder = StreamsBuilder()
    counts = builder.stream(lines, **TEXT).group_by_key().count(store=Stores.key_value("counts", cached=False))
    counts.to_stream().to(out, value=Serdes.int64)
    return builder


def failing_once(driven):
    """Fail before the first commit, with all rows of the epoch in the log."""
    failed = []

    def observe(step, epoch):
        if step == "commit" and not failed:
            failed.append(epoch)
            driven.engine._producer.flush()
            raise BrokerError("planted", retriable=True, abortable=True)

    driven.loop.observers.append(observe)


def test_counts_are_exact_after_failed_epochs_restarts_and_lost_state(start, cluster, monkeypatch, by_key):
    lines, out = cluster.topic("lines", 2), cluster.topic("out")
    built = producers.uses_wire()
    for number, (body, most) in enumerate(RUNS, 1):
        monkeypatch.setattr(producers, "uses_wire", lambda wire=built and body == "wire": wire)
        driven = start(counting(lines, out), inline_epoch_records=most)
        assert isinstance(driven.engine._producer, WireProducer) == (body == "wire" and built)
        failing_once(driven)
        cluster.send(lines, *((key, "v", START, n % 2) for n, key in enumerate(KEYS)))
        driven.drain()
        assert driven.loop.totals.retries == 1
        assert dict(driven.view("counts").all()) == dict.fromkeys(KEYS, number)
        driven.close()
        if number == 2:
            start.forget()
    assert by_key(cluster.numbers(out)) == {key: [(n,) for n in range(1, len(RUNS) + 1)] for key in KEYS}
