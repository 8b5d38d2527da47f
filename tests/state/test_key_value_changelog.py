from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from key_value_cases import Opened, opened, origin

from penstock.record import ValueAndTimestamp
from penstock.serde import Serdes
from penstock.state.memory import MemoryState
from penstock.state.restore import restore
from penstock.state.spec import Stores


def test_a_plain_row_is_logged_with_the_timestamp_of_the_record_being_processed(state):
    case = opened(state)
    case.context.origin = origin(42)._replace(headers=(("h", b"1"),))
    case.store.put("k", 1)
    sealed = case.store.seal()
    assert sealed.changelog == [(b"k", b"1", 42, ())]
    assert sealed.writes == [(b"k", b"1")]


def test_a_timestamped_row_is_logged_without_its_prefix_and_stored_with_it(state):
    case = opened(state, timestamped=True)
    case.context.origin = origin(42)
    case.store.put("k", ValueAndTimestamp(1, 258))
    sealed = case.store.seal()
    assert sealed.changelog == [(b"k", b"1", 258, ())]
    assert sealed.writes == [(b"k", b"\0\0\0\0\0\0\x01\x021")]


def test_a_delete_is_logged_with_the_timestamp_of_the_record_being_processed(state):
    case = opened(state, timestamped=True)
    case.context.origin = origin(42)
    case.store.put("k", None)
    case.store.write("l", None, 43)
    assert case.store.seal().changelog == [(b"k", None, 42, ()), (b"l", None, 43, ())]


def test_the_changelog_of_an_epoch_has_the_last_row_of_each_key(state):
    case = opened(state)
    for key, value in [("a", 1), ("b", 1), ("a", 2), ("b", None)]:
        case.store.put(key, value)
    assert sorted(case.barrier().changelog) == [(b"a", b"2", 0, ()), (b"b", None, 0, ())]


def test_a_store_that_is_not_logged_has_writes_but_no_changelog(state):
    case = opened(state, logged=False)
    case.store.put("k", 1)
    sealed = case.barrier()
    assert (sealed.changelog, len(sealed.writes)) == ([], 1)


@pytest.mark.parametrize("options", [{}, {"timestamped": True}, {"ttl": 50}, {"ttl": 50, "timestamped": True}], ids=str)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    puts=st.lists(
        st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 5), st.integers(0, 200), st.booleans()),
        max_size=20,
    )
)
def test_a_store_restored_from_its_changelog_equals_the_store(options, puts):
    case = opened(MemoryState(), **options)
    changelog = []
    for key, value, timestamp, barrier in puts:
        case.context.origin = origin(timestamp)
        case.store.put(key, case.wrap(value, timestamp))
        if barrier:
            changelog += case.barrier().changelog
    changelog += case.barrier().changelog
    other = MemoryState()
    half = len(changelog) // 2
    for part in (changelog[:half], changelog[half:]):
        restore(case.spec, other, [row[:3] for row in part])
    restored = Opened(other, case.spec)
    assert list(restored.store.all()) == list(case.store.all())
    assert list(other.map("s").range(None, None)) == list(case.state.map("s").range(None, None))
    late = origin(190)
    case.context.origin = restored.context.origin = late
    for each in (case, restored):
        each.store.put("z", each.wrap(1, 190))
    assert list(restored.store.all()) == list(case.store.all())
    assert restored.barrier().changelog == case.barrier().changelog


def test_the_changelog_serdes_are_those_of_the_spec(state):
    spec = Stores.key_value("s", key=Serdes.int64, value=Serdes.string)
    case = Opened(state, spec)
    case.store.put(1, "é")
    assert case.store.seal().changelog == [(bytes(7) + b"\x01", "é".encode(), 0, ())]
