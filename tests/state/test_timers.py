"""Timer stores: order, deduplication, deletion, the barrier, restore, and a naive model."""

from __future__ import annotations

import shutil
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import StoreError
from penstock.record import NO_ORIGIN
from penstock.serde import Serdes
from penstock.state.lmdb_store import LmdbState
from penstock.state.memory import MemoryState
from penstock.state.open import Standalone
from penstock.state.spec import Stores
from penstock.state.timers import TimerStore, restore_timer_row


def timers(state=None, context=None, **options):
    return TimerStore(Stores.timers("t", **options), state or MemoryState(), context or Standalone(), Serdes.string)


def barrier(store):
    sealed = store.seal()
    store.apply(sealed)
    return sealed


def test_timers_fire_by_time_then_key_and_once(state):
    store = timers(state)
    for key, at in ("b", 20), ("a", 20), ("c", 10), ("a", 30):
        store.register("event", key, at)
    assert list(store.due("event", 20)) == [(10, "c"), (20, "a"), (20, "b")]
    assert list(store.due("event", 20)) == []
    assert list(store.due("event", 30)) == [(30, "a")]


def test_registering_twice_is_registering_once(state):
    store = timers(state)
    for _ in range(2):
        store.register("event", "a", 10)
    barrier(store)
    store.register("event", "a", 10)
    assert list(store.due("event", 10)) == [(10, "a")]
    barrier(store)
    assert list(store.due("event", 10)) == []


def test_a_timer_that_is_registered_already_is_not_logged_again(state):
    store = timers(state)
    store.register("event", "a", 10)
    assert len(barrier(store).changelog) == 1
    store.register("event", "a", 10)
    store.register("event", "b", 10)
    assert [row[0][9:] for row in barrier(store).changelog] == [b"b"]


def test_a_timer_may_be_registered_again_after_it_fired(state):
    store = timers(state)
    store.register("event", "a", 10)
    assert list(store.due("event", 10)) == [(10, "a")]
    store.register("event", "a", 10)
    barrier(store)
    assert list(store.due("event", 10)) == [(10, "a")]


def test_a_deleted_timer_does_not_fire(state):
    store = timers(state)
    for key in "abc":
        store.register("event", key, 10)
    store.delete("event", "a", 10)
    barrier(store)
    store.delete("event", "b", 10)
    store.delete("event", "nobody", 10)
    assert list(store.due("event", 10)) == [(10, "c")]


def test_the_domains_do_not_mix(state):
    store = timers(state)
    store.register("event", "a", 10)
    store.register("processing", "b", 5)
    barrier(store)
    store.register("processing", "c", 7)
    assert (store.earliest("event"), store.earliest("processing")) == (10, 5)
    assert list(store.due("processing", 100)) == [(5, "b"), (7, "c")]
    assert (store.earliest("event"), store.earliest("processing")) == (10, None)


def test_dirty_pending_and_base_timers_fire_in_one_order(state):
    store = timers(state)
    store.register("event", "a", 10)
    store.register("event", "a", 40)
    barrier(store)
    store.register("event", "a", 20)
    sealed = store.seal()
    store.register("event", "a", 15)
    store.delete("event", "a", 40)
    assert list(store.due("event", 15)) == [(10, "a"), (15, "a")]
    store.apply(sealed)
    assert list(store.due("event", 50)) == [(20, "a")]


def test_a_timer_registered_while_others_fire_fires_in_the_same_run_if_it_is_due():
    store = timers()
    store.register("event", "a", 10)
    fired = []
    for at, key in store.due("event", 30):
        fired.append((at, key))
        if len(fired) < 5:
            store.register("event", key, at + 10)
    assert fired == [(10, "a"), (20, "a"), (30, "a")]
    assert store.earliest("event") == 40


def test_timers_left_over_when_the_run_is_ended_early_stay():
    store = timers()
    for key in "abc":
        store.register("event", key, 10)
    assert next(store.due("event", 10)) == (10, "a")
    assert list(store.due("event", 10)) == [(10, "b"), (10, "c")]


def test_a_timer_registered_and_fired_within_an_epoch_leaves_no_trace(state):
    store = timers(state)
    store.register("event", "a", 10)
    assert list(store.due("event", 10)) == [(10, "a")]
    assert not store.seal()


def test_the_changelog_has_a_row_per_timer_and_a_tombstone_when_it_fired(make_state):
    context = Standalone(NO_ORIGIN._replace(timestamp=3))
    first, second = make_state(), make_state()
    store = timers(first, context)
    store.register("event", "a", 258)
    store.register("processing", "b", 1)
    log = barrier(store).changelog
    assert log == [
        (b"\x00\x00\x00\x00\x00\x00\x00\x01\x02a", b"", 3, ()),
        (b"\x01\x00\x00\x00\x00\x00\x00\x00\x01b", b"", 3, ()),
    ]
    assert list(store.due("processing", 5)) == [(1, "b")]
    log += barrier(store).changelog
    assert log[2:] == [(b"\x01\x00\x00\x00\x00\x00\x00\x00\x01b", None, 3, ())]
    for key, value, timestamp, _ in log:
        for name, row, raw in restore_timer_row(store.spec, key, value, timestamp):
            second.map(name).write([(row, raw)])
    again = timers(second)
    assert (list(again.due("processing", 1000)), list(again.due("event", 1000))) == ([], [(258, "a")])


def test_an_unlogged_store_keeps_its_timers_and_has_no_changelog(state):
    store = timers(state, logged=False)
    store.register("event", "a", 10)
    assert barrier(store).changelog == []
    assert list(timers(state, logged=False).due("event", 10)) == [(10, "a")]


def test_odd_domains_keys_and_times_are_refused():
    store = timers()
    with pytest.raises(StoreError, match="'event' or 'processing', not 'wall'"):
        store.register("wall", "a", 1)
    with pytest.raises(StoreError, match="must not be None"):
        store.register("event", None, 1)
    with pytest.raises(StoreError, match="must not be negative"):
        store.register("event", "a", -1)


domains = st.sampled_from(["event", "processing"])
keys = st.sampled_from(["a", "ab", "a\0", ""])
times = st.integers(0, 12)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("register"), domains, keys, times),
        st.tuples(st.just("register"), domains, keys, times),
        st.tuples(st.just("delete"), domains, keys, times),
        st.tuples(st.just("due"), domains, times),
        st.tuples(st.sampled_from(["seal", "apply", "reopen"])),
    ),
    max_size=50,
)


@pytest.mark.parametrize("body", ["memory", "lmdb"])
@settings(max_examples=80, deadline=None)
@given(steps=steps)
def test_a_timer_store_does_what_a_set_does(body, steps):
    folder = tempfile.mkdtemp()
    state = MemoryState() if body == "memory" else LmdbState(folder)
    store, model, pending = timers(state), set(), []
    try:
        for kind, *args in [*steps, ("reopen",), ("due", "event", 99), ("due", "processing", 99)]:
            if kind == "register":
                store.register(*args)
                model.add(tuple(args))
            elif kind == "delete":
                store.delete(*args)
                model.discard(tuple(args))
            elif kind == "due":
                domain, now = args
                due = {row for row in model if row[0] == domain and row[2] <= now}
                expected = sorted((at, key.encode()) for _, key, at in due)
                assert list(store.due(domain, now)) == [(at, key.decode()) for at, key in expected]
                model -= due
                rest = [at for d, _, at in model if d == domain]
                assert store.earliest(domain) == (min(rest) if rest else None)
            else:
                pending.append(store.seal())
                if kind != "seal":
                    for sealed in pending:
                        store.apply(sealed)
                    pending.clear()
                if kind == "reopen":
                    store = timers(state)
    finally:
        state.destroy()
        shutil.rmtree(folder, ignore_errors=True)
