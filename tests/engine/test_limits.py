"""What topics take: learnt from their settings, and from what a broker says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock import Serdes, StreamsBuilder
from penstock.engine.epoch import is_limit
from penstock.engine.limits import FIRST_SLACK_MS, MOST_SLACK_MS, NEVER, Limits, TopicLimits
from penstock.errors import BrokerError
from penstock.log.base import RowColumns, TopicSpec
from penstock.log.memory import MemoryLog

NOW = 1_000_000


def row(time, value=b"v"):
    return ("out", 0, b"k", value, time, ())


@pytest.fixture
def log():
    made = MemoryLog()
    yield made
    made.close()


def limits_of(log, **configs):
    builder = StreamsBuilder()
    stream = builder.stream("in", value=Serdes.string)
    stream.to("out", name="first")
    stream.to("out", name="second")
    stream.to(lambda key, value: value, name="named")
    stream.group_by_key().count(store="counts")
    given = {name.replace("_", "."): str(value) for name, value in configs.items()}
    log.admin.ensure_topics([TopicSpec("out", 1, {"max.message.bytes": "1000000"} | given), TopicSpec("other", 1)])
    log.admin.ensure_topics([TopicSpec("app-counts-changelog", 1, {"message.timestamp.after.max.ms": "3600000"})])
    return Limits(log, builder.build(), "app", 1_000_000)


def test_times_within_the_limits_are_taken_and_others_are_not():
    limits = TopicLimits(None, before_ms=10, after_ms=20)
    assert [limits.refuses(row(NOW + d), NOW) is None for d in (-11, -10, 0, 20, 21)] == [
        False,
        True,
        True,
        True,
        False,
    ]
    for times in ([], [NOW - 10, NOW + 20], [NOW - 11], [NOW + 21, NOW]):
        column = pa.array([b""] * len(times), pa.binary())
        columns = RowColumns("out", None, column, column, np.array(times, np.int64), None)
        assert limits.takes_times(columns, NOW) == all(limits.refuses(row(time), NOW) is None for time in times)
    assert [limits.nearest(NOW + d, NOW) - NOW for d in (-99, 5, 99)] == [-10, 5, 20]


def test_limits_are_those_of_the_settings_of_any_broker(log):
    limits = limits_of(log, message_timestamp_after_max_ms=5, message_timestamp_difference_max_ms=7)
    assert limits.learn(["out"]) is None
    assert limits.of("out") == TopicLimits(None, 7, 5)
    log.admin.alter_configs("out", {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "999"})
    assert limits.learn(["out"]) == 999
    assert limits.of("out") == TopicLimits(999, NEVER, NEVER)
    assert limits.of("unknown") == TopicLimits()


def test_sinks_are_named():
    limits = limits_of(MemoryLog())
    assert limits.sinks_of("out") == "first or second"
    assert limits.sinks_of("another") == "named"


def test_a_refusal_of_times_opens_the_changelogs_then_gives_way_to_the_clock_of_the_broker_and_ends(log):
    limits = limits_of(log, message_timestamp_after_max_ms=200_000)
    limits.learn(["out"])
    assert limits.adapt("INVALID_TIMESTAMP", ["out"])
    assert log.admin.configs("app-counts-changelog")["message.timestamp.after.max.ms"] == str(NEVER)
    assert limits.of("out").after_ms == 200_000
    assert limits.adapt("INVALID_TIMESTAMP", ["out"])
    assert limits.of("out") == TopicLimits(None, NEVER, 200_000 - FIRST_SLACK_MS)
    tries = 0
    while limits.adapt("INVALID_TIMESTAMP", ["out"]):
        tries += 1
    assert FIRST_SLACK_MS * 2**tries <= MOST_SLACK_MS < FIRST_SLACK_MS * 2 ** (tries + 1)


def test_a_refusal_by_size_is_learnt_once(log):
    limits = limits_of(log)
    limits.learn(["out"])
    assert limits.adapt("MSG_SIZE_TOO_LARGE", ["out"])
    assert "too large" in limits.of("out").refuses(row(NOW, b"x" * 1_000_000), NOW)
    assert not limits.adapt("MSG_SIZE_TOO_LARGE", ["out"])


@pytest.mark.parametrize("code", ["MSG_SIZE_TOO_LARGE", "INVALID_TIMESTAMP", "INVALID_RECORD"])
def test_what_a_broker_says_of_a_batch_with_a_row_beyond_its_limits_is_known(code):
    assert is_limit(BrokerError("refused", code=code))
    assert not is_limit(BrokerError("refused", code="NOT_LEADER_FOR_PARTITION"))
