"""Tumbling, hopping and unlimited windows: which window takes a record, until when, and what is forwarded."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from one_operator import OneOperator, changed, updates

from penstock.operators.emit import EmitStrategy
from penstock.operators.folds import Reduce, count_one, none_init, zero
from penstock.operators.windowed import WindowAggregate
from penstock.record import Windowed
from penstock.state.memory import MemoryState
from penstock.state.spec import Stores, StoreSpec
from penstock.windows import FOREVER, TimeWindows, UnlimitedWindows

ON_CLOSE = EmitStrategy.on_window_close


def store_of(windows: Any, **options: Any) -> StoreSpec:
    retention = getattr(windows, "retention", FOREVER)
    return Stores.window("windows", retention, windows.size, timestamped=True).with_(**options)


def join_up(key: Any, value: Any, aggregate: str) -> str:
    return f"{aggregate}{value}"


def counting(windows: Any, state: MemoryState | None = None, **options: Any) -> OneOperator:
    operator = WindowAggregate(store="windows", windows=windows, initializer=zero, aggregator=count_one, **options)
    close = operator.emit is ON_CLOSE
    return OneOperator(operator, store_of(windows, time_ordered=close), state=state)


def joining(windows: Any, **options: Any) -> OneOperator:
    operator = WindowAggregate(store="windows", windows=windows, initializer=str, aggregator=join_up, **options)
    return OneOperator(operator, store_of(windows))


def test_tumbling_windows_count_each_record_once() -> None:
    node = counting(TimeWindows(10))
    assert updates(node.pipe_all([("a", "x", 0), ("a", "x", 9), ("a", "x", 10), ("b", "x", 10)])) == [
        (Windowed("a", 0, 10), 1, 0),
        (Windowed("a", 0, 10), 2, 9),
        (Windowed("a", 10, 20), 1, 10),
        (Windowed("b", 10, 20), 1, 10),
    ]


def test_hopping_windows_take_a_record_into_every_window_that_holds_it_oldest_first() -> None:
    node = joining(TimeWindows(10, advance=5))
    assert updates(node.pipe_all([("a", "x", 12), ("a", "y", 4)])) == [
        (Windowed("a", 5, 15), "x", 12),
        (Windowed("a", 10, 20), "x", 12),
    ]
    assert node.dropped == ["late_window"]


def test_a_hopping_record_is_dropped_once_per_expired_window() -> None:
    node = counting(TimeWindows(10, advance=2, grace=0))
    node.pipe("a", "x", 100)
    node.pipe("a", "x", 89)
    assert node.dropped == ["late_window"] * 5


@pytest.mark.parametrize(("late", "taken"), [(24, True), (25, False)])
def test_a_window_takes_records_while_its_end_is_after_time_minus_grace(late: int, taken: bool) -> None:
    node = counting(TimeWindows(10, grace=15))
    node.pipe("a", "x", late)
    out = node.pipe_all([("a", "x", 9)])
    assert bool(out) is taken
    assert node.dropped == ([] if taken else ["late_window"])


def test_the_result_has_the_greatest_timestamp_of_its_records() -> None:
    node = counting(TimeWindows(10))
    assert [row[2] for row in node.pipe_all([("a", "x", 5), ("a", "x", 3), ("a", "x", 7)])] == [5, 5, 7]


def test_headers_are_those_of_the_record_that_updates() -> None:
    node = counting(TimeWindows(10))
    node.pipe("a", "x", 5, (("h", b"1"),))
    node.pipe("a", "x", 3, (("h", b"2"),))
    assert [row[3] for row in node.forwarded] == [(("h", b"1"),), (("h", b"2"),)]


def test_a_null_key_is_dropped_and_moves_time() -> None:
    node = counting(TimeWindows(10))
    node.pipe_all([(None, "x", 10), ("a", "x", 9), ("a", "x", 10)])
    assert node.dropped == ["null_key", "late_window"]
    assert updates(row[:3] for row in node.forwarded) == [(Windowed("a", 10, 20), 1, 10)]


def test_a_null_value_reaches_the_aggregator() -> None:
    assert updates(joining(TimeWindows(10)).pipe_all([("a", None, 0)])) == [(Windowed("a", 0, 10), "None", 0)]
    assert updates(counting(TimeWindows(10)).pipe_all([("a", None, 0)])) == [(Windowed("a", 0, 10), 1, 0)]


def test_the_first_old_value_is_the_initializers() -> None:
    node = counting(TimeWindows(10), send_old=True)
    assert [row[1] for row in node.pipe_all([("a", "x", 0), ("a", "x", 1)])] == [changed(1, 0), changed(2, 1)]


def test_old_values_stay_home_unless_somebody_asked() -> None:
    node = counting(TimeWindows(10))
    assert [row[1] for row in node.pipe_all([("a", "x", 0), ("a", "x", 1)])] == [changed(1), changed(2)]


def test_reduce_starts_with_the_first_value() -> None:
    operator = WindowAggregate(
        store="windows", windows=TimeWindows(10), initializer=none_init, aggregator=Reduce(lambda a, v: a + v)
    )
    node = OneOperator(operator, store_of(TimeWindows(10)))
    assert updates(node.pipe_all([("a", 2, 0), ("a", 3, 1)])) == [
        (Windowed("a", 0, 10), 2, 0),
        (Windowed("a", 0, 10), 5, 1),
    ]


def test_a_null_aggregate_deletes_the_row_and_forwards_a_tombstone() -> None:
    operator = WindowAggregate(
        store="windows",
        windows=TimeWindows(10),
        initializer=str,
        aggregator=lambda key, value, aggregate: None if value == "stop" else aggregate + value,
        send_old=True,
    )
    node = OneOperator(operator, store_of(TimeWindows(10)))
    rows = node.pipe_all([("a", "x", 5), ("a", "stop", 3), ("a", "y", 1)])
    assert rows == [
        (Windowed("a", 0, 10), changed("x", ""), 5),
        (Windowed("a", 0, 10), changed(None, "x"), 5),
        (Windowed("a", 0, 10), changed("y", ""), 1),
    ]


def test_unlimited_windows_hold_all_from_their_start_and_never_close() -> None:
    node = counting(UnlimitedWindows(start=5))
    assert updates(node.pipe_all([("a", "x", 4), ("a", "x", 5), ("a", "x", 10**12), ("a", "x", 6)])) == [
        (Windowed("a", 5, FOREVER), 1, 5),
        (Windowed("a", 5, FOREVER), 2, 10**12),
        (Windowed("a", 5, FOREVER), 3, 10**12),
    ]
    assert node.dropped == []


def test_a_cached_store_forwards_once_per_window_at_the_barrier() -> None:
    windows = TimeWindows(10)
    operator = WindowAggregate(store="windows", windows=windows, initializer=zero, aggregator=count_one, send_old=True)
    node = OneOperator(operator, store_of(windows, cached=True))
    assert node.pipe_all([("a", "x", 0), ("a", "x", 3), ("a", "x", 12)]) == []
    node.commit()
    assert [row[:3] for row in node.forwarded] == [
        (Windowed("a", 0, 10), changed(2, None), 3),
        (Windowed("a", 10, 20), changed(1, None), 12),
    ]


# ---- on close


def test_on_close_emits_each_window_once_when_its_end_is_reached() -> None:
    node = counting(TimeWindows(10), emit=ON_CLOSE)
    assert node.pipe_all([("b", "x", 0), ("a", "x", 9), ("a", "x", 3)]) == []
    assert node.pipe_all([("c", "x", 10)]) == [
        (Windowed("a", 0, 10), changed(2), 9),
        (Windowed("b", 0, 10), changed(1), 0),
    ]
    assert node.pipe_all([("c", "x", 19), ("a", "x", 2)]) == []
    assert node.dropped == ["late_window"]
    assert node.pipe_all([("c", "x", 25)]) == [(Windowed("c", 10, 20), changed(2), 19)]


def test_on_close_waits_for_the_grace() -> None:
    node = counting(TimeWindows(10, grace=5), emit=ON_CLOSE)
    assert node.pipe_all([("a", "x", 0), ("a", "x", 14), ("a", "x", 5)]) == []
    assert node.pipe_all([("a", "x", 15)]) == [(Windowed("a", 0, 10), changed(2), 5)]


def test_on_close_gives_no_headers_and_the_coordinates_of_the_record_that_moved_time() -> None:
    node = counting(TimeWindows(10), emit=ON_CLOSE)
    node.pipe("a", "x", 0, (("h", b"in the window"),))
    node.pipe("b", "x", 10, (("h", b"closes it"),))
    assert node.forwarded[0][3] == ()
    (origin,) = node.origins
    assert (origin.offset, origin.timestamp, origin.key, origin.headers) == (1, 10, None, ())


def test_on_close_a_window_leaves_when_a_record_of_another_shard_moves_time() -> None:
    node = counting(TimeWindows(10, grace=5), emit=ON_CLOSE)
    node.pipe("a", "x", 0)
    node.pass_time(14)
    assert node.forwarded == []
    node.pass_time(15)
    assert node.forwarded == [(Windowed("a", 0, 10), changed(1), 0, ())]
    node.pass_time(100)
    assert len(node.forwarded) == 1


def test_on_close_of_hopping_windows() -> None:
    node = counting(TimeWindows(10, advance=5), emit=ON_CLOSE)
    assert node.pipe_all([("a", "x", 7)]) == []
    assert node.pipe_all([("a", "x", 12)]) == [(Windowed("a", 0, 10), changed(1), 7)]
    assert node.pipe_all([("a", "x", 14)]) == []
    assert node.pipe_all([("a", "x", 15)]) == [(Windowed("a", 5, 15), changed(3), 14)]


def test_on_close_loses_no_window_when_time_jumps_far_beyond_the_retention() -> None:
    node = counting(TimeWindows(10), emit=ON_CLOSE)
    assert node.pipe_all([("a", "x", 0), ("b", "x", 1_000_000)]) == [(Windowed("a", 0, 10), changed(1), 0)]


def test_on_close_emits_nothing_twice_after_a_restart() -> None:
    state = MemoryState()
    first = counting(TimeWindows(10, grace=50), state, emit=ON_CLOSE)
    first.pipe_all([("a", "x", 0), ("a", "x", 60)])
    assert len(first.forwarded) == 1
    first.commit()
    second = counting(TimeWindows(10, grace=50), state, emit=ON_CLOSE)
    assert second.pipe_all([("a", "x", 61)]) == []
    assert second.pipe_all([("a", "x", 130)]) == [(Windowed("a", 60, 70), changed(2), 61)]


def test_the_slowest_partition_sets_the_time() -> None:
    node = counting(TimeWindows(10))
    node.pipe("a", "x", 0, partition=1)
    node.pipe("a", "x", 100, partition=0)
    node.pipe("a", "x", 5, partition=1)
    assert node.dropped == []


def test_the_spec_pickles() -> None:
    operator = WindowAggregate(store="windows", windows=TimeWindows(10), initializer=zero, aggregator=count_one)
    assert pickle.loads(pickle.dumps(operator)) == operator
