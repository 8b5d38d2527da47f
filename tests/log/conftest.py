from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from penstock.log.base import Log
from penstock.log.kafka import KafkaLog
from penstock.log.memory import MemoryLog

NUMBERS = itertools.count()
#: a topic that is missing is given up soon
IMPATIENT = {"producer.topic.metadata.propagation.max.ms": 500}


@pytest.fixture(params=["memory", "kafka"])
def log(request: pytest.FixtureRequest) -> Iterator[Log]:
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
