"""A broker that is away is borne for minutes; what fails otherwise only a few times."""

from __future__ import annotations

import pytest

from penstock.engine.retry_policy import LONGEST_PAUSE, LONGEST_RETRY_MS, MOST_RUNS, RetryPolicy
from penstock.errors import BrokerError, EngineError

AWAY = BrokerError("nobody there: is Kafka running?", retriable=True)


class Clock:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now = 0
        self.pauses: list[float] = []

    def now_ms(self) -> int:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += round(seconds * 1000)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def policy(clock):
    return RetryPolicy(clock, clock.pause)


def retry_for_ever(policy, error):
    while True:
        policy.retry("x", error)


def until_given_up(policy, error):
    with pytest.raises(type(error), match=str(error)):
        retry_for_ever(policy, error)


def test_a_broker_may_be_away_for_at_least_five_minutes(policy, clock, caplog):
    until_given_up(policy, AWAY)
    assert clock.now >= LONGEST_RETRY_MS >= 5 * 60_000
    assert max(clock.pauses) == LONGEST_PAUSE
    assert len(caplog.records) == len(clock.pauses)
    assert caplog.records[0].getMessage() == "x: tried again: nobody there: is Kafka running?"


def test_a_long_outage_leaves_the_tries_of_other_failures_alone(policy, clock):
    for _ in range(20):
        policy.retry("x", AWAY)
    until_given_up(policy, EngineError("a worker has ended"))
    assert len(clock.pauses) == 20 + MOST_RUNS - 1


def test_what_was_mended_is_tried_again_but_not_for_ever(policy, clock):
    until_given_up(policy, BrokerError("stuck", fatal=True))
    assert len(clock.pauses) == MOST_RUNS - 1


@pytest.mark.parametrize("limit", [0, 1_000, 60_000])
def test_the_time_for_which_a_broker_may_be_away_is_a_setting(clock, limit):
    until_given_up(RetryPolicy(clock, clock.pause, limit), AWAY)
    assert limit <= clock.now < limit + 1000 * LONGEST_PAUSE
