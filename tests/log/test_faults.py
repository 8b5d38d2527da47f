"""A cluster that is away, slow, or comes back; and a queue that is full."""

import os
import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.errors import BrokerError
from penstock.log import producers
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog
from penstock.log.producer import _meant


@pytest.fixture
def kafka(kafka_broker, body):
    made = []

    def make(**settings):
        made.append(KafkaLog(kafka_broker.bootstrap_servers, settings))
        return made[-1]

    yield make
    for log in made:
        log.close()


def rows(topic, count=1):
    return [(topic, 0, b"k", str(number).encode(), 10, ()) for number in range(count)]


def values(log, topic):
    end = log.admin.end_offsets([(topic, 0)])[(topic, 0)]
    return [record.value for record in log.reader().read(topic, 0, 0, end)]


@pytest.fixture
def opened(kafka, name):
    """A log, a topic, and a producer with an open transaction of three rows."""
    log, topic = kafka(), name("faults")
    log.admin.ensure_topics([TopicSpec(topic, 1)])
    producer = log.producer(name("app"))
    producer.init()
    producer.begin()
    producer.produce(rows(topic, 3))
    producer.send_offsets(name("app"), {(topic, 0): 7})
    return log, topic, producer


def test_a_commit_waits_for_a_broker_that_does_not_answer(opened, kafka_broker):
    log, topic, producer = opened
    kafka_broker.pause()
    threading.Timer(2, kafka_broker.resume).start()
    producer.commit()
    assert values(log, topic) == [b"0", b"1", b"2"]


def test_an_open_transaction_outlives_a_crash_of_the_broker(opened, kafka_broker, name):
    log, topic, producer = opened
    producer.flush()
    kafka_broker.kill()
    restart = threading.Thread(target=kafka_broker.restart)
    restart.start()
    producer.commit()
    restart.join()
    assert values(log, topic) == [b"0", b"1", b"2"]
    assert log.admin.committed(name("app"), [(topic, 0)]) == {(topic, 0): 7}
    producer.begin()
    producer.produce(rows(topic))
    producer.commit()
    assert values(log, topic) == [b"0", b"1", b"2", b"0"]


def test_offsets_are_sent_after_the_group_s_coordinator_came_back(kafka, kafka_broker, name):
    """The client forgets its connection to the broker that came back, but not that the coordinator was there."""
    sooner = {"producer.connections.max.idle.ms": 1000}
    log, topic, group = kafka(**sooner), name("faults"), name("app")
    log.admin.ensure_topics([TopicSpec(topic, 1)])
    producer = log.producer(group)
    producer.init()
    for end in range(1, 4):
        producer.begin()
        producer.produce(rows(topic))
        if end > 1:
            kafka_broker.kill()
            kafka_broker.restart()
        producer.send_offsets(group, {(topic, 0): end})
        producer.commit()
        assert log.admin.committed(group, [(topic, 0)]) == {(topic, 0): end}
    assert values(log, topic) == [b"0"] * 3


@pytest.mark.skipif(not os.environ.get("PENSTOCK_LONG"), reason="the long form: set PENSTOCK_LONG=1")
def test_a_client_that_is_stuck_is_left_behind_and_another_one_takes_over(kafka_broker, name, monkeypatch):
    """Connections that nobody uses are not closed here, so that nothing ends the wait for the coordinator."""
    monkeypatch.setattr(producers, "uses_wire", lambda: False)
    unused = {"producer.connections.max.idle.ms": 0}
    log, topic, group = KafkaLog(kafka_broker.bootstrap_servers, unused, timeout=10), name("faults"), name("app")
    log.admin.ensure_topics([TopicSpec(topic, 1)])
    producer = log.producer(group)
    producer.init()
    faults = []
    for end in range(1, 4):
        producer.begin()
        producer.produce(rows(topic))
        if end > 1:
            kafka_broker.kill()
            kafka_broker.restart()
        try:
            producer.send_offsets(group, {(topic, 0): end})
        except BrokerError as error:
            faults.append(error.code)
            producer.init()
            producer.begin()
            producer.produce(rows(topic))
            producer.send_offsets(group, {(topic, 0): end})
        producer.commit()
        assert log.admin.committed(group, [(topic, 0)]) == {(topic, 0): end}
    assert "STUCK" in faults
    assert values(log, topic) == [b"0"] * 3
    log.close()


def test_a_group_is_asked_about_again_when_the_broker_is_back(kafka_broker, name, body):
    """A request of the admin client that had timed out would end the process at this moment."""
    log, group, place = KafkaLog(kafka_broker.bootstrap_servers, timeout=2), name("asked"), (name("faults"), 0)
    log.admin.ensure_topics([TopicSpec(place[0], 1)])
    assert log.admin.committed(group, [place]) == {}
    kafka_broker.kill()
    with pytest.raises(BrokerError, match="read the offsets of group") as caught:
        log.admin.committed(group, [place])
    assert caught.value.retriable
    kafka_broker.restart()
    writer = KafkaLog(kafka_broker.bootstrap_servers).producer(group)
    writer.init()
    writer.begin()
    writer.send_offsets(group, {place: 5})
    writer.commit()
    assert log.admin.committed(group, [place]) == log.admin.committed(group) == {place: 5}


def test_a_full_queue_is_waited_for(kafka, name):
    log, topic = kafka(**{"producer.queue.buffering.max.messages": 10, "producer.linger.ms": 0}), name("full")
    log.admin.ensure_topics([TopicSpec(topic, 1)])
    producer = log.producer(None)
    producer.begin()
    producer.produce(rows(topic, 200))
    producer.commit()
    assert values(log, topic) == [str(number).encode() for number in range(200)]


def test_without_a_broker_the_error_says_how_to_get_one(body):
    log = KafkaLog("127.0.0.1:9", timeout=0.5)
    with pytest.raises(BrokerError, match=r"list the topics.*bootstrap_servers.*penstock dev") as caught:
        log.admin.topics()
    assert caught.value.retriable
    with pytest.raises(BrokerError, match=r"begin as producer 'a'.*bootstrap_servers"):
        log.producer("a").init()
    with pytest.raises(BrokerError, match=r"penstock dev"):
        log.admin.partitions(["a"])


def test_a_transaction_out_of_turn_is_refused(kafka, name):
    producer = kafka().producer(name("app"))
    with pytest.raises(BrokerError, match="begin a transaction"):
        producer.begin()


def test_a_client_that_loses_even_its_exception_is_asked_what_it_meant():
    lost = SystemError("<built-in method flush> returned NULL without setting an exception")
    meant = _meant(lost)
    assert meant is not None
    assert meant.args[0].code() == KafkaError._FATAL
    other = KafkaException(KafkaError(KafkaError._FENCED))
    complaint = SystemError("returned a result with an exception set")
    assert _meant(complaint) is None
    complaint.__cause__ = other
    assert _meant(complaint) is other
