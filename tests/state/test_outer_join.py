"""The store of unmatched rows: order, formats, barriers, opening again, restoring."""

from __future__ import annotations

from typing import Any

from penstock.serde import Serdes
from penstock.state.memory import MemoryState
from penstock.state.open import Standalone
from penstock.state.outer_join import LeftOrRightSerde, OuterJoinStore, restore_rows
from penstock.state.spec import StoreKind, StoreSpec

SPEC = StoreSpec("parked", StoreKind.OUTER_JOIN)


def opened(state: MemoryState | None = None, spec: StoreSpec = SPEC) -> OuterJoinStore:
    serde = LeftOrRightSerde(Serdes.string, Serdes.int32)
    return OuterJoinStore(spec, state or MemoryState(), Standalone(), Serdes.string, serde)


def commit(store: OuterJoinStore) -> list[Any]:
    sealed = store.seal()
    store.apply(sealed)
    return sealed.changelog


def test_rows_are_kept_by_time_then_right_before_left_then_key():
    store = opened()
    store.park("b", 5, True, "l")
    store.park("a", 5, True, "l")
    store.park("z", 5, False, 1)
    store.park("z", 4, True, "l")
    assert [row[1:4] for row in store.all()] == [("z", 4, True), ("z", 5, False), ("a", 5, True), ("b", 5, True)]


def test_values_of_the_same_key_side_and_time_are_one_row_and_leave_together():
    store = opened()
    store.park("a", 5, True, "first")
    store.park("a", 5, True, "second")
    assert [row.value for row in store.take_closed(100, 0, 0)] == ["first", "second"]
    assert store.all() == []


def test_forgetting_deletes_the_whole_row_of_one_side():
    store = opened()
    store.park("a", 5, True, "first")
    store.park("a", 5, True, "second")
    store.park("a", 5, False, 1)
    store.forget("a", 5, True, 7)
    assert [row[1:4] for row in store.all()] == [("a", 5, False)]


def test_each_side_waits_its_own_time():
    store = opened()
    store.park("a", 5, True, "l")
    store.park("a", 5, False, 1)
    assert [row.left for row in store.take_closed(10, 5, 4)] == [False]
    assert [row.left for row in store.take_closed(11, 5, 4)] == [True]


def test_closed_rows_of_both_sides_leave_in_one_order():
    store = opened()
    for timestamp in (3, 1, 2):
        store.park("a", timestamp, True, "l")
        store.park("a", timestamp, False, 1)
    taken = store.take_closed(8, 5, 4)
    assert [row[2:4] for row in taken] == [(1, False), (1, True), (2, False), (2, True), (3, False)]
    store.park("a", 1, True, "late")
    assert [row[2:4] for row in store.take_closed(9, 5, 4)] == [(1, True), (3, True)]
    assert store.take_closed(100, 5, 4) == store.all() == []


def test_every_closed_row_leaves_at_once_after_opening_again():
    state = MemoryState()
    store = opened(state)
    for timestamp in (10, 12, 14):
        store.park("a", timestamp, True, "l")
    store.take_closed(16, 5, 5)
    commit(store)
    again = opened(state)
    assert [row.timestamp for row in again.take_closed(18, 5, 5)] == [12]


def test_changelog_rows_are_lists_with_the_time_of_the_writer():
    store = opened()
    store.park("a", 5, True, "x")
    store.park("a", 6, False, 1)
    assert commit(store) == [
        (bytes.fromhex("000000000000000501") + b"a", bytes.fromhex("010000000100000002") + b"\x01x", 5, ()),
        (bytes.fromhex("000000000000000600") + b"a", bytes.fromhex("0100000001000000050000000001"), 6, ()),
    ]
    store.forget("a", 5, True, 7)
    assert commit(store) == [(bytes.fromhex("000000000000000501") + b"a", None, 7, ())]


def test_a_row_that_comes_and_goes_within_an_epoch_is_not_logged():
    store = opened()
    store.park("a", 5, True, "x")
    store.forget("a", 5, True, 7)
    store.forget("b", 5, True, 7)
    assert commit(store) == []


def test_nothing_is_logged_if_the_store_is_not():
    store = opened(spec=SPEC.with_(logged=False))
    store.park("a", 5, True, "x")
    assert commit(store) == []
    assert len(store.all()) == 1


def test_rows_sealed_but_not_applied_are_seen_and_can_be_forgotten():
    store = opened()
    store.park("a", 5, True, "x")
    sealed = store.seal()
    assert len(store.all()) == 1
    store.forget("a", 5, True, 7)
    assert store.all() == []
    store.apply(sealed)
    assert store.all() == []


def test_opening_again_finds_the_rows_and_when_the_first_of_them_closes():
    state = MemoryState()
    store = opened(state)
    for timestamp in (10, 12, 14):
        store.park("a", timestamp, True, "l")
    store.take_closed(16, 5, 5)
    commit(store)
    again = opened(state)
    assert (again.earliest(5, 5), again.all()) == (18, store.all())


def test_a_restored_store_begins_with_its_oldest_row():
    store, state = opened(), MemoryState()
    for timestamp in (10, 12, 14):
        store.park("a", timestamp, True, "l")
    store.take_closed(16, 5, 5)
    for key, value, _, _ in commit(store):
        for name, row, data in restore_rows(SPEC, key, value):
            state.map(name).write([(row, data)])
    restored = opened(state)
    assert (restored.earliest(5, 5), restored.all()) == (18, store.all())
