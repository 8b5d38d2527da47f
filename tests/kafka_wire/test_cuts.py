"""Connections that are cut in the middle: no row twice, none lost, all of a transaction or nothing."""

from __future__ import annotations

import contextlib
import os
import random
import threading

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from proxy import HOW, Proxy

from penstock.dev.broker import QUICK_START, Broker
from penstock.errors import BrokerError, FencedError, ProductionError, TopicError
from penstock.kafka_wire.producer import PlainWire, TransactionalWire
from penstock.kafka_wire.protocol import requests
from penstock.log import producers
from penstock.log.base import RowColumns, TopicSpec
from penstock.log.kafka import KafkaLog

PARTITIONS = 3
#: small, so that a transaction has many of them
SMALL = {"producer.batch.size": 5_000}
TRANSACTION = (requests.ADD_PARTITIONS, requests.ADD_OFFSETS, requests.TXN_OFFSETS, requests.END_TRANSACTION)
OTHERS = (requests.FIND_COORDINATOR, requests.INIT_PRODUCER, requests.METADATA, requests.VERSIONS)

#: the long form cuts at more places
LONG = bool(os.environ.get("PENSTOCK_LONG"))


@pytest.fixture(scope="module")
def through():
    """A proxy with a broker behind it, which tells clients to come through the proxy."""
    proxy = Proxy()
    advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
    with Broker(java_options=[QUICK_START], settings=advertised, auto_create_topics=True) as broker:
        proxy.target = broker.port
        yield proxy, broker
    proxy.close()


@pytest.fixture
def proxy(through):
    if not producers.uses_wire():
        pytest.skip("the loops in C are not built here")
    proxy = through[0]
    proxy.cuts.clear()
    yield proxy
    proxy.decide = lambda api: None
    proxy.closed = False


@pytest.fixture
def log(proxy):
    made = KafkaLog(f"127.0.0.1:{proxy.port}", SMALL, timeout=30)
    yield made
    made.close()


@pytest.fixture
def topic(log, name):
    wanted = name("cut")
    log.admin.ensure_topics([TopicSpec(wanted, PARTITIONS)])
    return wanted


def columns(topic, first, last):
    numbers = range(first, last)
    keys = pa.array([b"%d" % (n % 100) for n in numbers], pa.binary())
    values = pa.array([b"%d" % n for n in numbers], pa.binary())
    return RowColumns(topic, None, keys, values, np.arange(first, last) + 1, None)


def found(log, topic):
    """The numbers that are committed; those of a partition are in order."""
    everything = []
    for partition in range(PARTITIONS):
        end = log.admin.end_offsets([(topic, partition)])[topic, partition]
        numbers = [int(record.value) for record in log.reader().read(topic, partition, 0, end)]
        assert numbers == sorted(numbers)
        everything += numbers
    return sorted(everything)


def write(producer, topic, group, first, last):
    producer.begin()
    for begin in range(first, last, 1000):
        producer.produce_columns(columns(topic, begin, min(begin + 1000, last)))
    producer.send_offsets(group, {(topic, 0): last})


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("api", [requests.PRODUCE, *TRANSACTION, *OTHERS], ids=lambda api: api.name)
def test_a_cut_at_any_request_is_mended(proxy, log, topic, name, api, how):
    if api in OTHERS:
        proxy.cut_once(api.key, how)
    producer = log.producer(name("app"))
    assert isinstance(producer.wire, TransactionalWire)
    producer.init()
    write(producer, topic, name("group"), 0, 2000)
    producer.commit()
    if api not in OTHERS:
        proxy.cut_once(api.key, how)
    write(producer, topic, name("group"), 2000, 5000)
    producer.commit()
    assert proxy.cuts == [(api.key, how)]
    write(producer, topic, name("group"), 5000, 6000)
    producer.abort()
    write(producer, topic, name("group"), 6000, 7000)
    producer.commit()
    assert found(log, topic) == [*range(5000), *range(6000, 7000)]
    assert log.admin.committed(name("group"), [(topic, 0)]) == {(topic, 0): 7000}


@pytest.mark.parametrize("at", [1, 2, 4, 9] if LONG else [1, 4])
@pytest.mark.parametrize("how", HOW)
def test_a_cut_in_the_middle_of_many_batches_is_mended(proxy, log, topic, name, how, at):
    producer = log.producer(name("app"))
    producer.init()
    proxy.cut_once(requests.PRODUCE.key, how, at)
    write(producer, topic, name("group"), 0, 5000)
    producer.commit()
    assert len(proxy.cuts) == 1
    assert found(log, topic) == [*range(5000)]


@pytest.mark.parametrize("at", [1, 3, 6] if LONG else [1, 3])
@pytest.mark.parametrize("code", [6, -6, 19, -20, 7, -7, 3, 5, 56] if LONG else [6, -20, -7, 3])
def test_batches_that_a_broker_refuses_for_a_moment_are_sent_again(proxy, log, topic, name, code, at):
    """Written or not (−): those that follow are out of order then, or were written before."""
    producer = log.producer(name("app"))
    producer.init()
    write(producer, topic, name("group"), 0, 1000)
    producer.commit()
    proxy.cut_once(requests.PRODUCE.key, code, at)
    write(producer, topic, name("group"), 1000, 6000)
    producer.commit()
    assert proxy.cuts == [(requests.PRODUCE.key, code)]
    assert found(log, topic) == [*range(6000)]


@pytest.mark.parametrize("code", [45, 59, 87])
def test_batches_that_a_broker_refuses_for_good_fail_the_transaction_which_can_be_run_again(
    proxy, log, topic, name, code
):
    producer = log.producer(name("app"))
    producer.init()
    proxy.cut_once(requests.PRODUCE.key, code, 3)
    write(producer, topic, name("group"), 0, 0)
    producer.produce_columns(columns(topic, 0, 5000))
    with pytest.raises(BrokerError, match=f"deliver .* the first to {topic}") as caught:
        producer.commit()
    assert caught.value.abortable
    assert not caught.value.fatal
    producer.abort()
    write(producer, topic, name("group"), 0, 5000)
    producer.commit()
    assert found(log, topic) == [*range(5000)]


@pytest.mark.parametrize("how", HOW)
def test_an_abort_that_is_cut_is_an_abort(proxy, log, topic, name, how):
    producer = log.producer(name("app"))
    producer.init()
    write(producer, topic, name("group"), 0, 1000)
    producer.flush()
    proxy.cut_once(requests.END_TRANSACTION.key, how)
    producer.abort()
    write(producer, topic, name("group"), 1000, 2000)
    producer.commit()
    assert found(log, topic) == [*range(1000, 2000)]


def verify(broker, *, enabled):
    """Have the broker verify which partitions take part in a transaction, or not."""
    entry = ConfigEntry(
        "transaction.partition.verification.enable",
        str(enabled).lower(),
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()


@pytest.fixture(params=[True, False], ids=["verified", "not verified"])
def verified(through, request):
    verify(through[1], enabled=request.param)
    yield request.param
    verify(through[1], enabled=True)


@pytest.mark.parametrize("how", ["abort", "init"])
def test_rows_that_come_after_their_transaction_was_aborted_are_never_visible(
    proxy, verified, log, topic, name, how, monkeypatch
):
    """The answer is lost, and the request reaches the broker only when the transaction has ended."""
    producer = log.producer(name("app"))
    producer.init()
    write(producer, topic, name("group"), 0, 1000)
    producer.commit()
    proxy.cut_once(requests.PRODUCE.key, "hold")
    write(producer, topic, name("group"), 1000, 2000)
    if how == "init":  # the abort ends the transaction, and fails before the rows are locked out
        monkeypatch.setattr(producer.wire, "_begin_as", lambda identity: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            producer.abort()
        monkeypatch.undo()
        producer.init()
    else:
        producer.abort()
    assert proxy.cuts == [(requests.PRODUCE.key, "hold")]
    proxy.release()
    write(producer, topic, name("group"), 2000, 3000)
    producer.commit()
    assert found(log, topic) == [*range(1000), *range(2000, 3000)]
    places = [(topic, partition) for partition in range(PARTITIONS)]
    while log.admin.stable_offsets(places) != log.admin.end_offsets(places):
        pass  # no transaction is left open


def test_an_abort_waits_for_the_answers_to_what_was_sent_and_keeps_its_identity(proxy, log, topic, name):
    producer = log.producer(name("app"))
    producer.init()
    identity = producer.wire._identity
    for first in range(0, 3000, 1000):
        write(producer, topic, name("group"), first, first + 1000)
        producer.abort()
    assert producer.wire._identity == identity
    write(producer, topic, name("group"), 3000, 4000)
    producer.commit()
    assert found(log, topic) == [*range(3000, 4000)]


def test_a_topic_that_is_gone_is_no_reason_not_to_abort(proxy, topic, name):
    log = KafkaLog(f"127.0.0.1:{proxy.port}", SMALL | {"producer.topic.metadata.propagation.max.ms": 100}, timeout=30)
    producer = log.producer(name("app"))
    producer.init()
    proxy.cut_once(requests.PRODUCE.key, "hold")
    write(producer, topic, name("group"), 0, 1000)
    log.admin.delete_topics([topic])
    producer.abort()
    proxy._held.clear()
    log.admin.ensure_topics([TopicSpec(name("other"), PARTITIONS)])
    write(producer, name("other"), name("group"), 0, 1000)
    producer.commit()
    assert found(log, name("other")) == [*range(1000)]
    log.close()


@pytest.mark.parametrize("transactional", [True, False])
def test_a_partition_of_which_an_answer_says_nothing_is_sent_again(proxy, log, topic, name, transactional):
    producer = log.producer(name("app") if transactional else None)
    producer.init()
    proxy.cut_once(requests.PRODUCE.key, "omit")
    producer.begin()
    producer.produce_columns(columns(topic, 0, 1000))
    producer.commit()
    assert proxy.cuts == [(requests.PRODUCE.key, "omit")]
    assert found(log, topic) == [*range(1000)]


def test_connections_that_died_while_nobody_used_them_are_not_used_again(proxy, topic, name):
    """They are half open: what is sent is lost, and nothing comes."""
    log = KafkaLog(f"127.0.0.1:{proxy.port}", SMALL | {"producer.connections.max.idle.ms": 50}, timeout=5)
    producer = log.producer(name("app"))
    producer.init()
    write(producer, topic, name("group"), 0, 1000)
    producer.commit()
    proxy.mute()
    threading.Event().wait(0.1)
    write(producer, topic, name("group"), 1000, 2000)
    producer.commit()
    assert found(log, topic) == [*range(2000)]
    log.close()


def test_a_connection_on_which_no_answer_comes_is_made_anew(proxy, topic, name):
    log = KafkaLog(f"127.0.0.1:{proxy.port}", SMALL | {"producer.socket.timeout.ms": 500}, timeout=30)
    producer = log.producer(name("app"))
    producer.init()
    write(producer, topic, name("group"), 0, 1000)
    proxy.mute()
    producer.commit()
    assert found(log, topic) == [*range(1000)]
    log.close()


def test_nobody_makes_a_topic_by_asking_for_it(through, body, name):
    """Not even on a cluster that makes topics for whoever asks."""
    impatient = {"producer.topic.metadata.propagation.max.ms": 100}
    log = KafkaLog(through[1].bootstrap_servers, impatient, timeout=10)
    missing, plain = name("missing"), log.producer(None)
    made = log.producer(name("app"))
    made.init()
    made.begin()
    for producer in (made, plain):
        with contextlib.suppress(ProductionError):
            producer.produce([(missing, 0, b"k", b"v", 5, ())])
        producer.produce([(missing, None, b"k", b"v", 5, ())])
        with pytest.raises(BrokerError):
            producer.flush()
    with pytest.raises(BrokerError):
        next(log.reader(timeout=0.5).read(missing, 0, 0, 5))
    with pytest.raises(BrokerError):
        log.ranges(timeout=0.5).read([(missing, 0, 0, 5)], 1000)
    next(log.reader().follow({(missing, 0): 0}))
    with pytest.raises(TopicError):
        log.admin.partitions([missing])
    with pytest.raises(TopicError):
        log.admin.end_offsets([(missing, 0)])
    assert missing not in log.admin.topics()
    log.close()


@pytest.mark.parametrize("seed", range(20 if LONG else 3))
def test_any_cuts_at_any_time_leave_what_was_committed(proxy, log, topic, name, seed):
    chosen = random.Random(seed)
    producer = log.producer(name("app"))
    producer.init()

    def decide(api):
        ways = (*HOW, 6, -7, "omit") if api == requests.PRODUCE.key else HOW
        return chosen.choice(ways) if chosen.random() < 0.15 else None

    proxy.decide = decide
    expected = []
    for first in range(0, 20_000, 1000):
        write(producer, topic, name("group"), first, first + 1000)
        if chosen.random() < 0.3:
            producer.abort()
        else:
            producer.commit()
            expected += range(first, first + 1000)
    proxy.decide = lambda api: None
    assert proxy.cuts
    assert found(log, topic) == expected


@pytest.mark.parametrize("seed", range(10 if LONG else 1))
def test_at_least_once_loses_nothing_and_while_it_lives_writes_nothing_twice(proxy, log, topic, name, seed):
    chosen = random.Random(seed)
    producer = log.producer(None)
    assert isinstance(producer.wire, PlainWire)
    producer.init()
    proxy.decide = lambda api: chosen.choice(HOW) if chosen.random() < 0.3 else None
    for first in range(0, 10_000, 1000):
        write(producer, topic, name("group"), first, first + 1000)
        producer.commit()
    proxy.decide = lambda api: None
    assert proxy.cuts
    assert found(log, topic) == [*range(10_000)]
    assert log.admin.committed(name("group"), [(topic, 0)]) == {(topic, 0): 10_000}


@pytest.mark.parametrize("how", HOW)
def test_a_commit_without_an_answer_is_unknown_until_the_producer_takes_over_from_itself(proxy, topic, name, how):
    log = KafkaLog(f"127.0.0.1:{proxy.port}", SMALL, timeout=1)
    producer = log.producer(name("app"))
    producer.init()
    write(producer, topic, name("group"), 0, 3000)
    producer.flush()
    proxy.decide = lambda api: how if api == requests.END_TRANSACTION.key else None
    with pytest.raises(BrokerError, match="commit the transaction") as caught:
        producer.commit()
    assert caught.value.retriable
    assert not caught.value.abortable
    assert not caught.value.fatal
    proxy.decide = lambda api: None
    producer.init()
    assert found(log, topic) == ([*range(3000)] if how == "after" else [])
    write(producer, topic, name("group"), 3000, 4000)
    producer.commit()
    assert found(log, topic)[-1000:] == [*range(3000, 4000)]
    log.close()


def test_a_cluster_that_is_away_for_too_long_may_be_aborted_when_it_is_back(proxy, topic, name):
    log = KafkaLog(f"127.0.0.1:{proxy.port}", SMALL, timeout=1)
    producer = log.producer(name("app"))
    producer.init()
    producer.begin()
    proxy.closed = True
    producer.produce_columns(columns(topic, 0, 3000))
    with pytest.raises(BrokerError) as caught:
        producer.commit()
    assert caught.value.retriable
    assert caught.value.abortable
    with pytest.raises(BrokerError):
        producer.abort()
    proxy.closed = False
    producer.abort()
    write(producer, topic, name("group"), 3000, 4000)
    producer.commit()
    assert found(log, topic) == [*range(3000, 4000)]
    log.close()


def test_expediting_ends_the_wait(proxy, topic, name):
    log = KafkaLog(f"127.0.0.1:{proxy.port}", SMALL, timeout=600)
    producer = log.producer(name("app"))
    producer.init()
    producer.begin()
    producer.produce_columns(columns(topic, 0, 3000))
    proxy.closed = True
    threading.Timer(0.5, log.expedite).start()
    with pytest.raises(BrokerError):
        producer.commit()
    proxy.closed = False
    log.close()


def test_ctrl_c_leaves_a_transaction_that_can_only_be_aborted(proxy, log, topic, name):
    producer = log.producer(name("app"))
    producer.init()
    write(producer, topic, name("group"), 0, 2000)
    for first in (2000, 4000):

        def interrupt(api):
            raise KeyboardInterrupt

        producer.produce_columns(columns(topic, first, first + 100))
        connection = next(iter(producer.wire._delivery._connections.values()))
        send, connection._send = connection._send, lambda parts: interrupt(0)
        with pytest.raises(KeyboardInterrupt):
            producer.flush()
        connection._send = send
        with pytest.raises(BrokerError, match="interrupted") as caught:
            producer.commit()
        assert caught.value.abortable
        producer.abort()
        write(producer, topic, name("group"), first, first + 2000)
    producer.commit()
    assert found(log, topic) == [*range(4000, 6000)]


def test_at_least_once_goes_on_after_ctrl_c(proxy, log, topic, name):
    producer = log.producer(None)
    for first in range(0, 3000, 1000):
        write(producer, topic, name("group"), first, first + 1000)
        producer.flush()
        connection = next(iter(producer.wire._delivery._connections.values()))

        def interrupt(parts):
            raise KeyboardInterrupt

        connection._send = interrupt
        with pytest.raises(KeyboardInterrupt):
            producer.produce([(topic, 0, b"k", b"%d" % (first + 999), 5, ())])
        producer.commit()
    assert found(log, topic) == sorted([*range(3000), 999, 1999, 2999])


def test_who_was_fenced_does_not_take_the_id_back_by_an_abort(proxy, log, topic, name):
    first, second = (log.producer(name("app")) for _ in range(2))
    first.init()
    write(first, topic, name("group"), 0, 1000)
    proxy.cut_once(requests.PRODUCE.key, "half")
    second.init()
    proxy.decide = lambda api: None
    write(second, topic, name("group"), 1000, 2000)
    for call in (first.abort, first.flush, first.commit, first.begin, first.abort):
        with pytest.raises(FencedError):
            call()
    second.commit()
    assert found(log, topic) == [*range(1000, 2000)]
    first.init()
    with pytest.raises(FencedError):
        write(second, topic, name("group"), 2000, 3000)
