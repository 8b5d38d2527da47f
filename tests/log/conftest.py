from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.log import producers
from penstock.log.base import Log
from penstock.log.kafka import KafkaLog
from penstock.log.memory import MemoryLog

#: a topic that is missing is given up soon
IMPATIENT = {"producer.topic.metadata.propagation.max.ms": 500}


BODIES = ["librdkafka", "wire"]


@pytest.fixture(params=BODIES)
def body(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with both writers: librdkafka's, and the one that speaks Kafka's protocol itself."""
    use(request.param, monkeypatch)
    body: str = request.param
    return body


def use(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if body == "wire" and not producers.uses_wire():
        pytest.skip("the loops in C are not built here")
    if body == "librdkafka":
        monkeypatch.setattr(producers, "uses_wire", lambda: False)


@pytest.fixture(params=["memory", *BODIES])
def log(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    use(request.param, monkeypatch)
    if request.param == "memory":
        made: Log = MemoryLog()
    else:
        made = KafkaLog(request.getfixturevalue("kafka_broker").bootstrap_servers, IMPATIENT, timeout=30)
    yield made
    made.close()
