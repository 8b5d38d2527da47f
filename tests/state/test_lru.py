from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from key_value_cases import Opened, origin

from penstock.errors import StoreError
from penstock.state.memory import MemoryState
from penstock.state.restore import restore
from penstock.state.spec import Stores


@pytest.fixture
def case(state):
    return Opened(state, Stores.lru("s", max_entries=3))


def keys(case) -> list[str]:
    return [key for key, _ in case.store.all()]


def test_the_row_used_longest_ago_makes_room(case):
    for key in "abc":
        case.store.put(key, key)
    case.store.put("d", "d")
    assert keys(case) == ["b", "c", "d"]


def test_getting_and_putting_are_use(case):
    for key in "abc":
        case.store.put(key, key)
    case.store.get("a")
    case.store.put("b", "again")
    case.store.put("d", "d")
    assert keys(case) == ["a", "b", "d"]


def test_ranges_and_looks_from_outside_are_no_use(case):
    for key in "abc":
        case.store.put(key, key)
    assert list(case.store.range("a", "b")) == [("a", "a"), ("b", "b")]
    assert case.store.peek("a") == ("a", -1)
    assert [key for key, _ in case.store.reverse_all()] == ["c", "b", "a"]
    case.store.put("d", "d")
    assert keys(case) == ["b", "c", "d"]


def test_a_row_that_made_room_is_deleted_in_the_changelog(case):
    for timestamp, key in enumerate("abcd"):
        case.context.origin = origin(timestamp)
        case.store.put(key, key)
    assert case.barrier().changelog == [
        (b"b", b'"b"', 1, ()),
        (b"c", b'"c"', 2, ()),
        (b"a", None, 3, ()),
        (b"d", b'"d"', 3, ()),
    ]


def test_a_restore_lets_nothing_go_that_the_changelog_does_not_delete():
    store = Opened(MemoryState(), Stores.lru("s", max_entries=3))
    for key in "bax":
        store.store.put(key, key)
    changelog = store.barrier().changelog
    store.store.get("b")  # use is not logged
    for key in "ca":
        store.store.put(key, key)
    changelog += store.barrier().changelog
    restored = Opened(MemoryState(), store.spec)
    restore(store.spec, restored.state, [row[:3] for row in changelog])
    assert keys(restored.reopened()) == keys(store)


def test_a_delete_makes_room(case):
    for key in "abc":
        case.store.put(key, key)
    assert case.store.delete("b") == "b"
    case.store.put("d", "d")
    assert keys(case) == ["a", "c", "d"]


def test_the_other_verbs_are_there(case):
    assert case.store.put_if_absent("a", 1) is None
    assert case.store.merge("a", 2, lambda old, new: old + new) == 3
    assert list(case.store.prefix_scan("a")) == [("a", 3)]
    assert case.store.approximate_num_entries() == 1
    with pytest.raises(StoreError, match="'s'"):
        case.store.put(None, 1)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcdef"), st.none() | st.integers(0, 9)),
        st.tuples(st.just("get"), st.sampled_from("abcdef"), st.none()),
        st.tuples(st.sampled_from(["barrier", "reopen"]), st.none(), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_an_lru_store_is_an_ordered_dict_wherever_it_is_reopened(steps):
    case = Opened(MemoryState(), Stores.lru("s", max_entries=3))
    model: OrderedDict[str, int] = OrderedDict()
    changelog = []
    for verb, key, value in steps:
        if verb == "get":
            assert case.store.get(key) == model.get(key)
            if key in model:
                model.move_to_end(key)
        elif verb == "put":
            case.store.put(key, value)
            model.pop(key, None)
            if value is not None:
                model[key] = value
            if len(model) > 3:
                model.popitem(last=False)
        else:
            changelog += case.barrier().changelog
            if verb == "reopen":
                case = case.reopened()
        assert list(case.store.all()) == sorted(model.items())
    changelog += case.barrier().changelog
    restored = Opened(MemoryState(), case.spec)
    restore(case.spec, restored.state, [row[:3] for row in changelog])
    assert list(restored.reopened().store.all()) == sorted(model.items())
