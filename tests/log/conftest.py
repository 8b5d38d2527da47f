from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from penstock.log.base import Log
from penstock.log.kafka import KafkaLog
from penstock.log.memory import MemoryLog
from penstock.log.wire import choice

NUMBERS = itertools.count()
#: a topic that is missing is given up soon
IMPATIENT = {"producer.topic.metadata.propagation.max.ms": 500}


@pytest.fixture
def body(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which writer a test has, if it asks for one: librdkafka's, or the one that speaks Kafka's protocol itself."""
    wanted: str = getattr(request, "param", "wire")
    if wanted == "wire" and choice.loops is None:
        pytest.skip("the loops in C are not built here")
    if wanted == "librdkafka":
        monkeypatch.setattr(choice, "loops", None)
    return wanted


@pytest.fixture(params=["memory", "librdkafka", "wire"])
def log(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    if request.param == "librdkafka":
        monkeypatch.setattr(choice, "loops", None)
    if request.param == "memory":
        made: Log = MemoryLog()
    else:
        made = KafkaLog(request.getfixturevalue("kafka_broker").bootstrap_servers, IMPATIENT, timeout=30)
    yield made
    made.close()


@pytest.fixture
def name() -> Callable[[str], str]:
    """Give names that no other test has: the broker is shared."""
    number = next(NUMBERS)
    return lambda word: f"{word}-{os.getpid()}-{number}"
