"""Versioned stores; ``conformance/test_stores.py`` compares them with Kafka's own, verb by verb."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from key_value_cases import Opened

from penstock.errors import StoreError
from penstock.record import VersionedRecord
from penstock.state.memory import MemoryState
from penstock.state.restore import restore
from penstock.state.spec import Stores
from penstock.state.versioned import PUT_LATEST, PUT_REJECTED

SPEC = Stores.versioned("v", history=20, segment_interval=5)


@pytest.fixture
def case(state):
    return Opened(state, SPEC)


def test_put_returns_the_end_of_the_version(case):
    assert case.store.put("k", "b", 10) == PUT_LATEST
    assert case.store.put("k", "c", 20) == PUT_LATEST
    assert case.store.put("k", "a", 5) == 10
    assert case.store.put("k", "b2", 10) == 20
    assert list(case.store.history("k")) == [
        VersionedRecord("a", 5, 10),
        VersionedRecord("b2", 10, 20),
        VersionedRecord("c", 20),
    ]


def test_get_finds_the_version_that_was_valid(case):
    case.store.put("k", "a", 5)
    case.store.put("k", None, 8)
    case.store.put("k", "b", 12)
    assert [case.store.get("k", as_of) for as_of in (4, 5, 7, 8, 11, 12, 99)] == [
        None,
        VersionedRecord("a", 5, 8),
        VersionedRecord("a", 5, 8),
        None,
        None,
        VersionedRecord("b", 12),
        VersionedRecord("b", 12),
    ]
    assert case.store.get("k") == VersionedRecord("b", 12)
    assert case.store.read("k") == ("b", 12)
    assert case.store.get("other") is None


def test_delete_returns_the_version_that_was_valid_and_ends_it(case):
    case.store.put("k", "a", 5)
    assert case.store.delete("k", 9) == VersionedRecord("a", 5)
    assert case.store.get("k") is None
    assert case.store.get("k", 8) == VersionedRecord("a", 5, 9)


def test_a_put_that_is_refused_is_not_logged(case):
    case.store.put("k", "new", 100)
    assert case.store.put("other", "late", 79) == PUT_REJECTED
    assert case.store.put("other", "in time", 80) == PUT_LATEST
    assert case.store.delete("other", 79) is None
    assert case.context.dropped == {"expired": 2}
    assert [row[1:3] for row in case.store.seal().changelog] == [
        (b'"new"', 100),
        (b'"in time"', 80),
    ]


def test_a_lookup_older_than_the_history_finds_only_a_last_version(case):
    case.store.put("old", "kept", 10)
    case.store.put("k", "a", 10)
    case.store.put("k", "b", 100)
    assert case.store.get("old", 50) == VersionedRecord("kept", 10)
    assert case.store.get("k", 79) is None
    assert case.store.get("k", 80) == VersionedRecord("a", 10, 100)


def test_history_is_bounded_by_validity_on_both_sides(case):
    for timestamp in (0, 5, 10):
        case.store.put("k", timestamp, timestamp)
    assert [v.value for v in case.store.history("k", since=5, until=9)] == [5]
    assert [v.value for v in case.store.history("k", since=4, until=10)] == [0, 5, 10]
    assert [v.value for v in case.store.history("k", reverse=True)] == [10, 5, 0]
    assert [v.value for v in case.store.history("k", until=3)] == [0]


def test_versions_are_deleted_when_the_segment_of_their_end_expires(case):
    for timestamp in range(0, 100, 2):
        case.store.put("k", timestamp, timestamp)
        case.store.put("gone", None if timestamp == 4 else timestamp, min(timestamp, 4))
        case.barrier()
    assert case.context.dropped == {"expired": 37}
    assert [v.timestamp for v in case.store.history("k")] == list(range(74, 100, 2))
    case.barrier()
    assert case.state.map("v/history").count() == 12
    assert case.state.map("v/expiry").count() == 12
    case.store.put("other", 1, 500)
    case.barrier()
    case.barrier()
    assert (case.state.map("v/history").count(), case.state.map("v/expiry").count()) == (0, 0)
    assert case.store.get("k") == VersionedRecord(98, 98)


def test_a_last_tombstone_is_forgotten_once_it_is_of_no_use(case):
    case.store.put("k", "a", 5)
    case.store.put("k", None, 10)
    case.barrier()
    assert case.state.map("v").count() == 1
    case.store.put("other", 1, 500)
    case.barrier()
    case.barrier()
    assert [key for key, _ in case.state.map("v").range(None, None)] == [b"other"]
    assert case.state.map("v/history").count() == 0


def test_a_delete_at_the_time_of_the_only_version_leaves_nothing_as_in_kafka(case):
    case.store.put("k", "a", 10)
    case.store.put("k", None, 10)
    assert case.store.put("k", "b", 5) == PUT_LATEST
    assert case.store.get("k") == VersionedRecord("b", 5)


def test_a_key_of_none_is_refused(case):
    for attempt in (
        lambda: case.store.put(None, 1, 1),
        lambda: case.store.get(None),
        lambda: case.store.delete(None, 1),
        lambda: case.store.history(None),
    ):
        with pytest.raises(StoreError, match="'v'"):
            attempt()


def look(case) -> list[object]:
    store = case.store
    return [[store.get(key), *store.history(key), *(store.get(key, as_of) for as_of in range(60))] for key in "ab"]


puts = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.none() | st.integers(0, 9),
        st.integers(0, 59),
        st.sampled_from(["", "", "seal", "barrier", "reopen"]),
    ),
    max_size=25,
)


@settings(max_examples=80, deadline=None)
@given(puts)
def test_results_do_not_depend_on_barriers_restarts_and_restores(puts):
    whole, cut = Opened(MemoryState(), SPEC), Opened(MemoryState(), SPEC)
    changelog, sealed = [], []
    for key, value, timestamp, then in puts:
        assert whole.store.put(key, value, timestamp) == cut.store.put(key, value, timestamp)
        if then:
            sealed.append(cut.store.seal())
            changelog += sealed[-1].changelog
        if then in ("barrier", "reopen"):
            for epoch in sealed:
                cut.store.apply(epoch)
            sealed.clear()
        if then == "reopen":
            cut = cut.reopened()
        assert look(whole) == look(cut)
    changelog += cut.store.seal().changelog
    restored = Opened(MemoryState(), SPEC)
    half = len(changelog) // 2
    for part in (changelog[:half], changelog[half:]):
        restore(SPEC, restored.state, [row[:3] for row in part])
    assert look(restored.reopened()) == look(whole)
