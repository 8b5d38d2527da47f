"""Sliding windows: the windows around each record, whatever the order of arrival."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_operator import OneOperator, changed, updates

from penstock.operators.emit import EmitStrategy
from penstock.operators.folds import Reduce, count_one, none_init, zero
from penstock.operators.sliding import SlidingWindowAggregate
from penstock.record import Windowed
from penstock.state.spec import Stores
from penstock.windows import SlidingWindows

ON_CLOSE = EmitStrategy.on_window_close


def node_of(windows: SlidingWindows, initializer: Any, aggregator: Any, **options: Any) -> OneOperator:
    operator = SlidingWindowAggregate(
        store="windows", windows=windows, initializer=initializer, aggregator=aggregator, **options
    )
    spec = Stores.window("windows", windows.retention, windows.difference, timestamped=True)
    return OneOperator(operator, spec.with_(time_ordered=operator.emit is ON_CLOSE))


def joining(difference: int, grace: int = 0, **options: Any) -> OneOperator:
    return node_of(SlidingWindows(difference, grace), str, lambda key, value, aggregate: aggregate + value, **options)


def contents(node: OneOperator) -> dict[int, Any]:
    return {start: value for _, key, start, value, _ in node.stores["windows"].read_all(0, 10**9) if key == "a"}


def test_a_record_alone_is_in_its_left_window() -> None:
    assert updates(joining(10).pipe_all([("a", "x", 100)])) == [(Windowed("a", 90, 100), "x", 100)]


def test_a_later_record_makes_the_right_window_of_the_one_before_first() -> None:
    node = joining(10)
    node.pipe("a", "x", 100)
    assert updates(node.pipe_all([("a", "y", 105)])) == [
        (Windowed("a", 101, 111), "y", 105),
        (Windowed("a", 95, 105), "xy", 105),
    ]


@pytest.mark.parametrize(("second", "starts"), [(110, [90, 100, 101]), (111, [90, 101]), (112, [90, 102])])
def test_windows_include_both_ends(second: int, starts: list[int]) -> None:
    node = joining(10, grace=100)
    node.pipe_all([("a", "x", 100), ("a", "y", second)])
    assert sorted(contents(node)) == starts


def test_a_record_at_a_time_seen_before_only_updates() -> None:
    node = joining(10, grace=100)
    node.pipe_all([("a", "x", 100), ("a", "y", 105)])
    assert updates(node.pipe_all([("a", "z", 105)])) == [
        (Windowed("a", 101, 111), "yz", 105),
        (Windowed("a", 95, 105), "xyz", 105),
    ]


def test_an_out_of_order_record_makes_its_right_window_from_the_records_after_it() -> None:
    node = joining(10, grace=100)
    node.pipe_all([("a", "x", 100), ("a", "z", 108)])
    assert updates(node.pipe_all([("a", "y", 105)])) == [
        (Windowed("a", 101, 111), "zy", 108),
        (Windowed("a", 98, 108), "xzy", 108),
        (Windowed("a", 95, 105), "xy", 105),
        (Windowed("a", 106, 116), "z", 108),
    ]


def test_early_records_share_the_window_from_zero() -> None:
    node = joining(10, grace=100)
    assert updates(node.pipe_all([("a", "x", 3), ("a", "y", 5), ("a", "w", 1)])) == [
        (Windowed("a", 0, 10), "x", 3),
        (Windowed("a", 4, 14), "y", 5),
        (Windowed("a", 0, 10), "xy", 5),
        (Windowed("a", 2, 12), "xy", 5),
        (Windowed("a", 0, 10), "xyw", 5),
    ]


def test_null_keys_and_null_values_are_dropped_and_move_time() -> None:
    node = joining(10)
    assert updates(node.pipe_all([(None, "x", 20), ("a", None, 30), ("a", "x", 19), ("a", "x", 30)])) == [
        (Windowed("a", 20, 30), "x", 30)
    ]
    assert node.dropped == ["null_key", "null_value", "late_window"]


@pytest.mark.parametrize(("late", "taken"), [(85, True), (84, False)])
def test_a_record_is_late_when_its_right_window_has_closed(late: int, taken: bool) -> None:
    node = joining(10, grace=5)
    node.pipe("b", "x", 100)
    out = node.pipe_all([("a", "y", late)])
    # its left window [late − 10, late] has closed long ago: only what still is open may be made
    assert out == []
    assert node.dropped == ["late_window"]
    node.pipe("a", "z", 95)
    assert (86 in contents(node)) is False


def test_windows_that_have_closed_are_dropped_one_by_one() -> None:
    node = joining(10, grace=0)
    node.pipe_all([("a", "x", 100), ("a", "z", 108)])
    assert updates(node.pipe_all([("a", "y", 99)])) == [
        (Windowed("a", 98, 108), "xzy", 108),
        (Windowed("a", 100, 110), "xz", 108),
    ]
    assert node.dropped == ["late_window", "late_window"]


def test_old_values_are_what_the_window_held_and_none_for_a_copied_one() -> None:
    node = joining(10, grace=100, send_old=True)
    node.pipe("a", "z", 108)
    assert [row[1] for row in node.pipe_all([("a", "y", 105)])] == [
        changed("zy", "z"),
        changed("y", ""),
        changed("z", None),
    ]


def test_reduce_takes_the_first_value_of_each_window() -> None:
    node = node_of(SlidingWindows(10), none_init, Reduce(lambda a, v: a + v))
    assert updates(node.pipe_all([("a", 1, 100), ("a", 2, 105)])) == [
        (Windowed("a", 90, 100), 1, 100),
        (Windowed("a", 101, 111), 2, 105),
        (Windowed("a", 95, 105), 3, 105),
    ]


def test_on_close_emits_a_window_once_its_end_lies_before_time() -> None:
    node = joining(10, emit=ON_CLOSE)
    assert node.pipe_all([("a", "x", 100)]) == []
    assert node.pipe_all([("b", "x", 100)]) == []
    assert node.pipe_all([("b", "x", 101)]) == [
        (Windowed("a", 90, 100), changed("x"), 100),
        (Windowed("b", 90, 100), changed("x"), 100),
    ]
    assert node.pipe_all([("b", "y", 102)]) == [(Windowed("b", 91, 101), changed("xx"), 101)]


def test_on_close_loses_no_window_when_time_jumps() -> None:
    node = joining(10, emit=ON_CLOSE)
    assert node.pipe_all([("a", "x", 100), ("b", "x", 10**6)]) == [(Windowed("a", 90, 100), changed("x"), 100)]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 12), st.lists(st.integers(0, 40), min_size=1, max_size=12))
def test_any_order_of_records_gives_the_windows_of_the_definition(difference: int, times: list[int]) -> None:
    node = node_of(SlidingWindows(difference, grace=10_000), zero, count_one)
    node.pipe_all([("a", "x", t) for t in times])
    assert contents(node) == windows_by_definition(difference, times)


def windows_by_definition(difference: int, times: list[int]) -> dict[int, int]:
    """The slow truth: look at all records for each window."""
    left = {max(0, t - difference) for t in times}
    right = {t + 1 for t in times if any(t + 1 <= other <= t + 1 + difference for other in times)}
    return {start: sum(start <= t <= start + difference for t in times) for start in left | right}
