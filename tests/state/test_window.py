"""Window stores: verbs, expiry, duplicates, caching, the barrier, the changelog."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.errors import SerializationError, StoreError
from penstock.record import NO_ORIGIN, ValueAndTimestamp, Windowed
from penstock.serde import Serdes
from penstock.state.event_time import EventTime
from penstock.state.memory import MemoryState
from penstock.state.open import Standalone
from penstock.state.spec import Stores
from penstock.state.view import ReadOnlyView
from penstock.state.window import WindowStore, restore_window_row

CHANGELOGS = json.loads((Path(__file__).parents[1] / "golden" / "state.json").read_text())["changelogs"]
MAX = 2**63 - 1


def window(state=None, context=None, *, retention=100, size=10, interval=None, value=Serdes.int64, **options):
    time_ordered = options.pop("time_ordered", False)
    spec = Stores.window("w", retention, size, **options).with_(segment_interval=interval, time_ordered=time_ordered)
    return WindowStore(spec, state or MemoryState(), context or Standalone(), Serdes.string, value)


def barrier(store):
    store.flush()
    sealed = store.seal()
    store.apply(sealed)
    return sealed


def hexed(changelog):
    return [[k.hex(), None if v is None else v.hex(), ts, list(headers)] for k, v, ts, headers in changelog]


def test_put_and_fetch_one_window(state):
    store = window(state)
    store.put("a", 1, 10)
    assert (store.fetch("a", 10), store.fetch("a", 11), store.fetch("b", 10)) == (1, None, None)


def test_put_none_deletes_the_window(state):
    store = window(state)
    store.put("a", 1, 10)
    barrier(store)
    store.put("a", None, 10)
    assert store.fetch("a", 10) is None
    barrier(store)
    assert list(store.all()) == []


def test_fetch_of_a_span_is_by_start_and_both_ends_count(state):
    store = window(state)
    for start in (30, 10, 20, 40):
        store.put("a", start, start)
    assert list(store.fetch("a", 20, 40)) == [(20, 20), (30, 30), (40, 40)]
    assert list(store.backward_fetch("a", 10, 30)) == [(30, 30), (20, 20), (10, 10)]
    assert list(store.fetch("a", 41, 40)) == []


def test_a_span_is_read_through_dirty_pending_and_base_rows(state):
    store = window(state, retention=100_000, size=10)
    for start in (0, 60_000, 90_000):
        store.put("a", 1, start)
    barrier(store)
    store.put("a", 2, 60_000)
    store.put("a", None, 90_000)
    sealed = store.seal()
    store.put("a", 3, 30_000)
    assert list(store.fetch("a", 0, MAX)) == [(0, 1), (30_000, 3), (60_000, 2)]
    store.apply(sealed)
    assert list(store.fetch("a", 0, MAX)) == [(0, 1), (30_000, 3), (60_000, 2)]


def test_a_key_that_another_key_begins_with_is_not_mixed_up(state):
    store = window(state)
    for key in ("a", "aa", "a\0", "b"):
        store.put(key, len(key), 10)
    barrier(store)
    assert list(store.fetch("a", 0, MAX)) == [(10, 1)]
    # rows sort by their bytes, key and start run together, as in Kafka
    assert [k.key for k, _ in store.fetch_range("a", "aa", 0, MAX)] == ["a\0", "a", "aa"]
    assert [k.key for k, _ in store.fetch_range(None, "a", 0, MAX)] == ["a"]
    assert [k.key for k, _ in store.fetch_range("aa", None, 0, MAX)] == ["aa", "b"]
    assert list(store.fetch_range("b", "a", 0, MAX)) == []


def test_the_default_store_iterates_by_segment_then_key_then_start(state):
    store = window(state, interval=50)
    for key, start in ("b", 0), ("a", 60), ("a", 20), ("b", 10), ("a", 0):
        store.put(key, 1, start)
    expected = [("a", 0), ("a", 20), ("b", 0), ("b", 10), ("a", 60)]
    assert [(k.key, k.start) for k, _ in store.all()] == expected
    barrier(store)
    assert [(k.key, k.start) for k, _ in store.all()] == expected
    assert [(k.key, k.start) for k, _ in store.backward_all()] == expected[::-1]
    assert [(k.key, k.start) for k, _ in store.fetch_all(10, 60)] == [("a", 20), ("b", 10), ("a", 60)]
    assert [(k.key, k.start) for k, _ in store.backward_fetch_all(0, 10)] == [("b", 10), ("b", 0), ("a", 0)]


@pytest.mark.parametrize("options", [{"persistent": False}, {"time_ordered": True}])
def test_in_memory_and_time_ordered_stores_iterate_by_start_then_key(state, options):
    store = window(state, interval=50, **options)
    for key, start in ("b", 0), ("a", 60), ("a", 20), ("b", 10), ("a", 0):
        store.put(key, 1, start)
    expected = [("a", 0), ("b", 0), ("b", 10), ("a", 20), ("a", 60)]
    assert [(k.key, k.start) for k, _ in store.all()] == expected
    barrier(store)
    assert [(k.key, k.start) for k, _ in store.all()] == expected
    assert [(k.key, k.start) for k, _ in store.backward_all()] == expected[::-1]


@pytest.mark.parametrize("time_ordered", [False, True])
def test_read_all_is_by_start_then_key_in_every_store(state, time_ordered):
    store = window(state, interval=50, timestamped=True, time_ordered=time_ordered)
    for key, start in ("b", 0), ("a", 60), ("a", 20):
        store.write(key, start, 1, start + 5)
    barrier(store)
    store.write("a", 0, 2, 7)
    assert list(store.read_all(0, 20)) == [
        (b"a", "a", 0, 2, 7),
        (b"b", "b", 0, 1, 5),
        (b"a", "a", 20, 1, 25),
    ]


def test_windows_end_after_their_size_and_never_after_the_end_of_time():
    store = window(size=10)
    store.put("a", 1, 20)
    store.put("a", 1, MAX - 3)
    assert [k for k, _ in store.all()] == [Windowed("a", MAX - 3, MAX)]
    store = window(size=10)
    store.put("a", 1, 20)
    assert [k for k, _ in store.all()] == [Windowed("a", 20, 30)]


def test_timestamped_stores_give_value_and_timestamp(state):
    store = window(state, timestamped=True)
    store.put("a", ValueAndTimestamp(7, 3), 10)
    assert (store.fetch("a", 10), store.read("a", 10)) == (ValueAndTimestamp(7, 3), (7, 3))
    barrier(store)
    assert list(store.fetch("a", 0, 10)) == [(10, ValueAndTimestamp(7, 3))]
    assert store.read_range("a", 0, 10) == [(10, 7, 3)]
    store.put("a", ValueAndTimestamp(None, 4), 10)
    assert store.fetch("a", 10) is None


# ---- expiry


def test_reads_end_at_exactly_the_retention(state):
    store = window(state, retention=100)
    for start in (0, 1, 100):
        store.put("a", start, start)
    assert (store.fetch("a", 0), store.fetch("a", 1)) == (None, 1)
    assert list(store.fetch("a", 0, MAX)) == [(1, 1), (100, 100)]
    assert [k.start for k, _ in store.all()] == [1, 100]


def test_a_time_ordered_store_reads_one_millisecond_further_back(state):
    store = window(state, retention=100, time_ordered=True)
    for start in (0, 100, 101):
        store.put("a", start, start)
    assert (store.fetch("a", 0), store.fetch("a", 1)) == (None, None)
    store = window(retention=100, time_ordered=True)
    for start in (0, 100):
        store.put("a", start, start)
    assert (store.fetch("a", 0), [k.start for k, _ in store.all()]) == (0, [0, 100])


def test_a_persistent_store_refuses_a_window_once_its_segment_has_expired(state):
    context = Standalone()
    store = window(state, context, retention=100, interval=50)
    store.put("a", 1, 199)  # 99 is the end of the retention: segment [50, 100) still lives
    store.put("a", 1, 50)
    assert context.dropped == {}
    store.put("a", 1, 49)
    assert context.dropped == {"expired": 1}
    assert store.fetch("a", 50) is None


def test_an_in_memory_store_refuses_a_window_at_exactly_the_retention(state):
    context = Standalone()
    store = window(state, context, retention=100, persistent=False)
    store.put("a", 1, 200)
    store.put("a", 2, 101)
    assert context.dropped == {}
    store.put("a", 3, 100)
    assert (context.dropped, store.fetch("a", 101), store.fetch("a", 100)) == ({"expired": 1}, 2, None)


def test_segments_are_a_minute_or_half_the_retention_long():
    context = Standalone()
    store = window(context=context, retention=10)
    store.put("a", 1, 60_009)
    store.put("a", 1, 0)  # 59_999 is still in the first minute
    store.put("a", 1, 60_010)
    store.put("a", 1, 59_999)
    assert context.dropped == {"expired": 1}


def clock_at(time):
    clock = EventTime()
    clock.reach(time)
    return clock


@pytest.mark.parametrize("duplicates", [False, True])
def test_a_clock_that_a_task_keeps_is_the_store_s_time(state, duplicates):
    context = Standalone()
    store = window(state, context, retention=100, persistent=False, retain_duplicates=duplicates)
    clock = clock_at(300)
    store.keep_time(clock)
    store.put("a", 1, 200)
    store.put("a", 1, 1000)  # of a partition that is ahead
    store.put("a", 1, 201)
    assert (context.dropped, [at for at, _ in store.fetch("a", 0, 2000)]) == ({"expired": 1}, [201, 1000])


def test_a_store_comes_to_the_time_of_its_clock_before_a_record(state):
    store = window(state, retention=100, interval=50)
    clock = clock_at(10)
    store.keep_time(clock)
    store.put("a", 1, 10)
    clock.reach(110)
    assert store.fetch("a", 10) == 1
    store.reach()
    assert store.fetch("a", 10) is None


def test_a_clock_may_go_back_when_a_partition_shows_up(state):
    context = Standalone()
    store = window(state, context, persistent=False, retention=100)
    clock = clock_at(1000)
    store.keep_time(clock)
    store.put("fast", 1, 1000)
    clock.reach(10)
    store.put("slow", 1, 10)
    assert (context.dropped, store.fetch("slow", 10), store.fetch("fast", 1000)) == ({}, 1, 1)


def test_a_node_says_what_it_has_put_when_time_has_come(state):
    context = Standalone()
    store = window(state, context, persistent=False, retention=100)
    store.keep_time(clock_at(319))
    store.follow(lambda now: now - now % 20)
    store.put("a", 1, 200)
    assert context.dropped == {"expired": 1}
    store.put("a", 1, 201)
    assert store.fetch("a", 201) == 1


def test_the_store_s_time_outlives_it(state):
    context = Standalone()
    store = window(state, context, retention=100, persistent=False)
    store.put("a", 1, 1000)
    barrier(store)
    again = window(state, context, retention=100, persistent=False)
    again.put("a", 2, 900)
    assert context.dropped == {"expired": 1}


def test_expired_segments_are_dropped_from_the_base_and_not_written(state):
    store = window(state, retention=100, interval=50)
    store.put("a", 1, 0)
    store.put("a", 1, 60)
    barrier(store)
    assert state.names() == ["w", "w/0", "w/1"]
    store.put("a", 1, 70)
    store.put("a", 1, 210)
    sealed = barrier(store)
    assert state.names() == ["w", "w/4"]
    assert list(sealed.side) == ["w/4"]
    assert [k.start for k, _ in store.all()] == [210]


def test_the_store_s_time_survives_a_new_process(state):
    context = Standalone()
    store = window(state, context, retention=100, persistent=False)
    store.put("a", 1, 500)
    store.put("a", None, 500)
    barrier(store)
    again = window(state, context, retention=100, persistent=False)
    again.put("a", 1, 400)
    assert context.dropped == {"expired": 1}


# ---- duplicates


def test_duplicates_of_a_window_are_kept_in_the_order_they_were_put(state):
    store = window(state, retain_duplicates=True, value=Serdes.string)
    for value in "xyx":
        store.put("a", value, 10)
    store.put("a", "z", 5)
    assert list(store.fetch("a", 0, 10)) == [(5, "z"), (10, "x"), (10, "y"), (10, "x")]
    barrier(store)
    store.add("a", "w", 10)
    assert store.fetch_list("a", 10, 10) == [(10, "x"), (10, "y"), (10, "x"), (10, "w")]
    assert [v for _, v in store.all()] == ["z", "x", "y", "x", "w"]


def test_duplicates_come_back_in_reverse_order_backwards(state):
    store = window(state, retain_duplicates=True, value=Serdes.string)
    for value in "xyz":
        store.put("a", value, 10)
    barrier(store)
    assert [v for _, v in store.backward_fetch("a", 0, 10)] == ["z", "y", "x"]
    assert [(k, v) for k, v in store.backward_all()] == [(Windowed("a", 10, 20), v) for v in "zyx"]


def test_putting_none_where_duplicates_are_kept_does_nothing_but_is_logged_as_in_kafka():
    store = window(retain_duplicates=True)
    store.put("a", 1, 10)
    store.put("a", None, 10)
    assert store.fetch_list("a", 0, 10) == [(10, 1)]
    assert [row[1] is None for row in store.seal().changelog] == [False, True]


def test_a_store_with_duplicates_has_no_single_value():
    store = window(retain_duplicates=True)
    with pytest.raises(StoreError, match="keeps duplicates"):
        store.fetch("a", 10)
    with pytest.raises(StoreError, match="keeps duplicates"):
        store.write("a", 10, 1, 1)


def test_sequence_numbers_go_on_in_a_new_process(state):
    store = window(state, retain_duplicates=True)
    store.put("a", 1, 10)
    barrier(store)
    again = window(state, retain_duplicates=True)
    again.put("a", 2, 10)
    barrier(again)
    assert again.fetch_list("a", 0, 10) == [(10, 1), (10, 2)]


# ---- refusals


def test_a_null_key_is_refused():
    for store in (window(), window(retain_duplicates=True)):
        for verb in (lambda s=store: s.put(None, 1, 0), lambda s=store: s.fetch(None, 0, 1)):
            with pytest.raises(StoreError, match="key must not be None"):
                verb()


def test_a_value_that_the_serde_refuses_names_store_key_and_value():
    with pytest.raises(SerializationError, match=r"store 'w'.*'seven' of key 'a'"):
        window().put("a", "seven", 0)


def test_a_window_cannot_start_before_time_began():
    with pytest.raises(StoreError, match="before 0"):
        window().put("a", 1, -1)


def test_the_view_for_queries_gives_plain_values_and_refuses_writes(state):
    store = window(state, timestamped=True)
    store.put("a", ValueAndTimestamp(7, 3), 10)
    view = ReadOnlyView(store)
    assert (view.fetch("a", 10), view.fetch("a", 11)) == (7, None)
    assert list(view.fetch("a", 0, 10)) == [(10, 7)]
    assert list(view.backward_fetch_all(0, 10)) == list(view.all()) == [(Windowed("a", 10, 20), 7)]
    for verb in ("put", "write", "add", "seal", "apply"):
        with pytest.raises(StoreError, match="read-only"):
            getattr(view, verb)


def test_iterators_are_context_managers():
    store = window()
    store.put("a", 1, 0)
    with store.all() as rows:
        assert next(rows) == (Windowed("a", 0, 10), 1)
    assert list(rows) == []


# ---- caching


def collect(store, *, send_old):
    seen = []
    store.on_flush(lambda *update: seen.append(update), send_old=send_old)
    return seen


def test_a_cached_store_forwards_once_per_window_in_the_order_of_the_last_writes(state):
    context = Standalone()
    store = window(state, context, timestamped=True, cached=True)
    seen = collect(store, send_old=True)
    for key, start, value in ("a", 0, 1), ("b", 0, 2), ("a", 10, 3), ("a", 0, 4):
        store.write(key, start, value, 50 + value, (("h", b"1"),))
    assert seen == []
    store.flush()
    headers = (("h", b"1"),)
    assert seen == [
        (Windowed("b", 0, 10), 2, None, 52, headers),
        (Windowed("a", 10, 20), 3, None, 53, headers),
        (Windowed("a", 0, 10), 4, None, 54, headers),
    ]


def test_the_old_value_of_a_cached_window_is_that_before_the_epoch(state):
    store = window(state, timestamped=True, cached=True)
    seen = collect(store, send_old=True)
    store.write("a", 0, 1, 1)
    barrier(store)
    store.write("a", 0, 2, 2)
    store.write("a", 0, 3, 3)
    barrier(store)
    assert [update[1:3] for update in seen] == [(1, None), (3, 1)]


def test_a_second_flush_in_an_epoch_takes_the_first_one_s_value_as_old():
    store = window(timestamped=True, cached=True)
    seen = collect(store, send_old=True)
    store.write("a", 0, 1, 1)
    store.flush()
    store.write("a", 0, 2, 2)
    store.flush()
    store.flush()
    assert [update[1:3] for update in seen] == [(1, None), (2, 1)]


def test_a_window_made_and_deleted_within_an_epoch_leaves_no_trace(state):
    store = window(state, timestamped=True, cached=True)
    seen = collect(store, send_old=False)
    store.write("a", 0, 1, 1)
    store.write("a", 0, None, 2)
    sealed = barrier(store)
    assert (seen, sealed.changelog, sealed.side) == ([], [], {})


def test_deleting_a_committed_window_is_forwarded(state):
    store = window(state, timestamped=True, cached=True)
    seen = collect(store, send_old=True)
    store.write("a", 0, 1, 1)
    barrier(store)
    store.write("a", 0, None, 2)
    assert [row[1] for row in barrier(store).changelog] == [None]
    assert seen[1:] == [(Windowed("a", 0, 10), None, 1, 2, ())]


def test_an_expired_window_of_a_cached_store_is_forwarded_but_not_kept():
    context = Standalone()
    store = window(context=context, timestamped=True, cached=True, persistent=False)
    seen = collect(store, send_old=True)
    store.write("a", 200, 1, 200)
    store.write("a", 0, 2, 0)
    sealed = barrier(store)
    assert [update[1] for update in seen] == [1, 2]
    assert (context.dropped, len(sealed.changelog), store.fetch("a", 0)) == ({"expired": 1}, 1, None)


def test_the_origin_during_a_flush_is_that_of_the_last_writer():
    context = Standalone()
    store = window(context=context, timestamped=True, cached=True)
    seen = []
    store.on_flush(lambda *_: seen.append(context.origin.offset), send_old=False)
    for offset, key in enumerate("aba"):
        context.origin = NO_ORIGIN._replace(offset=offset)
        store.write(key, 0, 1, 1)
    context.origin = NO_ORIGIN
    store.flush()
    assert (seen, context.origin) == ([1, 2], NO_ORIGIN)


def forward_by_column(store):
    """Let the store forward by column; return the (key, value) pairs of each time."""
    seen = []
    store.on_flush_batch(
        lambda batch: seen.append(list(zip(batch.keys.items, batch.values.items, strict=True))) or True
    )
    return seen


def test_a_delete_is_forwarded_if_the_row_was_forwarded_by_column_in_the_same_epoch(state):
    store = window(state, timestamped=True, cached=True)
    single, together = collect(store, send_old=False), forward_by_column(store)
    store.write("a", 0, 1, 5)
    store.write("b", 10, 2, 6)
    store.flush()
    store.write("a", 0, None, 7)
    assert store.flush()
    sealed = store.seal()
    assert together == [[(Windowed("a", 0, 10), 1), (Windowed("b", 10, 20), 2)]]
    assert single == [(Windowed("a", 0, 10), None, None, 7, ())]
    assert [value for _, value, _, _ in sealed.changelog] == [None, Serdes.int64.serialize(2)]


def test_a_row_of_an_earlier_epoch_is_deleted_even_if_nobody_hears_of_it(state):
    store = window(state, timestamped=True, cached=True)
    collect(store, send_old=False)
    store.write("a", 0, 1, 5)
    barrier(store)
    store.write("a", 0, None, 6)
    store.write("b", 0, 1, 6)
    store.write("b", 0, None, 7)
    store.apply(store.seal())
    assert list(store.all()) == []
    assert [name for name in state.names() if name != "w" and state.map(name).count()] == []


@pytest.mark.parametrize("sealed", [False, True])
def test_many_rows_of_one_window_are_those_that_are_read_one_by_one(state, sealed):
    store = window(state, timestamped=True, cached=True)
    rows = store.rows
    for key in "abc":
        store.write(key, 10, ord(key), 20)
    barrier(store)
    store.write("b", 10, 1, 21)
    store.write("c", 10, None, 22)
    store.write("a", 20, 2, 23)
    if sealed:  # and not applied
        store.seal()
        store.write("d", 10, 3, 24)
    keys = [b"d", b"c", b"b", b"a", b"e"]
    for start in (0, 10, 20):
        assert rows.get_many(keys, start) == [rows.get(key, start) for key in keys]
    assert rows.get_many([b"a", b"c"], 10) == [(Serdes.int64.serialize(97), 20), None]


# ---- the barrier and the changelog


def test_nothing_reaches_the_base_before_apply(state):
    store = window(state)
    store.put("a", 1, 10)
    sealed = store.seal()
    assert [state.map(name).count() for name in state.names()] in ([], [0])
    assert store.fetch("a", 10) == 1
    store.apply(sealed)
    assert store.fetch("a", 10) == 1
    assert "w/0" in state.names()


def test_another_process_may_apply_a_sealed_epoch(state):
    store = window(state, timestamped=True)
    store.write("a", 10, 1, 5)
    sealed = store.seal()
    other = window(state, timestamped=True)
    assert other.read("a", 10) is None
    other.apply(sealed)
    assert other.read("a", 10) == (1, 5)


def test_an_epoch_without_writes_seals_nothing():
    store = window()
    assert not store.seal()


def test_a_store_that_is_not_logged_has_no_changelog():
    store = window(logged=False)
    store.put("a", 1, 10)
    sealed = store.seal()
    assert (sealed.changelog, bool(sealed.side)) == ([], True)


def test_the_changelog_of_a_windowed_count_equals_kafka_s():
    context = Standalone()
    store = window(context=context, retention=70_000, size=10_000, timestamped=True)
    rows = []
    for key, _, timestamp in CHANGELOGS["window_count"]["input"][:-1]:  # the last one is too late for its window
        context.origin = NO_ORIGIN._replace(timestamp=timestamp)
        start = timestamp // 10_000 * 10_000
        count, stamp = store.read(key, start) or (0, timestamp)
        store.write(key, start, count + 1, max(stamp, timestamp))
        rows += barrier(store).changelog
    assert hexed(rows) == CHANGELOGS["window_count"]["rows"]


@pytest.mark.parametrize(
    ("topic", "name"), [("left", "j-outer-this-join-store"), ("right", "j-outer-other-join-store")]
)
def test_the_changelog_of_a_stream_stream_join_equals_kafka_s(topic, name):
    context = Standalone()
    store = window(context=context, retention=3_000, size=2_000, retain_duplicates=True, value=Serdes.string)
    for source, key, value, timestamp in CHANGELOGS[name]["input"]:
        if source == topic:
            context.origin = NO_ORIGIN._replace(timestamp=timestamp)
            store.add(key, value, timestamp)
    assert hexed(store.seal().changelog) == CHANGELOGS[name]["rows"]


@pytest.mark.parametrize(
    "options",
    [{}, {"timestamped": True}, {"timestamped": True, "time_ordered": True}, {"retain_duplicates": True}],
)
def test_a_store_restored_from_its_changelog_is_the_same(make_state, options):
    context = Standalone()
    first, second = make_state(), make_state()
    store = window(first, context, interval=50, **options)
    log = []
    for epoch in ([("a", 10), ("b", 10), ("a", 10)], [("a", 60), ("b", None), ("c", 120)]):
        for key, start in epoch:
            if start is None:
                store.put("b", None, 10)
            else:
                store.put(key, ValueAndTimestamp(start, 7) if "timestamped" in options else start, start)
        log += barrier(store).changelog
    for key, value, timestamp, _ in log:
        for name, row, raw in restore_window_row(store.spec, key, value, timestamp):
            second.map(name).write([(row, raw)])
    again = WindowStore(store.spec, second, context, Serdes.string, Serdes.int64)
    assert list(again.all()) == list(store.all())
    assert list(again.read_all(0, MAX)) == list(store.read_all(0, MAX))
    for each in (store, again):
        each.put("d", ValueAndTimestamp(9, 9) if "timestamped" in options else 9, 130)
    assert again.seal().changelog == store.seal().changelog
    assert again.fetch("a", 0, 20) is not None
    assert list(again.fetch("a", 0, 29)) == list(store.fetch("a", 0, 29))


def test_of_two_steps_that_share_a_store_the_one_that_is_further_counts():
    first, second = window(retain_duplicates=True), window(retain_duplicates=True)
    for start in (10, 20):
        first.put("a", 1, start)
    second.put("a", 2, 30)
    barrier(first)
    barrier(second)
    told = [first.snapshot(), second.snapshot()]
    for order in (told, told[::-1]):
        opened = window(retain_duplicates=True)
        for snapshot in order:
            opened.resume(snapshot)
        assert opened.snapshot()["sequence"] == 2
        assert opened.snapshot()["newest"] == 30
