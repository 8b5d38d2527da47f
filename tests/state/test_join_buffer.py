"""The grace buffer of stream-table joins: order, formats, barriers, opening again, restoring."""

from __future__ import annotations

from typing import Any

from penstock.record import Origin
from penstock.serde import Serdes
from penstock.state.join_buffer import JoinBufferStore, restore_rows
from penstock.state.memory import MemoryState
from penstock.state.open import Standalone
from penstock.state.spec import StoreKind, StoreSpec

SPEC = StoreSpec("waiting", StoreKind.BUFFER, retain_duplicates=True)
ORIGIN = Origin("topic", 2, 7, 3, b"raw", b"raw", (), 5)
HEADERS = (("h", b"x"), ("n", None))


def opened(state: MemoryState | None = None) -> JoinBufferStore:
    return JoinBufferStore(SPEC, state or MemoryState(), Standalone(ORIGIN), Serdes.string, Serdes.string)


def commit(store: JoinBufferStore) -> list[Any]:
    sealed = store.seal()
    store.apply(sealed)
    return sealed.changelog


def values(store: JoinBufferStore, until: int) -> list[Any]:
    return [record.value for record in store.release(until)]


def test_records_leave_by_time_then_key_then_arrival_and_only_once():
    store = opened()
    for key, value, timestamp in (("b", "1", 5), ("a", "2", 5), ("b", "3", 4), ("b", "4", 5), ("b", "5", 6)):
        store.put(key, value, timestamp, ())
    assert values(store, 5) == ["3", "2", "1", "4"]
    assert values(store, 5) == []
    assert values(store, 6) == ["5"]
    assert store.count() == 0


def test_a_record_may_come_behind_what_was_released():
    store = opened()
    store.put("a", "1", 5, ())
    values(store, 5)
    store.put("a", "2", 5, ())
    store.put("a", "3", 9, ())
    assert values(store, 5) == ["2"]


def test_a_record_leaves_as_it_came_with_its_origin():
    store = opened()
    store.put("a", "v", 5, HEADERS)
    [record] = store.release(5)
    assert record[1:] == (ORIGIN, "a", "v", 5, HEADERS)


def test_from_the_base_map_the_origin_comes_back_without_the_raw_bytes():
    store = opened()
    store.put("a", "v", 5, HEADERS)
    commit(store)
    [record] = store.release(5)
    assert record[2:] == ("a", "v", 5, HEADERS)
    assert record.origin == Origin("topic", 2, 7, 5, None, None, HEADERS, 2)


def test_a_record_that_comes_and_goes_within_an_epoch_is_not_logged():
    store = opened()
    store.put("a", "v", 5, ())
    store.release(5)
    assert commit(store) == []


def test_the_changelog_gets_the_row_and_then_a_tombstone():
    store = opened()
    store.put("a", "v", 5, ())
    [(key, value, *_)] = commit(store)
    assert key == bytes.fromhex("000000000000000005") + b"a" + bytes.fromhex("00000001")
    assert value is not None
    assert value.endswith(b"v" + bytes(8))
    store.release(5)
    assert [(row[0], row[1]) for row in commit(store)] == [(key, None)]


def test_opening_again_finds_the_records_and_goes_on_numbering():
    state = MemoryState()
    store = opened(state)
    store.put("a", "1", 5, ())
    store.put("a", "2", 5, ())
    values(store, 4)
    commit(store)
    again = opened(state)
    again.put("a", "3", 5, ())
    assert values(again, 5) == ["1", "2", "3"]


def test_a_restored_buffer_goes_on_numbering_behind_what_it_holds():
    store, state = opened(), MemoryState()
    for value in "123":
        store.put("a", value, 5, ())
    for key, value, _, _ in commit(store):
        for name, row, data in restore_rows(SPEC, key, value):
            state.map(name).write([(row, data)])
    restored = opened(state)
    restored.put("a", "4", 5, ())
    assert values(restored, 5) == ["1", "2", "3", "4"]
