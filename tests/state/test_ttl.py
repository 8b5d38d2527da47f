"""Rows that end by event time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from key_value_cases import opened, origin

from penstock.state.memory import MemoryState

EXPIRY, TIME = "s/expiry", "s/time"


@pytest.fixture(params=[False, True], ids=["uncached", "cached"])
def case(request, state):
    return opened(state, ttl=10, timestamped=True, cached=request.param)


def index(case) -> list[tuple[int, bytes]]:
    return [(int.from_bytes(raw[:8], "big"), raw[8:]) for raw, _ in case.state.map(EXPIRY).range(None, None)]


def test_a_row_is_gone_once_the_store_has_seen_its_timestamp_plus_the_ttl(case):
    case.store.write("a", 1, 100)
    case.store.write("b", 1, 109)
    assert case.store.read("a") == (1, 100)
    case.store.write("c", 1, 110)
    assert case.store.read("a") is None
    assert case.store.get("b") == (1, 109)
    assert [key for key, _ in case.store.all()] == ["b", "c"]
    assert [key for key, _ in case.store.range("a", "b")] == ["b"]
    assert case.store.peek("a") is None


def test_a_clock_moves_the_store_s_time_and_never_back(case):
    case.store.write("a", 1, 100)
    case.barrier()
    case.come_to(109)
    assert case.store.read("a") == (1, 100)
    case.come_to(110)
    assert case.store.read("a") is None
    case.come_to(105)
    assert case.store.read("a") is None


def test_a_store_that_a_task_tells_the_time_does_not_go_by_what_is_written(case):
    case.come_to(100)
    case.store.write("a", 1, 100)
    case.store.write("ahead", 1, 500)
    assert case.store.read("a") == (1, 100)


def test_the_first_end_of_a_row_is_known_where_those_downstream_are_told_at_once(state):
    case = opened(state, ttl=10, timestamped=True)
    case.store.write("a", 1, 100)
    assert case.store.earliest_end() is None
    case.listen()
    assert case.store.earliest_end() == 110
    case.barrier()
    case.store.write("b", 1, 95)
    assert case.store.earliest_end() == 105
    assert case.reopened().store.earliest_end() is None
    case.come_to(107)
    case.store.expire(107)
    assert case.take() == [("b", None, 1, 105, ())]
    assert case.store.earliest_end() == 110
    case.barrier()
    case.come_to(110)
    case.store.expire(110)
    assert case.take() == [("a", None, 1, 110, ())]
    case.barrier()
    assert case.store.earliest_end() is None


def test_a_cached_store_tells_the_end_of_rows_at_the_barrier(state):
    case = opened(state, ttl=10, timestamped=True, cached=True)
    case.listen()
    case.store.write("a", 1, 100)
    assert case.store.earliest_end() is None


def test_expired_rows_are_deleted_at_the_barrier_with_a_tombstone_of_the_time_they_ended(case):
    case.store.write("a", 1, 100)
    case.store.write("b", 1, 103)
    case.barrier()
    case.store.write("c", 1, 120)
    sealed = case.barrier()
    assert [row for row in sealed.changelog if row[1] is None] == [(b"a", None, 110, ()), (b"b", None, 113, ())]
    assert [key for key, _ in case.state.map("s").range(None, None)] == [b"c"]
    assert index(case) == [(120, b"c")]


def test_a_new_write_gives_a_row_a_new_life_and_keeps_one_index_row(case):
    for timestamp in range(100, 150, 5):
        case.store.write("a", timestamp, timestamp)
        case.barrier()
    assert case.store.read("a") == (145, 145)
    assert index(case) == [(145, b"a")]


def test_the_store_time_survives_reopening(case):
    case.store.write("a", 1, 100)
    case.store.write("x", 1, 500)
    case.store.write("x", None, 500)
    case.barrier()
    again = case.reopened()
    again.store.write("late", 1, 490)
    assert again.store.read("late") is None


def test_a_late_row_is_expired_at_once(case):
    case.store.write("a", 1, 100)
    case.store.write("b", 1, 80)
    assert case.store.read("b") is None
    case.barrier()
    assert index(case) == [(100, b"a")]


def test_expired_rows_are_forwarded_at_the_barrier_with_their_old_value(case):
    case.listen()
    case.store.write("a", 1, 100)
    case.store.write("b", 2, 100)
    case.barrier()
    case.take()
    case.store.write("c", 3, 110)
    case.barrier()
    assert sorted(row for row in case.take() if row[1] is None) == [("a", None, 1, 110, ()), ("b", None, 2, 110, ())]
    case.barrier()
    assert case.take() == []


def test_a_row_that_came_and_went_in_one_epoch_of_a_cached_store_is_not_forwarded(state):
    case = opened(state, ttl=10, timestamped=True, cached=True)
    case.listen()
    case.store.write("a", 1, 100)
    case.store.write("b", 2, 200)
    case.barrier()
    assert case.take() == [("b", 2, None, 200, ())]


def test_an_uncached_store_forwards_the_end_of_a_row_when_it_is_read_before_it_is_written_anew(state):
    case = opened(state, ttl=10, timestamped=True)
    case.listen()
    case.store.write("a", 1, 100)
    case.barrier()
    case.come_to(500)
    assert case.store.read("a") is None
    assert case.take() == [("a", None, 1, 110, ())]
    assert case.store.read("a") is None
    case.store.write("a", 2, 500)
    case.barrier()
    assert case.take() == []
    assert case.store.read("a") == (2, 500)


def test_a_cached_store_forwards_a_row_that_ended_and_came_again_as_one_change(state):
    case = opened(state, ttl=10, timestamped=True, cached=True)
    case.listen()
    case.store.write("a", 1, 100)
    case.barrier()
    case.take()
    case.store.write("a", 2, 500)
    case.barrier()
    assert case.take() == [("a", 2, 1, 500, ())]


def test_looking_from_outside_forwards_nothing(state):
    case = opened(state, ttl=10, timestamped=True)
    case.listen()
    case.store.write("a", 1, 100)
    case.come_to(500)
    assert case.store.peek("a") is None
    assert list(case.store.all()) == []
    assert case.take() == []


def test_a_plain_store_takes_the_timestamp_of_the_record_being_processed(state):
    case = opened(state, ttl=10)
    case.context.origin = origin(100)
    case.store.put("a", 1)
    case.barrier()
    assert case.store.get("a") == 1
    case.context.origin = origin(110)
    case.store.put("b", 2)
    assert case.store.get("a") is None
    assert case.barrier().changelog == [(b"b", b"2", 110, ()), (b"a", None, 110, ())]
    assert list(case.store.all()) == [("b", 2)]


def test_rows_that_end_while_an_epoch_is_not_applied_are_found(case):
    case.store.write("a", 1, 100)
    case.store.flush()
    first = case.store.seal()
    case.store.write("b", 1, 200)
    case.store.flush()
    second = case.store.seal()
    assert (b"a", None, 110, ()) in second.changelog
    case.store.apply(first)
    case.store.apply(second)
    assert index(case) == [(200, b"b")]
    assert case.state.map("s").count() == 1


@settings(max_examples=60, deadline=None)
@given(
    st.booleans(),
    st.lists(
        st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9), st.integers(0, 60), st.booleans()), max_size=20
    ),
)
def test_reads_do_not_depend_on_where_the_barriers_fall(cached, puts):
    whole = opened(MemoryState(), ttl=10, timestamped=True, cached=cached)
    cut = opened(MemoryState(), ttl=10, timestamped=True, cached=cached)
    for each in (whole, cut):
        each.listen()
    for key, value, timestamp, barrier in puts:
        for each in (whole, cut):
            each.store.write(key, value, timestamp)
        if barrier:
            cut.barrier()
        assert list(cut.store.all()) == list(whole.store.all())
        assert [cut.store.read(k) for k in "abc"] == [whole.store.read(k) for k in "abc"]
    whole.barrier()
    cut.barrier()
    assert list(cut.state.map("s").range(None, None)) == list(whole.state.map("s").range(None, None))
    assert index(cut) == index(whole)
    assert len(index(cut)) == cut.state.map("s").count()
