"""Views: reading a table by key from another node, with or without a store of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from one_operator import OneOperator

from penstock.operators.stateless import PassThrough
from penstock.operators.views import FilterView, MapValuesView, StoreView, TransformValuesView
from penstock.processor import ValueTransformer
from penstock.record import Windowed
from penstock.serde import Serdes
from penstock.state.spec import StoreKind, Stores, StoreSpec

ROWS = Stores.key_value("rows", timestamped=True)
VIEW = StoreView("rows", StoreKind.KEY_VALUE)


class Reader(OneOperator):
    """A node that reads through a view."""

    def __init__(self, spec: StoreSpec) -> None:
        super().__init__(PassThrough(), spec)
        self.init_calls: list[Callable[[], None]] = []

    def on_init(self, f: Callable[[], None]) -> None:
        self.init_calls.append(f)

    def on_close(self, f: Callable[[], None]) -> None:
        """Nothing here is closed."""


def reader(rows: dict[Any, tuple[Any, int]]) -> Reader:
    node = Reader(ROWS)
    for key, (value, timestamp) in rows.items():
        node.stores["rows"].write(key, value, timestamp)
    return node


def test_a_table_is_read_with_its_timestamp() -> None:
    find = VIEW.open(reader({"a": (1, 5)}))
    assert (find("a"), find("b")) == ((1, 5), None)


def test_a_view_sees_later_writes() -> None:
    node = reader({})
    find = VIEW.open(node)
    node.stores["rows"].write("a", 2, 7)
    assert find("a") == (2, 7)


def test_a_windowed_table_is_read_by_windowed_key() -> None:
    node = Reader(Stores.window("rows", 100, 10, timestamped=True))
    node.stores["rows"].write("a", 20, "in window", 25)
    find = StoreView("rows", StoreKind.WINDOW).open(node)
    assert find(Windowed("a", 20, 30)) == ("in window", 25)
    assert find(Windowed("a", 10, 20)) is None


def test_a_session_is_read_with_its_end_as_the_timestamp() -> None:
    node = Reader(Stores.session("rows", 100))
    node.stores["rows"].put(Windowed("a", 20, 30), "session")
    find = StoreView("rows", StoreKind.SESSION).open(node)
    assert find(Windowed("a", 20, 30)) == ("session", 30)
    assert find(Windowed("a", 20, 31)) is None


def test_a_versioned_table_is_read_now_or_as_of_a_time() -> None:
    node = Reader(Stores.versioned("rows", 100))
    node.stores["rows"].put("a", 1, 10)
    node.stores["rows"].put("a", 2, 20)
    view = StoreView("rows", StoreKind.VERSIONED)
    find_as_of = view.open_as_of(node)
    assert find_as_of is not None
    assert (view.open(node)("a"), find_as_of("a", 15), find_as_of("a", 5)) == ((2, 20), (1, 10), None)


def test_only_a_versioned_table_can_be_read_as_of_a_time() -> None:
    assert VIEW.open_as_of(reader({})) is None
    assert FilterView(VIEW, lambda key, value: True).open_as_of(reader({})) is None


def test_a_filtered_table_shows_the_rows_that_are_kept() -> None:
    node = reader({"a": (1, 5), "b": (20, 6)})
    kept = FilterView(VIEW, lambda key, value: value > 10).open(node)
    rejected = FilterView(VIEW, lambda key, value: value > 10, negate=True).open(node)
    assert [kept(key) for key in "abc"] == [None, (20, 6), None]
    assert [rejected(key) for key in "abc"] == [(1, 5), None, None]


def test_a_mapped_table_keeps_the_timestamp_and_loses_rows_mapped_to_none() -> None:
    node = reader({"a": (1, 5), "b": (2, 6)})
    mapped = MapValuesView(VIEW, lambda value: None if value == 1 else str(value)).open(node)
    with_key = MapValuesView(VIEW, lambda key, value: key + str(value), with_key=True).open(node)
    assert [mapped(key) for key in "abc"] == [None, ("2", 6), None]
    assert with_key("b") == ("b2", 6)


def test_views_stack_and_need_only_the_store_at_the_bottom() -> None:
    view = MapValuesView(FilterView(VIEW, lambda key, value: value > 10), lambda value: value * 2)
    node = reader({"a": (1, 5), "b": (20, 6)})
    assert view.stores == ("rows",)
    assert [view.open(node)(key) for key in "ab"] == [None, (40, 6)]


def test_a_view_over_a_versioned_table_reads_as_of_a_time() -> None:
    node = Reader(Stores.versioned("rows", 100))
    node.stores["rows"].put("a", 1, 10)
    node.stores["rows"].put("a", 2, 20)
    find = MapValuesView(StoreView("rows", StoreKind.VERSIONED), lambda value: -value).open_as_of(node)
    assert find is not None
    assert find("a", 15) == (-1, 10)


class Described(ValueTransformer[str, int]):
    """Says what it was given, and whether it can tell where a record came from."""

    def transform(self, key: str, value: int | None) -> Any:
        return [key, value, self.context.record_metadata]


def test_a_transformed_table_calls_its_transformer_for_absent_rows_too_without_record_metadata() -> None:
    node = reader({"a": (1, 5)})
    before = node.origin
    find = TransformValuesView(VIEW, Described).open(node)
    for initialise in node.init_calls:
        initialise()
    assert find("a") == (["a", 1, None], 5)
    assert find("b") == (["b", None, None], -1)
    assert node.origin is before


def test_the_key_serde_of_the_store_is_the_tables() -> None:
    node = Reader(Stores.key_value("rows", key=Serdes.int64, timestamped=True))
    node.stores["rows"].write(7, "seven", 1)
    assert VIEW.open(node)(7) == ("seven", 1)
