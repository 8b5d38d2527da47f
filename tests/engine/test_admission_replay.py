"""A backlog gives what the same records gave when they came: joins and windows too, however small the epochs."""

from __future__ import annotations

from functools import partial

import pytest
from tests.engine.history import MINUTE, START, Result, Run, history, live, replayed, shop, written

from penstock.clock import MockClock
from penstock.log.memory import MemoryLog


@pytest.fixture(scope="module")
def steps():
    return history("skewed", every=30 * MINUTE)


@pytest.fixture(scope="module")
def as_it_came(steps):
    return live(steps)


def assert_same(one: Result, other: Result) -> None:
    for topic in one.output.keys() | other.output.keys():
        assert ordered(one, topic) == ordered(other, topic), topic
    assert one.stores == other.stores
    assert one.dropped == other.dropped


def ordered(result: Result, topic: str) -> dict:
    """The records of each key; an order without a payment waits for the clock, so it may come after a later pair."""
    return {key: sorted(rows) if topic == "paid" else rows for key, rows in result.output.get(topic, {}).items()}


@pytest.mark.parametrize("limit", [60, 300, 2000])
def test_three_days_of_skewed_history_give_what_they_gave_live(steps, as_it_came, limit):
    again = replayed(written(steps), limit)
    assert_same(again, as_it_came)
    assert len(steps) / limit <= again.epochs <= 2 * len(steps) / limit + 1


def test_without_alignment_a_replay_loses_pairs_and_finds_prices_that_were_not_there(steps, as_it_came):
    apart = replayed(written(steps), 300, align=False)
    pairs, were = (count(result, "paid", b"ord", b"pay") for result in (apart, as_it_came))
    assert pairs < were
    assert apart.output["priced"] != as_it_came.output["priced"]
    assert apart.dropped
    assert not as_it_came.dropped


def count(result: Result, topic: str, *words: bytes) -> int:
    rows = [value for rows in result.output[topic].values() for value, _ in rows]
    return sum(all(word in value for word in words) for value in rows)


def test_with_caches_the_tables_are_those_of_the_live_run(steps):
    cached = partial(shop, cached=True)
    once, again = live(steps, topology=cached), replayed(written(steps), 300, topology=cached)
    assert ordered(again, "paid") == ordered(once, "paid")
    assert again.output["priced"] == once.output["priced"]
    assert last(again, "hourly") == last(once, "hourly")


def last(result: Result, topic: str) -> dict:
    return {key: rows[-1][0] for key, rows in result.output[topic].items()}


def one_epoch(steps) -> Result:
    whole = Run()
    whole.epoch(steps)
    return whole.result()


def test_records_out_of_order_are_cut_where_their_partition_reaches_the_time():
    """What the order is worth is seen against one epoch over all there is."""
    steps = history("late", days=1, every=20 * MINUTE, late=MINUTE)
    assert_same(replayed(written(steps), 200), one_epoch(steps))


def test_records_far_out_of_order_find_the_prices_that_they_would_find_in_one_epoch():
    steps = history("later", days=1, every=20 * MINUTE, late=40 * MINUTE)
    assert replayed(written(steps), 200).output["priced"] == one_epoch(steps).output["priced"]


@pytest.mark.parametrize("size", [3, 50, 2000])
def test_markers_of_transactions_that_are_younger_than_their_records_hold_nothing_up(steps, as_it_came, size):
    """The history was written again, years later: every marker is later than every record."""
    log = MemoryLog(MockClock(START * 2))
    assert_same(replayed(written(steps, transactions=size, log=log), 300), as_it_came)


def test_markers_of_the_time_of_their_records_hold_nothing_up(steps, as_it_came):
    clock = MockClock(START)
    log = MemoryLog(clock)
    for at in range(0, len(steps), 40):
        part = steps[at : at + 40]
        clock.advance(max(0, part[-1].arrival - clock.now_ms()))
        written(part, transactions=40, log=log)
    assert_same(replayed(log, 300), as_it_came)
