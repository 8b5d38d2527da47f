"""The size of a row is what the broker takes it for."""

import itertools
import os

import pytest

from penstock.errors import BrokerError
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog
from penstock.log.row_size import row_bytes

NUMBERS = itertools.count()


@pytest.mark.parametrize(
    ("key", "size", "headers"),
    [
        (None, 300, ()),
        (b"key", 5000, ()),
        (b"k" * 70, 20_000, (("name", b"value"), ("nothing", None), ("ünï", b"x" * 200))),
    ],
)
def test_a_topic_takes_a_row_of_its_limit_and_refuses_one_of_a_byte_more(kafka_broker, key, size, headers):
    log = KafkaLog(kafka_broker.bootstrap_servers, timeout=30)
    topic = f"limited-{os.getpid()}-{next(NUMBERS)}"
    row = (topic, 0, key, b"v" * size, 1000, headers)
    log.admin.ensure_topics([TopicSpec(topic, 1, {"max.message.bytes": str(row_bytes(row)), "retention.ms": "-1"})])
    producer = log.producer(None, batch_bytes=row_bytes(row))
    producer.begin()
    producer.produce([row] * 3)
    producer.commit()
    producer.begin()
    producer.produce([row, (topic, 0, key, b"v" * (size + 1), 1000, headers), row])
    with pytest.raises(BrokerError) as raised:
        producer.commit()
    assert raised.value.code == "MSG_SIZE_TOO_LARGE"
    assert "deliver 1 rows" in str(raised.value)
    log.close()
