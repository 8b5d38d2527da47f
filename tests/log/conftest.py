from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.bodies import BODIES, use

from penstock.log.base import Log
from penstock.log.kafka import KafkaLog
from penstock.log.memory import MemoryLog

#: a topic that is missing is given up soon
IMPATIENT = {"producer.topic.metadata.propagation.max.ms": 500}


@pytest.fixture(params=["memory", *BODIES])
def log(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    use(request.param, monkeypatch)
    if request.param == "memory":
        made: Log = MemoryLog()
    else:
        made = KafkaLog(request.getfixturevalue("kafka_broker").bootstrap_servers, IMPATIENT, timeout=30)
    yield made
    made.close()
