"""Two brokers, one of which goes away: the writer follows the leaders of its partitions."""

from __future__ import annotations

import base64
import time
import uuid

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.dev.broker import QUICK_START, Broker
from penstock.dev.server import free_ports
from penstock.kafka_wire.producer import TransactionalWire
from penstock.log import producers
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog

HOST, PARTITIONS = "127.0.0.1", 4


def random_id():
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "a")


@pytest.fixture(scope="module")
def two_brokers(tmp_path_factory):
    """A cluster: the first is the controller and has the coordinators, the second may be killed."""
    if not producers.uses_wire():
        pytest.skip("the loops in C are not built here")
    controller, second_port = free_ports(HOST, 2)
    first_port = free_ports(HOST, 1)[0]
    voters = {"controller.quorum.voters": f"1@{HOST}:{controller}"}
    listening = {"listeners": f"PLAINTEXT://{HOST}:{first_port},CONTROLLER://{HOST}:{controller}"}
    first = Broker(port=first_port, java_options=[QUICK_START], settings=voters | listening)
    with first:
        log = KafkaLog(first.bootstrap_servers)
        made = log.producer("first")
        made.init()  # the topics of the coordinators are made while there is one broker
        made.begin()
        made.send_offsets("first", {})
        made.commit()
        log.close()
        cluster = dict(
            line.split("=", 1)
            for line in (first.data / "log" / "meta.properties").read_text().splitlines()
            if "=" in line
        )["cluster.id"]
        folder = tmp_path_factory.mktemp("second")
        (folder / "log").mkdir()
        (folder / "log" / "meta.properties").write_text(
            f"version=1\ncluster.id={cluster}\nnode.id=2\ndirectory.id={random_id()}\n"
        )
        role = {"node.id": "2", "process.roles": "broker", "listeners": f"PLAINTEXT://{HOST}:{second_port}"}
        second = Broker(port=second_port, data=folder, java_options=[QUICK_START], settings=voters | role)
        with second:
            yield first, second


def values(broker, topic, ends):
    """What is committed below these offsets, by a reader that knows of no earlier leaders."""
    log, found = KafkaLog(broker.bootstrap_servers), []
    for (_, partition), end in ends.items():
        numbers = [int(record.value) for record in log.reader().read(topic, partition, 0, end)]
        assert numbers == sorted(numbers)
        found += numbers
    log.close()
    return sorted(found)


def rows(topic, first, last):
    return [(topic, n % PARTITIONS, b"k", b"%d" % n, 5, ()) for n in range(first, last)]


def test_a_leader_that_goes_away_and_comes_back_costs_no_row(two_brokers, name):
    first, second = two_brokers
    log, topic = KafkaLog(first.bootstrap_servers, {"producer.batch.size": 2000}), name("led")
    log.admin.ensure_topics([TopicSpec(topic, PARTITIONS, {"min.insync.replicas": "1"}, replication=2)])
    places = [(topic, partition) for partition in range(PARTITIONS)]
    producer = log.producer(name("app"))
    assert isinstance(producer.wire, TransactionalWire)
    producer.init()
    producer.begin()
    producer.produce(rows(topic, 0, 2000))
    producer.flush()
    producer.produce(rows(topic, 2000, 4000))
    assert len(producer.wire._delivery._connections) == 2  # both lead
    second.kill()
    producer.produce(rows(topic, 4000, 6000))
    producer.commit()
    assert values(first, topic, log.admin.end_offsets(places)) == [*range(6000)]
    producer.begin()
    producer.produce(rows(topic, 6000, 8000))
    second.restart()
    admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
    for begin in range(8000, 20_000, 500):
        producer.produce(rows(topic, begin, begin + 500))
        producer.flush()
        positions = [TopicPartition(*place) for place in places]
        admin.elect_leaders(ElectionType.PREFERRED, positions).result()
        time.sleep(0.2)  # until the second has caught up its election is refused
    assert {producer.wire._cluster.leader(place)[1] for place in places} == {first.port, second.port}
    producer.commit()
    assert values(first, topic, log.admin.end_offsets(places)) == [*range(20_000)]
    log.close()
