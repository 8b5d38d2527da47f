"""Session stores: verbs, expiry, caching, the changelog, and a naive model."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.errors import SerializationError, StoreError
from penstock.record import NO_ORIGIN, Windowed
from penstock.serde import Serdes
from penstock.state.keys import session_key
from penstock.state.lmdb_store import LmdbState
from penstock.state.memory import MemoryState
from penstock.state.open import Standalone
from penstock.state.session import SessionStore, restore_session_row
from penstock.state.spec import Stores
from penstock.state.view import ReadOnlyView

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "state.json").read_text())["changelogs"]["session_count"]
MAX = 2**63 - 1


def sessions(state=None, context=None, *, retention=100, interval=None, time_ordered=False, **options):
    spec = Stores.session("s", retention, **options).with_(segment_interval=interval, time_ordered=time_ordered)
    return SessionStore(spec, state or MemoryState(), context or Standalone(), Serdes.string, Serdes.int64)


def barrier(store):
    store.flush()
    sealed = store.seal()
    store.apply(sealed)
    return sealed


def spans(rows):
    return [(k.key, k.start, k.end) for k, _ in rows]


def test_sessions_are_found_by_end_and_start_both_ends_included(state):
    store = sessions(state)
    for start, end in (0, 10), (20, 30), (40, 50):
        store.put(Windowed("a", start, end), end)
    barrier(store)
    assert spans(store.find_sessions("a", 10, 40)) == [("a", 0, 10), ("a", 20, 30), ("a", 40, 50)]
    assert spans(store.find_sessions("a", 11, 39)) == [("a", 20, 30)]
    assert spans(store.backward_find_sessions("a", 0, 20)) == [("a", 20, 30), ("a", 0, 10)]
    assert spans(store.find_sessions("b", 0, MAX)) == []


def test_sessions_of_a_key_come_by_end_then_start(state):
    store = sessions(state)
    for start, end in (20, 30), (5, 30), (0, 40), (7, 9):
        store.put(Windowed("a", start, end), 1)
    barrier(store)
    store.put(Windowed("a", 6, 30), 1)
    expected = [("a", 7, 9), ("a", 5, 30), ("a", 6, 30), ("a", 20, 30), ("a", 0, 40)]
    assert spans(store.fetch("a")) == expected
    assert spans(store.backward_fetch("a")) == expected[::-1]


def test_one_session_is_fetched_put_over_and_removed(state):
    store = sessions(state)
    session = Windowed("a", 0, 10)
    store.put(session, 1)
    barrier(store)
    store.put(session, 2)
    assert (store.fetch_session("a", 0, 10), store.fetch_session("a", 0, 11)) == (2, None)
    store.remove(session)
    assert (store.fetch_session("a", 0, 10), list(store.fetch("a"))) == (None, [])
    barrier(store)
    assert list(store.fetch_range(None, None)) == []
    store.put(session, 3)
    store.put(session, None)
    assert store.fetch_session("a", 0, 10) is None


def test_several_keys_come_by_segment_then_key_in_a_persistent_store(state):
    store = sessions(state, interval=50)
    for key, start, end in ("b", 0, 5), ("a", 60, 70), ("a", 0, 9), ("c", 3, 4):
        store.put(Windowed(key, start, end), 1)
    barrier(store)
    expected = [("a", 0, 9), ("b", 0, 5), ("c", 3, 4), ("a", 60, 70)]
    assert spans(store.fetch_range(None, None)) == expected
    assert spans(store.backward_fetch_range(None, None)) == expected[::-1]
    assert spans(store.find_sessions_range("a", "b", 6, 60)) == [("a", 0, 9), ("a", 60, 70)]
    assert spans(store.backward_find_sessions_range("a", "b", 0, 0)) == [("b", 0, 5), ("a", 0, 9)]


@pytest.mark.parametrize("time_ordered", [False, True])
def test_ended_sessions_come_by_end_then_start_then_key(state, time_ordered):
    store = sessions(state, interval=50, time_ordered=time_ordered)
    for key, start, end in ("b", 0, 5), ("a", 60, 70), ("a", 0, 5), ("c", 3, 5), ("a", 1, 5):
        store.put(Windowed(key, start, end), 1)
    barrier(store)
    store.put(Windowed("d", 0, 4), 1)
    store.remove(Windowed("c", 3, 5))
    assert spans(store.find_sessions_ended(4, 69)) == [("d", 0, 4), ("a", 0, 5), ("b", 0, 5), ("a", 1, 5)]
    assert spans(store.find_sessions_ended(6, 70)) == [("a", 60, 70)]


# ---- expiry


def test_ended_sessions_are_found_past_the_retention_while_their_segment_is_there(state):
    store = sessions(state, retention=100, interval=50)
    store.put(Windowed("a", 0, 60), 1)
    barrier(store)
    store.put(Windowed("b", 180, 180), 1)
    assert spans(store.fetch("a")) == []
    assert spans(store.find_sessions_ended(0, 79)) == [("a", 0, 60)]


def test_a_session_expires_by_its_end(state):
    context = Standalone()
    store = sessions(state, context, retention=100, interval=50)
    store.put(Windowed("a", 0, 99), 1)
    store.put(Windowed("a", 0, 100), 2)
    store.put(Windowed("a", 199, 199), 3)
    assert spans(store.fetch("a")) == [("a", 0, 100), ("a", 199, 199)]
    assert (store.fetch_session("a", 0, 99), store.fetch_session("a", 0, 100)) == (None, 2)
    store.put(Windowed("a", 0, 50), 4)  # unseen, but its segment lives
    assert context.dropped == {}
    store.put(Windowed("a", 0, 49), 4)
    assert context.dropped == {"expired": 1}
    store.remove(Windowed("a", 0, 49))
    assert context.dropped == {"expired": 1}


def test_an_in_memory_store_refuses_a_session_at_exactly_the_retention():
    context = Standalone()
    store = sessions(context=context, retention=100, persistent=False)
    store.put(Windowed("a", 200, 200), 1)
    store.put(Windowed("a", 0, 101), 2)
    store.put(Windowed("a", 0, 100), 3)
    assert (context.dropped, spans(store.fetch("a"))) == ({"expired": 1}, [("a", 0, 101), ("a", 200, 200)])


def test_expired_segments_are_dropped(state):
    store = sessions(state, retention=100, interval=50)
    store.put(Windowed("a", 0, 10), 1)
    barrier(store)
    store.put(Windowed("a", 300, 310), 1)
    barrier(store)
    assert state.names() == ["s", "s/6"]


# ---- caching


def test_a_cached_store_finds_sessions_for_twice_the_retention(state):
    """A record late by gap + grace belongs to a session that ended another gap earlier; Kafka's cache still has it."""
    context = Standalone()
    store = sessions(state, context, retention=100, interval=50, cached=True)
    for end in 99, 100, 149, 250:
        store.put(Windowed("a", end, end), 1)
        barrier(store)
    store.put(Windowed("b", 349, 349), 1)
    barrier(store)
    assert spans(store.fetch("a")) == [("a", 100, 100), ("a", 149, 149), ("a", 250, 250)]
    store.put(Windowed("a", 199, 199), 1)  # reads go on, puts do not
    assert (context.dropped, spans(store.find_sessions("a", 150, 249))) == ({"expired": 1}, [])
    assert state.names() == ["s", "s/2", "s/5", "s/6"]


def test_a_cached_store_removes_what_it_still_finds_and_says_so_downstream(state):
    store, seen = sessions(state, retention=100, interval=50, cached=True), []
    store.on_flush(lambda session, new, *_: seen.append((session.end, new)), send_old=False)
    store.put(Windowed("a", 100, 100), 1)
    barrier(store)
    store.put(Windowed("b", 300, 300), 1)
    store.remove(Windowed("a", 100, 100))
    sealed = barrier(store)
    assert spans(store.fetch("a")) == []
    assert seen == [(100, 1), (300, 1), (100, None)]
    assert (session_key(b"a", 100, 100), None) in [row[:2] for row in sealed.changelog]


def test_a_cached_store_forwards_once_per_session_with_the_time_of_its_end(state):
    context = Standalone()
    store = sessions(state, context, cached=True)
    seen = []
    store.on_flush(lambda *update: seen.append(update), send_old=True)
    context.origin = NO_ORIGIN._replace(timestamp=7)
    store.put(Windowed("a", 0, 10), 1, (("h", b"1"),))
    barrier(store)
    store.remove(Windowed("a", 0, 10))
    store.put(Windowed("a", 0, 15), 2)
    store.put(Windowed("b", 0, 5), 9)
    store.remove(Windowed("b", 0, 5))
    sealed = barrier(store)
    assert seen == [
        (Windowed("a", 0, 10), 1, None, 10, (("h", b"1"),)),
        (Windowed("a", 0, 10), None, 1, 10, ()),
        (Windowed("a", 0, 15), 2, None, 15, ()),
    ]
    assert [(key, value is None, timestamp) for key, value, timestamp, _ in sealed.changelog] == [
        (session_key(b"a", 0, 10), True, 7),
        (session_key(b"a", 0, 15), False, 7),
    ]


# ---- changelog and refusals


def test_the_changelog_of_a_session_count_equals_kafka_s():
    context, gap = Standalone(), 5_000
    store = sessions(context=context, retention=gap + 60_000)
    rows = []
    for key, _, timestamp in GOLDEN["input"]:
        context.origin = NO_ORIGIN._replace(timestamp=timestamp)
        start, end, count = timestamp, timestamp, 1
        merged = list(store.find_sessions(key, timestamp - gap, timestamp + gap))
        for session, found in merged:
            start, end, count = min(start, session.start), max(end, session.end), count + found
            store.remove(session)
        store.put(Windowed(key, start, end), count)
        rows += barrier(store).changelog
    assert [[k.hex(), None if v is None else v.hex(), ts, []] for k, v, ts, _ in rows] == GOLDEN["rows"]


@pytest.mark.parametrize("time_ordered", [False, True])
def test_a_store_restored_from_its_changelog_is_the_same(make_state, time_ordered):
    first, second = make_state(), make_state()
    store = sessions(first, interval=50, time_ordered=time_ordered)
    for key, start, end in ("a", 0, 5), ("b", 0, 5), ("a", 60, 70):
        store.put(Windowed(key, start, end), 1)
    log = barrier(store).changelog
    store.remove(Windowed("b", 0, 5))
    log += barrier(store).changelog
    for key, value, timestamp, _ in log:
        for name, row, raw in restore_session_row(store.spec, key, value, timestamp):
            second.map(name).write([(row, raw)])
    again = sessions(second, interval=50, time_ordered=time_ordered)
    assert list(again.fetch_range(None, None)) == list(store.fetch_range(None, None))
    assert list(again.find_sessions_ended(0, MAX)) == list(store.find_sessions_ended(0, MAX))


def test_null_keys_odd_sessions_and_odd_values_are_refused():
    store = sessions()
    for verb in (
        lambda: store.put(Windowed(None, 0, 1), 1),
        lambda: store.remove(Windowed(None, 0, 1)),
        lambda: store.fetch(None),
        lambda: store.fetch_session(None, 0, 1),
    ):
        with pytest.raises(StoreError, match="key must not be None"):
            verb()
    with pytest.raises(StoreError, match="from 5 to 4"):
        store.put(Windowed("a", 5, 4), 1)
    with pytest.raises(SerializationError, match=r"store 's'.*'x' of key 'a'"):
        store.put(Windowed("a", 0, 1), "x")


def test_the_view_for_queries_reads_and_refuses_writes():
    store = sessions()
    store.put(Windowed("a", 0, 1), 1)
    view = ReadOnlyView(store)
    assert (list(view.fetch("a")), view.fetch_session("a", 0, 1)) == ([(Windowed("a", 0, 1), 1)], 1)
    for verb in ("put", "remove", "seal", "apply", "flush"):
        with pytest.raises(StoreError, match="read-only"):
            getattr(view, verb)


# ---- the model

RETENTION, INTERVAL = 25, 10
keys = st.sampled_from(["a", "ab", "a\0", "b", ""])
times = st.integers(0, 60)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys, times, st.integers(0, 12), st.one_of(st.none(), st.integers(0, 3))),
        st.tuples(st.just("put"), keys, times, st.integers(0, 12), st.one_of(st.none(), st.integers(0, 3))),
        st.tuples(st.just("remove"), keys, times, st.integers(0, 12)),
        st.tuples(st.sampled_from(["seal", "apply", "reopen"])),
        st.tuples(st.just("look"), keys, keys, times, times),
    ),
    max_size=40,
)


class Model:
    """All sessions ever put, and Kafka's rules."""

    def __init__(self, persistent, cached):
        self.reads_on = persistent and cached
        self.persistent, self.rows, self.observed, self.dropped = persistent, {}, -1, 0

    def put(self, key, start, end, value):
        self.observed = max(self.observed, end)
        limit = self.observed - RETENTION
        expired = end // INTERVAL < limit // INTERVAL if self.persistent else end <= limit
        if expired and (value is not None or not self.reads_on or end < self.first()):
            self.dropped += 1
        elif value is None:
            self.rows.pop((key, start, end), None)
        else:
            self.rows[key, start, end] = value

    def remove(self, key, start, end):
        dropped = self.dropped
        self.put(key, start, end, None)
        self.dropped = dropped

    def first(self):
        if self.reads_on:
            return (self.observed - 2 * RETENTION) // INTERVAL * INTERVAL
        return self.observed - RETENTION + 1

    def found(self, test, *, by_time):
        def order(row):
            (key, start, end), _ = row
            raw = key.encode()
            return (end, start, raw) if by_time else (end // INTERVAL, session_key(raw, start, end))

        rows = [row for row in self.rows.items() if row[0][2] >= self.first() and test(*row[0])]
        return [(Windowed(*row), value) for row, value in sorted(rows, key=order)]


def look(store, model, lower, upper, one, two):
    by_time = not model.persistent
    low, high = lower.encode(), upper.encode()
    for key in (lower, upper):
        expected = model.found(lambda k, s, e, key=key: k == key and e >= one and s <= two, by_time=False)
        assert list(store.find_sessions(key, one, two)) == expected
        assert list(store.backward_find_sessions(key, one, two)) == expected[::-1]
    expected = model.found(lambda k, s, e: low <= k.encode() <= high and e >= one and s <= two, by_time=by_time)
    assert list(store.find_sessions_range(lower, upper, one, two)) == expected
    assert list(store.backward_find_sessions_range(lower, upper, one, two)) == expected[::-1]
    assert list(store.fetch_range(None, None)) == model.found(lambda *_: True, by_time=by_time)
    expected = model.found(lambda k, s, e: one <= e <= two, by_time=True)
    ended = list(store.find_sessions_ended(one, two))
    assert [row for row in ended if row[0].end >= model.first()] == expected
    for (key, start, end), value in model.rows.items():
        visible = end >= model.first()
        assert store.fetch_session(key, start, end) == (value if visible else None)


@pytest.mark.parametrize("body", ["memory", "lmdb"])
@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("options", [{}, {"cached": True}, {"time_ordered": True}], ids=str)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=steps)
def test_a_session_store_does_what_the_model_does(body, persistent, options, steps):
    folder = tempfile.mkdtemp()
    state = MemoryState() if body == "memory" else LmdbState(folder)
    context, model, pending = Standalone(), Model(persistent, bool(options.get("cached"))), []
    downstream = {}

    def listen(session, new, old, timestamp, headers):
        assert timestamp == session.end
        assert old is None or downstream[session] == old
        downstream[session] = new

    def opened():
        store = sessions(state, context, retention=RETENTION, interval=INTERVAL, persistent=persistent, **options)
        store.on_flush(listen, send_old=True)
        return store

    try:
        store = opened()
        for kind, *args in [*steps, ("reopen",), ("look", "a", "b", 10, 50)]:
            if kind == "put":
                key, start, length, value = args
                store.put(Windowed(key, start, start + length), value)
                model.put(key, start, start + length, value)
            elif kind == "remove":
                key, start, length = args
                if start + length <= model.observed:  # as operators do: only sessions that were found
                    store.remove(Windowed(key, start, start + length))
                    model.remove(key, start, start + length)
            elif kind == "look":
                look(store, model, *args)
            else:
                store.flush()
                pending.append(store.seal())
                if kind != "seal":
                    for sealed in pending:
                        store.apply(sealed)
                    pending.clear()
                if kind == "reopen":
                    store = opened()
        assert context.dropped.get("expired", 0) == model.dropped
        if options.get("cached"):
            for (key, start, end), value in model.rows.items():
                if end > model.observed - RETENTION:
                    assert downstream[Windowed(key, start, end)] == value
    finally:
        state.destroy()
        shutil.rmtree(folder, ignore_errors=True)
