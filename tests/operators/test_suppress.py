"""Suppress: what waits, what leaves, when, and as which record."""

from __future__ import annotations

from typing import Any

import pytest
from one_operator import OneOperator, changed

from penstock.errors import BufferFullError
from penstock.operators.base import Lookup, OperatorContext, TableView
from penstock.operators.suppress import Suppress, SuppressView
from penstock.record import Change, Windowed
from penstock.serde import Serdes
from penstock.state.memory import MemoryState
from penstock.state.spec import StoreKind, StoreSpec

BUFFER = StoreSpec("buffer", StoreKind.BUFFER)


def node_of(state: MemoryState | None = None, key: Any = Serdes.string, **options: Any) -> OneOperator:
    return OneOperator(Suppress(store="buffer", **options), BUFFER, key=key, value=Serdes.int64, state=state)


def windowed_node(grace: int, **options: Any) -> OneOperator:
    key = Serdes.windowed(Serdes.string, 10)
    return node_of(key=key, wait=grace, final=True, window_end_time=True, when_full="shut_down", **options)


def window(key: str, start: int) -> Windowed:
    return Windowed(key, start, start + 10)


def test_an_update_leaves_when_time_has_passed_its_first_update_by_the_wait() -> None:
    node = node_of(wait=10)
    assert node.pipe_all([("a", changed(1), 0), ("b", changed(1), 9)]) == []
    assert node.pipe_all([("b", changed(2, 1), 10)]) == [("a", changed(1), 0)]


def test_a_later_update_replaces_the_value_but_not_the_time() -> None:
    node = node_of(wait=10)
    node.pipe_all([("a", changed(1), 0), ("a", changed(2, 1), 9)])
    assert node.pipe_all([("a", changed(3, 2), 10)]) == [("a", changed(3, 2), 10)]


def test_updates_leave_in_order_of_time_then_key() -> None:
    node = node_of(wait=10)
    node.pipe_all([("c", changed(1), 5), ("b", changed(1), 3), ("a", changed(1), 5)])
    assert [row[0] for row in node.pipe_all([("z", changed(1), 100)])] == ["b", "a", "c"]


def test_a_wait_of_zero_lets_everything_through() -> None:
    node = node_of(wait=0)
    assert node.pipe_all([("a", changed(1), 5)]) == [("a", changed(1), 5)]
    assert node.pipe_all([("b", changed(1), 4)]) == [("b", changed(1), 4)]


def test_it_leaves_with_the_headers_and_origin_of_its_last_update() -> None:
    node = node_of(wait=10)
    node.pipe("a", changed(1), 0, (("h", b"first"),))
    node.pipe("a", changed(2), 3, (("h", b"last"),))
    node.pipe("b", changed(1), 20, (("h", b"other"),))
    assert node.forwarded == [("a", changed(2), 3, (("h", b"last"),))]
    assert (node.origins[0].topic, node.origins[0].offset, node.origins[0].timestamp) == ("in", 1, 3)
    assert node.origin.offset == 2


def test_the_origin_is_restored_when_a_node_downstream_fails() -> None:
    node = node_of(wait=10)

    def fail(*_: Any) -> None:
        raise ValueError("downstream")

    node.pipe("a", changed(1), 0)
    node._forward = fail  # type: ignore[method-assign]
    node.on_record = Suppress(store="buffer", wait=10).open(node, fail)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="downstream"):
        node.pipe("b", changed(1), 20)
    assert node.origin.offset == 1


def test_a_tombstone_leaves_too() -> None:
    node = node_of(wait=10)
    node.pipe_all([("a", changed(1), 0), ("a", changed(None, 1), 1)])
    assert node.pipe_all([("b", changed(1), 10)]) == [("a", changed(None, 1), 1)]


def test_final_results_leave_when_the_window_has_closed() -> None:
    node = windowed_node(grace=5)
    assert node.pipe_all([(window("a", 0), changed(1), 3), (window("a", 0), changed(2, 1), 14)]) == []
    assert node.pipe_all([(window("b", 10), changed(1), 15)]) == [(window("a", 0), changed(2, 1), 14)]


def test_final_results_have_no_tombstones() -> None:
    node = windowed_node(grace=0)
    node.pipe_all([(window("a", 0), changed(1), 3), (window("a", 0), changed(None, 1), 4)])
    assert node.pipe_all([(window("b", 10), changed(1), 30)]) == [(window("b", 10), changed(1), 30)]
    assert node.stores["buffer"].records == 0


def test_over_the_number_of_records_the_oldest_leave_early() -> None:
    node = node_of(wait=1000, max_records=2)
    node.pipe_all([("a", changed(1), 5), ("b", changed(1), 3)])
    assert node.pipe_all([("c", changed(1), 9)]) == [("b", changed(1), 3)]
    assert node.pipe_all([("a", changed(2), 10)]) == []


def test_over_the_number_of_bytes_the_oldest_leave_early() -> None:
    one = 28 + len("a") + 8 + len("in")
    node = node_of(wait=1000, max_bytes=2 * one)
    assert node.pipe_all([("a", changed(1), 5), ("b", changed(1), 6)]) == []
    assert node.stores["buffer"].size_bytes == 2 * one
    assert node.pipe_all([("c", changed(1), 7)]) == [("a", changed(1), 5)]


def test_a_record_larger_than_the_buffer_leaves_at_once() -> None:
    node = node_of(wait=1000, max_bytes=1)
    assert node.pipe_all([("a", changed(1), 5)]) == [("a", changed(1), 5)]
    assert node.stores["buffer"].size_bytes == 0


def test_a_strict_buffer_that_is_full_fails_and_names_the_node() -> None:
    node = node_of(wait=1000, max_records=1, when_full="shut_down")
    node.pipe("a", changed(1), 5)
    with pytest.raises(BufferFullError, match=r"2 records of 1, \d+ bytes of any number") as failure:
        node.pipe("b", changed(1), 6)
    assert failure.value.node == "THE-NODE"
    assert failure.value.origin.offset == 1


def test_rows_that_are_due_leave_before_the_buffer_is_found_full() -> None:
    node = node_of(wait=10, max_records=1, when_full="shut_down")
    node.pipe("a", changed(1), 5)
    assert node.pipe_all([("b", changed(1), 15)]) == [("a", changed(1), 5)]


def test_the_buffer_survives_a_restart() -> None:
    state = MemoryState()
    first = node_of(state, wait=10)
    first.pipe("a", changed(1, 7), 0, (("h", b"1"),))
    first.pipe("b", changed(1), 5)
    first.commit()
    second = node_of(state, wait=10)
    assert second.stores["buffer"].size_bytes == first.stores["buffer"].size_bytes
    second.pipe("c", changed(1), 12)
    assert second.forwarded == [("a", changed(1, 7), 0, (("h", b"1"),))]
    first.pipe("c", changed(1), 12)
    assert second.forwarded == first.forwarded
    assert second.origins == first.origins


class Rows(TableView):
    """The parent's table."""

    def open(self, context: OperatorContext) -> Lookup:
        return {"a": (5, 50), "b": (6, 60)}.get


def test_a_reader_sees_the_value_before_what_waits() -> None:
    node = node_of(wait=10)
    lookup = SuppressView(store="buffer", parent=Rows()).open(node)  # type: ignore[arg-type]
    assert lookup("a") == (5, 50)
    node.pipe_all([("a", changed(5, 4), 0), ("a", changed(6, 5), 1), ("b", changed(6), 1)])
    assert lookup("a") == (4, -1)
    assert lookup("b") is None
    node.pipe("z", changed(1), 10)
    assert lookup("a") == (5, 50)


def test_a_reader_during_the_emission_still_sees_the_value_before() -> None:
    node = node_of(wait=10)
    lookup = SuppressView(store="buffer", parent=Rows()).open(node)  # type: ignore[arg-type]
    seen: list[Any] = []
    node.on_record = Suppress(store="buffer", wait=10).open(node, lambda *_: seen.append(lookup("a")))  # type: ignore[arg-type]
    node.pipe("a", Change(5, 4), 0)
    node.pipe("z", Change(1), 10)
    assert seen == [(4, -1)]
