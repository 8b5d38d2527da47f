"""Table operators: updates in, updates out, and what the store holds."""

from __future__ import annotations

from typing import Any

import pytest
from one_operator import OneOperator, changed, updates

from penstock.operators.table import (
    TableAggregate,
    TableFilter,
    TableMapValues,
    TableReduce,
    TableRepartitionMap,
    TableSource,
    TableToStream,
    count_down,
    count_up,
    zero,
)
from penstock.record import Change
from penstock.state.spec import Stores

ROWS = Stores.key_value("rows", timestamped=True)
CACHED = Stores.key_value("rows", timestamped=True, cached=True)
VERSIONED = Stores.versioned("rows", 100)


def big(key: Any, value: Any) -> bool:
    return value > 10


# --- source


def test_a_source_makes_each_record_an_update_and_drops_null_keys() -> None:
    node = OneOperator(TableSource("rows"), ROWS)
    assert node.pipe_all([("a", 1, 5), (None, 2, 6), ("a", None, 7)]) == [
        ("a", changed(1), 5),
        ("a", changed(None), 7),
    ]
    assert node.dropped == ["null_key"]


def test_a_source_without_a_store_knows_no_old_values() -> None:
    node = OneOperator(TableSource())
    assert node.pipe_all([("a", 1, 5), (None, 2, 6), ("a", 2, 7)]) == [("a", changed(1), 5), ("a", changed(2), 7)]
    assert node.dropped == ["null_key"]


def test_a_source_sends_old_values_on_request() -> None:
    node = OneOperator(TableSource("rows", send_old=True), ROWS)
    assert node.pipe_all([("a", 1, 5), ("a", 2, 6), ("a", None, 7), ("a", None, 8)]) == [
        ("a", changed(1), 5),
        ("a", changed(2, 1), 6),
        ("a", changed(None, 2), 7),
        ("a", changed(None), 8),
    ]


def test_an_older_record_still_replaces_the_row() -> None:
    node = OneOperator(TableSource("rows", send_old=True), ROWS)
    assert node.pipe_all([("a", 1, 5), ("a", 2, 3)]) == [("a", changed(1), 5), ("a", changed(2, 1), 3)]
    assert node.stores["rows"].read("a") == (2, 3)


def test_a_source_on_a_versioned_store_marks_out_of_order_updates_and_drops_too_old_ones() -> None:
    node = OneOperator(TableSource("rows", send_old=True), VERSIONED)
    assert node.pipe_all([("a", 1, 200), ("a", 2, 150), ("a", 3, 50), ("a", 4, 201)]) == [
        ("a", Change(1, None), 200),
        ("a", Change(2, 1, is_latest=False), 150),
        ("a", Change(4, 1), 201),
    ]


def test_a_cached_source_forwards_once_per_key_with_the_value_before_the_epoch() -> None:
    node = OneOperator(TableSource("rows", send_old=True), CACHED)
    node.pipe_all([("a", 1, 5), ("a", 2, 6)])
    node.commit()
    node.pipe_all([("a", 3, 7), ("a", 4, 8), ("b", None, 9)])
    node.commit()
    assert [row[:3] for row in node.forwarded] == [("a", changed(2), 6), ("a", changed(4, 2), 8)]


# --- filter


def test_filter_turns_a_rejected_row_into_a_tombstone() -> None:
    node = OneOperator(TableFilter(big))
    assert node.pipe_all([("a", changed(11), 0), ("a", changed(9), 1), ("a", changed(None), 2)]) == [
        ("a", changed(11), 0),
        ("a", changed(None), 1),
        ("a", changed(None), 2),
    ]


def test_filter_not_keeps_what_filter_rejects() -> None:
    node = OneOperator(TableFilter(big, negate=True))
    assert updates(node.pipe_all([("a", changed(11), 0), ("a", changed(9), 1)])) == [("a", None, 0), ("a", 9, 1)]


def test_filter_forwards_no_tombstone_for_a_row_that_was_not_there_if_old_values_are_known() -> None:
    node = OneOperator(TableFilter(big, send_old=True))
    assert node.pipe_all(
        [("a", changed(9), 0), ("a", changed(11, 9), 1), ("a", changed(8, 11), 2), ("a", changed(None, 8), 3)]
    ) == [("a", changed(11), 1), ("a", changed(None, 11), 2)]


def test_a_versioned_filter_forwards_every_tombstone() -> None:
    node = OneOperator(TableFilter(big, send_old=True, versioned=True))
    assert node.pipe_all([("a", Change(9, None, is_latest=False), 0)]) == [
        ("a", Change(None, None, is_latest=False), 0)
    ]


def test_a_stored_filter_reads_old_values_from_its_own_store() -> None:
    node = OneOperator(TableFilter(big, store="rows", send_old=True), ROWS)
    assert node.pipe_all(
        [("a", changed(9), 0), ("a", changed(11), 1), ("a", changed(12), 2), ("a", changed(1), 3)]
    ) == [
        ("a", changed(11), 1),
        ("a", changed(12, 11), 2),
        ("a", changed(None, 12), 3),
    ]
    assert node.stores["rows"].read("a") is None


# --- map_values


def test_map_values_maps_rows_and_leaves_tombstones_alone() -> None:
    node = OneOperator(TableMapValues(str))
    assert updates(node.pipe_all([("a", changed(1), 0), ("a", changed(None), 1)])) == [("a", "1", 0), ("a", None, 1)]


def test_map_values_with_key_gets_the_key_first() -> None:
    node = OneOperator(TableMapValues(lambda key, value: [key, value], with_key=True))
    assert updates(node.pipe_all([("a", changed(1), 0)])) == [("a", ["a", 1], 0)]


def test_map_values_maps_the_old_value_too_where_it_has_no_store() -> None:
    node = OneOperator(TableMapValues(str, send_old=True))
    rows = node.pipe_all([("a", Change(1, 0, is_latest=False), 0)])
    assert rows == [("a", Change("1", "0", is_latest=False), 0)]


def test_a_stored_map_values_keeps_results_and_reads_old_values_back() -> None:
    node = OneOperator(TableMapValues(str, store="rows", send_old=True), ROWS)
    assert node.pipe_all([("a", changed(1), 5), ("a", changed(2), 3)]) == [
        ("a", changed("1"), 5),
        ("a", changed("2", "1"), 3),
    ]
    assert node.stores["rows"].read("a") == ("2", 3)


# --- to_stream


def test_to_stream_forwards_the_new_value_and_tombstones() -> None:
    rows = [("a", changed(1, 0), 0), ("a", changed(None, 1), 1)]
    assert OneOperator(TableToStream()).pipe_all(rows) == [("a", 1, 0), ("a", None, 1)]


def test_to_stream_with_a_mapper_replaces_the_key() -> None:
    node = OneOperator(TableToStream(lambda key, value: f"{key}{value}"))
    assert node.pipe_all([("a", changed(1), 0)]) == [("a1", 1, 0)]


# --- group_by


def by_value(key: Any, value: Any) -> tuple[Any, Any]:
    return value["group"], value["amount"]


def row(group: Any, amount: Any) -> dict[str, Any]:
    return {"group": group, "amount": amount}


def test_group_by_takes_the_old_row_out_before_it_puts_the_new_one_in() -> None:
    node = OneOperator(TableRepartitionMap(by_value))
    assert node.pipe_all([("k", changed(row("x", 1), row("y", 2)), 5)]) == [
        ("y", changed(None, 2), 5),
        ("x", changed(1), 5),
    ]


def test_group_by_forwards_one_update_where_the_group_stays() -> None:
    node = OneOperator(TableRepartitionMap(by_value))
    assert node.pipe_all([("k", changed(row("x", 1), row("x", 2)), 5)]) == [("x", changed(1, 2), 5)]


def test_group_by_does_not_take_equal_keys_of_different_types_for_one_group() -> None:
    node = OneOperator(TableRepartitionMap(by_value))
    assert node.pipe_all([("k", changed(row(1, "new"), row(True, "old")), 5)]) == [
        (True, changed(None, "old"), 5),
        (1, changed("new"), 5),
    ]


@pytest.mark.parametrize("pair", [None, (None, 1), ("x", None)])
def test_group_by_leaves_out_pairs_without_key_or_value(pair: Any) -> None:
    node = OneOperator(TableRepartitionMap(lambda key, value: pair))
    assert node.pipe_all([("k", changed(1, 2), 5)]) == []


def test_group_by_refuses_what_is_not_a_pair() -> None:
    with pytest.raises(TypeError, match="group_by must return"):
        OneOperator(TableRepartitionMap(lambda key, value: value)).pipe_all([("k", changed(1), 5)])


def test_group_by_refuses_a_row_without_a_key() -> None:
    with pytest.raises(ValueError, match="without a key"):
        OneOperator(TableRepartitionMap(by_value)).pipe_all([(None, changed(1), 5)])


def test_group_by_of_a_versioned_table_skips_out_of_order_updates() -> None:
    late = Change(row("x", 1), None, is_latest=False)
    assert OneOperator(TableRepartitionMap(by_value, versioned=True)).pipe_all([("k", late, 5)]) == []
    assert len(OneOperator(TableRepartitionMap(by_value)).pipe_all([("k", late, 5)])) == 1


# --- aggregate, count, reduce


def summing(**options: Any) -> OneOperator:
    add, subtract = (lambda key, value, agg: agg + value), (lambda key, value, agg: agg - value)
    return OneOperator(TableAggregate("rows", zero, add, subtract, **options), ROWS)


def test_table_aggregate_subtracts_then_adds() -> None:
    def note(sign: str) -> Any:
        return lambda key, value, agg: f"{agg}{sign}{value}"

    node = OneOperator(TableAggregate("rows", str, note("+"), note("-")), ROWS)
    assert updates(node.pipe_all([("g", changed("a"), 0), ("g", changed("b", "a"), 1)])) == [
        ("g", "+a", 0),
        ("g", "+a-a+b", 1),
    ]


def test_table_aggregate_does_not_subtract_from_nothing() -> None:
    assert updates(summing().pipe_all([("g", changed(None, 5), 3), ("g", changed(2, 9), 4)])) == [
        ("g", None, 3),
        ("g", 2, 4),
    ]


def test_table_aggregate_has_the_later_time_of_update_and_row() -> None:
    assert updates(summing().pipe_all([("g", changed(1), 9), ("g", changed(2), 3), ("g", changed(None, 1), 4)])) == [
        ("g", 1, 9),
        ("g", 3, 9),
        ("g", 2, 9),
    ]


def test_table_aggregate_sends_its_old_value_on_request() -> None:
    node = summing(send_old=True)
    assert node.pipe_all([("g", changed(1), 0), ("g", changed(2), 1)]) == [
        ("g", changed(1), 0),
        ("g", changed(3, 1), 1),
    ]


def test_table_aggregate_refuses_an_update_without_a_key() -> None:
    with pytest.raises(ValueError, match="without a key"):
        summing().pipe_all([(None, changed(1), 0)])


def test_table_count_counts_rows_in_and_out() -> None:
    node = OneOperator(TableAggregate("rows", zero, count_up, count_down), ROWS)
    changes = [changed("a"), changed("b"), changed("c", "a"), changed(None, "b")]
    assert updates(node.pipe_all([("g", change, 0) for change in changes])) == [
        ("g", 1, 0),
        ("g", 2, 0),
        ("g", 2, 0),
        ("g", 1, 0),
    ]


def test_table_reduce_takes_the_first_row_as_it_is_and_may_delete_the_group() -> None:
    def subtract(agg: int, value: int) -> int | None:
        return agg - value or None

    node = OneOperator(TableReduce("rows", lambda agg, value: agg + value, subtract, send_old=True), ROWS)
    assert node.pipe_all([("g", changed(5), 9), ("g", changed(3, 5), 4), ("g", changed(None, 3), 2)]) == [
        ("g", changed(5), 9),
        ("g", changed(3, 5), 9),
        ("g", changed(None, 3), 9),
    ]


def test_table_reduce_logs_a_deletion_with_the_time_of_its_update() -> None:
    node = OneOperator(TableReduce("rows", lambda agg, value: agg + value, lambda agg, value: None), ROWS)
    node.pipe_all([("g", changed(5), 9)])
    node.commit()
    node.pipe_all([("g", changed(None, 5), 4)])
    assert node.commit() == [(b"g", None, 4, ())]
