"""Aggregation of a stream by key: rows, result timestamps, old values, drops, changelog."""

from __future__ import annotations

from typing import Any

import pytest
from one_operator import OneOperator, changed, updates

from penstock.operators.aggregate import StreamAggregate, StreamCount, StreamReduce, TablePassThrough
from penstock.record import Change
from penstock.serde import Serdes
from penstock.state.spec import Stores, StoreSpec

ROWS = Stores.key_value("rows", timestamped=True)
CACHED = Stores.key_value("rows", timestamped=True, cached=True)


def appended(key: Any, value: Any, agg: list[Any]) -> list[Any]:
    return [*agg, value]


def aggregating(spec: StoreSpec = ROWS, **options: Any) -> OneOperator:
    return OneOperator(StreamAggregate("rows", list, appended, **options), spec)


def counting(spec: StoreSpec = ROWS, **options: Any) -> OneOperator:
    return OneOperator(StreamCount("rows", **options), spec, value=Serdes.int64)


def summing(spec: StoreSpec = ROWS, **options: Any) -> OneOperator:
    return OneOperator(StreamReduce("rows", lambda agg, value: agg + value, **options), spec)


def test_aggregate_folds_the_values_of_each_key_in_order() -> None:
    assert updates(aggregating().pipe_all([("a", 1, 0), ("b", 2, 1), ("a", 3, 2)])) == [
        ("a", [1], 0),
        ("b", [2], 1),
        ("a", [1, 3], 2),
    ]


def test_a_result_has_the_later_time_of_record_and_row() -> None:
    assert updates(aggregating().pipe_all([("a", 1, 10), ("a", 2, 3), ("a", 3, 12)])) == [
        ("a", [1], 10),
        ("a", [1, 2], 10),
        ("a", [1, 2, 3], 12),
    ]


@pytest.mark.parametrize("make", [aggregating, counting, summing])
def test_records_without_key_or_value_are_dropped_and_counted(make: Any) -> None:
    node = make()
    assert node.pipe_all([(None, 1, 0), ("a", None, 1), (None, None, 2)]) == []
    assert node.dropped == ["null_key", "null_value", "null_key"]


def test_an_aggregate_of_none_deletes_the_row_and_the_next_record_starts_anew() -> None:
    node = OneOperator(StreamAggregate("rows", lambda: 0, lambda k, v, agg: None if v < 0 else agg + v), ROWS)
    assert updates(node.pipe_all([("a", 5, 10), ("a", -1, 3), ("a", 2, 4)])) == [
        ("a", 5, 10),
        ("a", None, 10),
        ("a", 2, 4),
    ]


def test_a_deletion_is_logged_with_the_time_of_its_record_not_of_the_row() -> None:
    node = OneOperator(StreamAggregate("rows", lambda: 0, lambda k, v, agg: None if v < 0 else agg + v), ROWS)
    node.pipe_all([("a", 5, 10)])
    node.commit()
    node.pipe_all([("a", -1, 3)])
    assert node.commit() == [(b"a", None, 3, ())]


def test_the_old_value_of_the_first_update_is_the_initializers() -> None:
    node = aggregating(send_old=True)
    assert node.pipe_all([("a", 1, 0), ("a", 2, 1)]) == [("a", changed([1], []), 0), ("a", changed([1, 2], [1]), 1)]


def test_count_counts_each_key_and_begins_with_an_old_value_of_zero() -> None:
    node = counting(send_old=True)
    assert node.pipe_all([("a", "x", 5), ("a", "y", 3), ("b", "x", 4)]) == [
        ("a", changed(1, 0), 5),
        ("a", changed(2, 1), 5),
        ("b", changed(1, 0), 4),
    ]


def test_count_does_not_send_old_values_unless_asked() -> None:
    assert counting().pipe_all([("a", "x", 5), ("a", "y", 6)]) == [("a", changed(1), 5), ("a", changed(2), 6)]


def test_reduce_takes_the_first_value_as_it_is() -> None:
    node = summing(send_old=True)
    assert node.pipe_all([("a", 1, 5), ("a", 2, 3)]) == [("a", changed(1), 5), ("a", changed(3, 1), 5)]


def test_reduce_deletes_where_the_reducer_returns_none() -> None:
    node = OneOperator(StreamReduce("rows", lambda agg, value: None), ROWS)
    assert updates(node.pipe_all([("a", 1, 0), ("a", 2, 1), ("a", 3, 2)])) == [
        ("a", 1, 0),
        ("a", None, 1),
        ("a", 3, 2),
    ]


def test_results_carry_the_headers_of_the_record() -> None:
    node = counting()
    node.pipe("a", "x", 0, (("h", b"1"),))
    assert node.forwarded[0][3] == (("h", b"1"),)


def test_a_cached_store_forwards_once_per_key_at_the_barrier() -> None:
    node = counting(CACHED, send_old=True)
    assert node.pipe_all([("a", "x", 5), ("b", "x", 6), ("a", "y", 3)]) == []
    node.commit()
    assert node.forwarded == [("b", changed(1), 6, ()), ("a", changed(2), 5, ())]
    node.pipe_all([("a", "z", 9)])
    node.commit()
    assert node.forwarded[2:] == [("a", changed(3, 2), 9, ())]


def test_rows_outlive_the_barrier() -> None:
    node = aggregating()
    node.pipe_all([("a", 1, 0)])
    assert node.commit() == [(b"a", b"[1]", 0, ())]
    assert updates(node.pipe_all([("a", 2, 1)])) == [("a", [1, 2], 1)]


def test_changing_an_aggregate_in_place_does_not_reach_the_store() -> None:
    def in_place(key: Any, value: Any, agg: list[Any]) -> list[Any]:
        agg.append(value)
        return agg

    node = OneOperator(StreamAggregate("rows", list, in_place), ROWS)
    kept = node.pipe_all([("a", 1, 0)])[0][1].new
    kept.append("later")
    assert updates(node.pipe_all([("a", 2, 1)])) == [("a", [1, 2], 1)]


def test_a_versioned_store_marks_out_of_order_results_and_refuses_what_is_too_old() -> None:
    node = OneOperator(StreamReduce("rows", lambda agg, value: agg + value), Stores.versioned("rows", 10))
    assert node.pipe_all([("a", 1, 20), ("a", 2, 15)]) == [("a", Change(1), 20), ("a", Change(3), 20)]


def test_the_merge_node_of_cogroup_forwards_changes_as_they_are() -> None:
    change = Change("new", "old", is_latest=False)
    assert OneOperator(TablePassThrough()).pipe_all([("a", change, 3)]) == [("a", change, 3)]
