"""Deduplicate over its real store."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from one_shard import OneShard, each

from penstock.operators.deduplicate import Deduplicate, deduplicate_store
from penstock.serde import Serdes

WITHIN = 10


def deduplicate(by: Any = lambda key, value: value) -> tuple[OneShard, Any]:
    shard = OneShard(deduplicate_store("seen", Serdes.string, WITHIN))
    return shard, shard.chain(Deduplicate(store="seen", by=by, within=WITHIN))


def test_the_first_record_of_an_id_passes_and_repetitions_are_dropped_and_counted():
    shard, send = deduplicate()
    assert each(send, [("k", "a", 0), ("k", "a", 5), ("k", "b", 5), ("k", "a", 10)]) == [("k", "a", 0), ("k", "b", 5)]
    assert shard.dropped == ["duplicate"] * 2


def test_an_id_passes_again_once_the_time_is_over():
    _, send = deduplicate()
    assert each(send, [("k", "a", 0), ("k", "a", 11)]) == [("k", "a", 0), ("k", "a", 11)]


def test_a_dropped_record_does_not_prolong_the_time():
    _, send = deduplicate()
    records = [("k", "a", timestamp) for timestamp in range(0, 40, 4)]
    assert [timestamp for _, _, timestamp in each(send, records)] == [0, 12, 24, 36]


def test_ids_are_compared_within_one_key():
    _, send = deduplicate()
    assert len(each(send, [("k", "a", 0), ("l", "a", 0)])) == 2


def test_keys_and_ids_do_not_run_into_each_other():
    _, send = deduplicate()
    assert len(each(send, [("k", "ab", 0), ("ka", "b", 0)])) == 2


def test_an_out_of_order_record_is_compared_with_what_passed_around_its_own_time():
    _, send = deduplicate()
    records = [("k", "a", 100), ("k", "a", 120), ("k", "a", 105), ("k", "a", 90), ("k", "a", 85)]
    assert [timestamp for _, _, timestamp in each(send, records)] == [100, 120, 85]


def test_a_very_late_record_passes_and_its_repetition_is_still_dropped():
    shard, send = deduplicate()
    assert each(send, [("k", "a", 1000), ("k", "b", 1), ("k", "b", 2)]) == [("k", "a", 1000), ("k", "b", 1)]
    assert shard.dropped == ["duplicate"]


def test_a_record_without_an_id_passes_and_one_without_a_key_is_dropped():
    shard, send = deduplicate(by=lambda key, value: None)
    assert len(each(send, [("k", "a", 0), ("k", "a", 0), (None, "a", 0)])) == 2
    assert shard.dropped == ["null_key"]


def test_an_id_may_be_anything_that_json_can_write():
    _, send = deduplicate(by=lambda key, value: [len(value), value[0]])
    assert each(send, [("k", "ab", 0), ("k", "ac", 1), ("k", "bc", 2)]) == [("k", "ab", 0), ("k", "bc", 2)]


@given(st.lists(st.tuples(st.sampled_from("kl"), st.sampled_from("ab"), st.integers(0, 9)), max_size=60))
def test_records_at_most_within_late_are_judged_exactly(steps):
    _, send = deduplicate()
    passed: list[tuple[Any, Any, int]] = []
    now = 0
    for key, value, step in steps:
        now += step
        timestamp = now - step * 7 % (WITHIN + 1) if now >= WITHIN else now
        repeated = any((key, value) == (k, v) and abs(timestamp - t) <= WITHIN for k, v, t in passed)
        expected = [] if repeated else [(key, value, timestamp)]
        assert send(key, value, timestamp) == expected
        passed += expected
