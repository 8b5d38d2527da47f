"""Session windows: merging, lateness of the merged session, tombstones of what was merged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_operator import OneOperator, changed, updates

from penstock.operators.emit import EmitStrategy
from penstock.operators.folds import MergeReduced, Reduce, add_counts, count_one, none_init, zero
from penstock.operators.session import SessionWindowAggregate
from penstock.record import Windowed
from penstock.state.memory import MemoryState
from penstock.state.spec import Stores
from penstock.windows import SessionWindows

ON_CLOSE = EmitStrategy.on_window_close


def node_of(
    windows: SessionWindows, *fold: Any, state: MemoryState | None = None, cached: bool = False, **options: Any
) -> OneOperator:
    initializer, aggregator, merger = fold
    operator = SessionWindowAggregate(
        store="sessions", windows=windows, initializer=initializer, aggregator=aggregator, merger=merger, **options
    )
    spec = Stores.session("sessions", windows.retention)
    return OneOperator(operator, spec.with_(time_ordered=operator.emit is ON_CLOSE, cached=cached), state=state)


def counting(gap: int, grace: int = 0, **options: Any) -> OneOperator:
    return node_of(SessionWindows(gap, grace), zero, count_one, add_counts, **options)


def joining(gap: int, grace: int = 0, **options: Any) -> OneOperator:
    return node_of(
        SessionWindows(gap, grace), str, lambda key, value, a: f"{a}{value}", lambda key, a, b: a + b, **options
    )


def test_records_within_the_gap_are_one_session() -> None:
    assert updates(counting(10).pipe_all([("a", "x", 0), ("a", "x", 10), ("b", "x", 10)])) == [
        (Windowed("a", 0, 0), 1, 0),
        (Windowed("a", 0, 0), None, 0),
        (Windowed("a", 0, 10), 2, 10),
        (Windowed("b", 10, 10), 1, 10),
    ]


def test_one_more_millisecond_is_another_session() -> None:
    assert updates(counting(10).pipe_all([("a", "x", 0), ("a", "x", 11)])) == [
        (Windowed("a", 0, 0), 1, 0),
        (Windowed("a", 11, 11), 1, 11),
    ]


def test_a_record_between_two_sessions_merges_them_in_order_of_time() -> None:
    node = joining(10, grace=100)
    node.pipe_all([("a", "x", 0), ("a", "z", 20)])
    assert updates(node.pipe_all([("a", "y", 10)])) == [
        (Windowed("a", 0, 0), None, 0),
        (Windowed("a", 20, 20), None, 20),
        (Windowed("a", 0, 20), "xzy", 20),
    ]
    assert node.stores["sessions"].fetch_session("a", 0, 20) == "xzy"


def test_a_record_inside_a_session_replaces_it_by_tombstone_and_update() -> None:
    node = joining(10, grace=100)
    node.pipe_all([("a", "x", 0), ("a", "z", 10)])
    assert updates(node.pipe_all([("a", "y", 5)])) == [
        (Windowed("a", 0, 10), None, 10),
        (Windowed("a", 0, 10), "xzy", 10),
    ]


def test_a_second_record_at_the_same_instant_only_updates() -> None:
    node = joining(10)
    node.pipe("a", "x", 5)
    assert updates(node.pipe_all([("a", "y", 5)])) == [(Windowed("a", 5, 5), "xy", 5)]


def test_old_values_come_with_the_tombstone_only() -> None:
    node = joining(10, send_old=True)
    assert [row[1] for row in node.pipe_all([("a", "x", 0), ("a", "y", 5), ("a", "z", 5)])] == [
        changed("x"),
        changed(None, "x"),
        changed("xy"),
        changed(None, "xy"),
        changed("xyz"),
    ]


def test_updates_carry_no_headers() -> None:
    node = counting(10)
    node.pipe("a", "x", 0, (("h", b"1"),))
    assert node.forwarded[0][3] == ()


@pytest.mark.parametrize(("late", "taken"), [(85, True), (84, False)])
def test_a_session_is_taken_while_its_end_is_within_gap_and_grace(late: int, taken: bool) -> None:
    node = counting(10, grace=5)
    node.pipe("b", "x", 100)
    assert bool(node.pipe_all([("a", "x", late)])) is taken
    assert node.dropped == ([] if taken else ["late_session"])


def test_lateness_is_judged_on_the_merged_session() -> None:
    node = counting(10, grace=5)
    node.pipe_all([("a", "x", 86), ("b", "x", 100)])
    assert updates(node.pipe_all([("a", "x", 78)])) == [
        (Windowed("a", 86, 86), None, 86),
        (Windowed("a", 78, 86), 2, 86),
    ]
    assert node.dropped == []


def test_a_null_key_is_dropped_and_a_null_value_is_not() -> None:
    node = joining(10)
    assert updates(node.pipe_all([(None, "x", 10), ("a", None, 0)])) == [(Windowed("a", 0, 0), "None", 0)]
    assert node.dropped == ["null_key"]


def test_reduce_merges_sessions_with_the_reducer() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    node = node_of(SessionWindows(10, grace=50), none_init, Reduce(add), MergeReduced(add))
    rows = node.pipe_all([("a", 1, 0), ("a", 2, 20), ("a", 4, 10)])
    assert updates(rows)[-1] == (Windowed("a", 0, 20), 7, 20)


def test_a_null_aggregate_removes_the_session() -> None:
    node = node_of(SessionWindows(10), str, lambda key, value, a: None, lambda key, a, b: a + b)
    assert updates(node.pipe_all([("a", "x", 0)])) == [(Windowed("a", 0, 0), None, 0)]
    assert node.stores["sessions"].fetch_session("a", 0, 0) is None


def test_a_cached_store_forwards_the_merged_session_once() -> None:
    node = counting(10, cached=True)
    assert node.pipe_all([("a", "x", 0), ("a", "x", 5), ("a", "x", 9)]) == []
    node.commit()
    assert updates(row[:3] for row in node.forwarded) == [(Windowed("a", 0, 9), 3, 9)]


# ---- on close


def test_on_close_emits_a_session_once_nothing_can_join_it() -> None:
    node = counting(10, emit=ON_CLOSE)
    assert node.pipe_all([("a", "x", 0), ("a", "x", 3), ("b", "x", 13)]) == []
    node.pipe("b", "x", 14, (("h", b"closes"),))
    assert node.forwarded == [(Windowed("a", 0, 3), changed(2), 3, ())]
    assert node.pipe_all([("b", "x", 25)]) == [(Windowed("b", 13, 14), changed(2), 14)]


def test_on_close_orders_by_end_then_start_then_key() -> None:
    node = counting(10, grace=100, emit=ON_CLOSE)
    node.pipe_all([("b", "x", 5), ("a", "x", 5), ("c", "x", 0), ("c", "x", 5), ("d", "x", 2)])
    assert [row[0] for row in node.pipe_all([("e", "x", 1000)])] == [
        Windowed("d", 2, 2),
        Windowed("c", 0, 5),
        Windowed("a", 5, 5),
        Windowed("b", 5, 5),
    ]


def test_on_close_emits_nothing_twice_after_a_restart() -> None:
    state = MemoryState()
    first = counting(10, grace=200, emit=ON_CLOSE, state=state)
    first.pipe_all([("a", "x", 0), ("b", "x", 211)])
    assert len(first.forwarded) == 1
    first.commit()
    second = counting(10, grace=200, emit=ON_CLOSE, state=state)
    assert second.pipe_all([("b", "x", 212)]) == []


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 6), st.lists(st.integers(0, 50), min_size=1, max_size=15))
def test_any_order_of_records_gives_the_same_sessions(gap: int, times: list[int]) -> None:
    node = counting(gap, grace=10_000)
    node.pipe_all([("a", "x", t) for t in times])
    found = {(s.start, s.end): n for s, n in node.stores["sessions"].find_sessions("a", 0, 10**6)}
    assert found == sessions_by_definition(gap, times)


def sessions_by_definition(gap: int, times: list[int]) -> dict[tuple[int, int], int]:
    """The slow truth: cut the sorted times where the distance is larger than the gap."""
    runs: list[list[int]] = []
    for t in sorted(times):
        if runs and t - runs[-1][-1] <= gap:
            runs[-1].append(t)
        else:
            runs.append([t])
    return {(run[0], run[-1]): len(run) for run in runs}
