"""Cron expressions: the times that they name, in UTC, and what is refused."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import TopologyError
from penstock.cron import MINUTE, Cron


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def text(time: int) -> str:
    return (datetime(1970, 1, 1) + timedelta(milliseconds=time)).isoformat(sep=" ", timespec="minutes")


def next_three(expression: str, after: str) -> list[str]:
    cron, time, found = Cron(expression), ms(after), []
    for _ in range(3):
        time = cron.after(time)
        found.append(text(time))
    return found


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("* * * * *", "2026-11-16 03:00:59", ["2026-11-16 03:01", "2026-11-16 03:02", "2026-11-16 03:03"]),
        ("*/25 * * * *", "2026-11-16 03:20", ["2026-11-16 03:25", "2026-11-16 03:50", "2026-11-16 04:00"]),
        ("7/20 22 * * *", "2026-11-16 22:27", ["2026-11-16 22:47", "2026-11-17 22:07", "2026-11-17 22:27"]),
        ("0 6,18 * * *", "2026-12-31 18:00", ["2027-01-01 06:00", "2027-01-01 18:00", "2027-01-02 06:00"]),
        ("30 9-17/4 * * *", "2026-11-16 00:00", ["2026-11-16 09:30", "2026-11-16 13:30", "2026-11-16 17:30"]),
        ("0 0 * * mon-fri", "2026-11-20 00:00", ["2026-11-23 00:00", "2026-11-24 00:00", "2026-11-25 00:00"]),
        ("0 0 * * 7", "2026-11-16 00:00", ["2026-11-22 00:00", "2026-11-29 00:00", "2026-12-06 00:00"]),
        ("0 0 * * 5-7", "2026-11-16 00:00", ["2026-11-20 00:00", "2026-11-21 00:00", "2026-11-22 00:00"]),
        ("0 0 31 * *", "2026-11-16 00:00", ["2026-12-31 00:00", "2027-01-31 00:00", "2027-03-31 00:00"]),
        ("0 0 29 2 *", "2096-02-29 00:00", ["2104-02-29 00:00", "2108-02-29 00:00", "2112-02-29 00:00"]),
        ("0 0 13 * fri", "2026-11-12 00:00", ["2026-11-13 00:00", "2026-11-20 00:00", "2026-11-27 00:00"]),
        ("15 14 1 JAN,jul *", "2026-11-16 00:00", ["2027-01-01 14:15", "2027-07-01 14:15", "2028-01-01 14:15"]),
        ("@hourly", "2026-11-16 00:00", ["2026-11-16 01:00", "2026-11-16 02:00", "2026-11-16 03:00"]),
        ("@weekly", "2026-11-16 00:00", ["2026-11-22 00:00", "2026-11-29 00:00", "2026-12-06 00:00"]),
        ("@yearly", "2026-11-16 00:00", ["2027-01-01 00:00", "2028-01-01 00:00", "2029-01-01 00:00"]),
    ],
)
def test_the_times_of_an_expression(expression: str, after: str, expected: list[str]) -> None:
    assert next_three(expression, after) == expected


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("* * * *", "has 4 fields: it needs 5"),
        ("60 * * * *", "minute '60' .* within 0 and 59"),
        ("* 5-3 * * *", "hour '5-3' .* not run backwards"),
        ("* * 0 * *", "day '0' .* within 1 and 31"),
        ("* * * foo *", "month 'foo' .* no number, nor one of jan"),
        ("*/0 * * * *", "a step is at least 1"),
        ("-1 * * * *", "'' is no number"),
        ("1,,2 * * * *", "'' is no number"),
        ("0 0 30 2 *", "names no date"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_field(expression: str, complaint: str) -> None:
    with pytest.raises(TopologyError, match=complaint):
        Cron(expression)


def test_an_expression_travels() -> None:
    assert pickle.loads(pickle.dumps(Cron("0 6 * * *"))) == Cron("0 6 * * *")


numbers = st.integers(0, 59)
hours = st.sampled_from(["*", "3", "22-23", "*/7", "0,12"])
days = st.sampled_from(["*", "1", "28-31", "*/2"])
months = st.sampled_from(["*", "feb", "11-12"])
weekdays = st.sampled_from(["*", "0", "mon-wed", "*/3"])
expressions = st.builds(lambda *fields: " ".join(map(str, fields)), numbers, hours, days, months, weekdays)
times = st.integers(ms("2023-12-01 00:00"), ms("2025-04-01 00:00"))


@given(expressions, times)
def test_after_and_latest_are_neighbours(expression: str, time: int) -> None:
    cron = Cron(expression)
    following, latest = cron.after(time), cron.latest(time)
    assert latest <= time < following
    assert following % MINUTE == latest % MINUTE == 0
    assert cron.after(latest) == following
    assert cron.latest(following - 1) == latest
    assert cron.latest(following) == following


@given(st.sampled_from(["*/7 * * * *", "3,50 1-2 * * *", "59 23 * * *", "0 0 * * *"]), times)
def test_after_is_the_first_minute_that_matches_the_slow_way(expression: str, time: int) -> None:
    minute, hour, *_ = expression.split()

    def matches(field: str, number: int) -> bool:
        if field.startswith("*"):
            return number % int(field[2:] or 1) == 0
        first, _, last = field.partition("-")
        return number in [int(part) for part in field.split(",")] if not last else int(first) <= number <= int(last)

    at = (time // MINUTE + 1) * MINUTE
    while not (matches(minute, at // MINUTE % 60) and matches(hour, at // (60 * MINUTE) % 24)):
        at += MINUTE
    assert Cron(expression).after(time) == at
