from __future__ import annotations

import copy

import pytest
from key_value_cases import Opened, opened

from penstock.errors import StoreError, VerbError
from penstock.record import ValueAndTimestamp
from penstock.serde import Serdes
from penstock.state.memory import MemoryState
from penstock.state.merged import merged_view
from penstock.state.open import standalone
from penstock.state.spec import Stores
from penstock.state.view import ReadOnlyView, read_only


@pytest.mark.parametrize("timestamped", [False, True])
def test_a_view_gives_plain_values_and_timestamps(timestamped):
    case = opened(MemoryState(), timestamped=timestamped)
    case.store.put("a", case.wrap(1, 5))
    case.store.put("b", case.wrap(2, 6))
    case.store.put("ba", case.wrap(3, 7))
    view = ReadOnlyView(case.store)
    assert (view.get("a"), view.get("z")) == (1, None)
    assert view.get_with_timestamp("a") == ValueAndTimestamp(1, 5 if timestamped else 0)
    assert list(view.range("b", None)) == [("b", 2), ("ba", 3)]
    assert list(view.reverse_range(None, "b")) == [("b", 2), ("a", 1)]
    assert list(view.all()) == [("a", 1), ("b", 2), ("ba", 3)]
    assert list(view.reverse_all()) == [("ba", 3), ("b", 2), ("a", 1)]
    assert list(view.prefix_scan("b")) == [("b", 2), ("ba", 3)]
    assert view.approximate_num_entries() == 3


def test_a_look_from_outside_is_no_use_of_a_row_that_may_make_room():
    store = standalone(Stores.lru("s", max_entries=2))
    store.put("a", 1), store.put("b", 2)
    view = read_only(store)
    assert (view.get("a"), view.get_with_timestamp("a").value) == (1, 1)
    store.put("c", 3)
    assert [key for key, _ in view.all()] == ["b", "c"], "a was put before b, and only looked at since"


def test_rows_of_all_shards_are_counted_and_come_in_the_order_of_one():
    spec = Stores.key_value("s")
    shards = [standalone(spec) for _ in range(3)]
    for place, key in enumerate("fabced"):
        shards[place % 3].put(key, place)
    view = merged_view(spec, shards)
    assert view.approximate_num_entries() == 6
    assert [key for key, _ in view.range("b", "e")] == list("bcde")
    assert [key for key, _ in view.reverse_all()] == list("fedcba")
    assert (view.get("d"), view.get("x")) == (5, None)


@pytest.mark.parametrize("verb", ["put", "delete", "put_all", "put_if_absent", "compute", "merge", "write", "seal"])
def test_a_view_has_no_verb_that_writes(verb):
    with pytest.raises(StoreError, match=f"'s' is read-only here: it has no '{verb}'"):
        getattr(ReadOnlyView(opened(MemoryState()).store), verb)


def test_a_view_can_be_copied():
    assert copy.copy(ReadOnlyView(opened(MemoryState()).store)).get("a") is None


def has(view: ReadOnlyView, verb: str) -> bool:
    """Whether a view has a verb."""
    try:
        return callable(getattr(view, verb))
    except VerbError:
        return False


def test_the_view_fits_the_kind_of_store():
    specs = {
        "lru": Stores.lru("s", 3),
        "versioned": Stores.versioned("s", 10),
        "window": Stores.window("s", 10, 5),
        "session": Stores.session("s", 10),
        "shared": Stores.shared("s"),
    }
    asked = ("get", "history", "fetch", "all", "find_sessions", "fetch_session", "range")
    views = {kind: read_only(Opened(MemoryState(), spec).store) for kind, spec in specs.items()}
    assert {kind: [verb for verb in asked if has(view, verb)] for kind, view in views.items()} == {
        "lru": ["get", "all", "range"],
        "versioned": ["get", "history"],
        "window": ["fetch", "all"],
        "session": ["fetch", "find_sessions", "fetch_session"],
        "shared": ["get", "all", "range"],
    }
    with pytest.raises(StoreError, match="cannot be queried"):
        read_only(Opened(MemoryState(), Stores.timers("s")).store)


def test_the_history_of_a_key_is_found_in_whichever_shard_it_is():
    spec = Stores.versioned("s", 100, key=Serdes.string, value=Serdes.string)
    shards = [standalone(spec), standalone(spec)]
    shards[1].put("a", "old", 10)
    shards[1].put("a", "new", 20)
    view = merged_view(spec, shards)
    assert [version.value for version in view.history("a")] == ["old", "new"]
    assert [version.value for version in view.history("a", reverse=True)] == ["new", "old"]
    assert list(view.history("b")) == []
    assert view.get("a").value == "new"
