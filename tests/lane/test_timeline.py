"""How far time had come at each place, against a slow computation that reads the records one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.lane.timeline import MOVES_SCHEMA, Cursor, Moves, Timelines, find_moves
from penstock.protocol.raw_rows import PARTITIONS
from penstock.record import NO_ORIGIN, Origin
from penstock.state.event_time import EventTime

TOPICS = ("a", "b")
SOURCES = {"a": "one", "b": "two"}
FEEDS = {"one": ("a",), "two": ("b",), "one+two": ("a", "b")}


def timelines_of(records, base=None, known=()):
    """``records``: (topic, partition, offset, reached, watermark), each partition in order of offsets."""
    rows = sorted(records, key=lambda row: (row[0], row[1], row[2]))
    numbers = [TOPICS.index(topic) * PARTITIONS + partition for topic, partition, *_ in rows]
    columns = [numbers, *([row[at] for row in rows] for at in (2, 3, 4))]
    moves = find_moves(*(np.array(column, dtype=np.int64) for column in columns))
    again = Moves.of([moves.batch()])
    assert moves.batch().schema == MOVES_SCHEMA
    return Timelines(again, TOPICS, SOURCES, base or {}, known)


def origin(topic, partition, offset, reached):
    return Origin(topic, partition, offset, reached, None, None, (), partition, reached)


def times_at(timelines, feed, rows):
    timeline = timelines.timeline(feed)
    origins = [origin(*row[:4]) for row in rows]
    places = np.array([timelines.place(one) for one in origins], dtype=np.int64)
    offsets = np.array([one.offset for one in origins], dtype=np.int64)
    return timeline.before(places, offsets).tolist(), timeline.including(places, offsets).tolist()


def test_of_several_partitions_the_least_counts_each_from_its_first_record_on():
    rows = [("a", 0, 0, 10, 10), ("a", 1, 0, 12, 12), ("a", 0, 1, 14, 14), ("a", 1, 1, 30, 30)]
    timelines = timelines_of(rows)
    assert times_at(timelines, "one", rows) == ([-1, 10, 10, 12], [10, 10, 12, 14])
    assert (timelines.timeline("one").base, timelines.timeline("one").end) == (-1, 14)


def test_a_partition_that_shows_up_sets_time_back():
    rows = [("a", 0, 7, 40, 40), ("a", 1, 0, 41, 5)]
    timelines = timelines_of(rows, {"one": [(0, 20)]}, [("a", 0)])
    assert times_at(timelines, "one", rows) == ([20, 40], [40, 5])


def test_of_an_index_the_greatest_of_the_topics_counts():
    rows = [("a", 0, 0, 10, 10), ("b", 0, 0, 15, 15), ("a", 0, 1, 12, 12)]
    timelines = timelines_of(rows)
    assert timelines.timeline("one+two").end == 15
    assert timelines.timeline("one").end == 12


def test_records_that_reach_the_same_time_are_told_apart_by_partition_and_offset():
    """A function may tell a new watermark where the partition time stays: ties of places."""
    rows = [("a", 0, 0, 10, 1), ("a", 0, 1, 10, 4), ("a", 0, 2, 10, 4), ("a", 0, 3, 10, 9), ("b", 0, 0, 10, 50)]
    timelines = timelines_of(rows)
    assert times_at(timelines, "one", rows) == ([-1, 1, 4, 4, 9], [1, 4, 4, 9, 9])
    assert times_at(timelines, "one+two", rows) == ([-1, 1, 4, 4, 9], [1, 4, 4, 9, 50])
    assert timelines.timeline("one").first(2, 0) == 1
    assert timelines.timeline("one").first(10, 0) is None


def test_what_no_record_caused_comes_before_the_records_of_its_time():
    timelines = timelines_of([("a", 0, 0, 10, 10)])
    nobody = NO_ORIGIN._replace(reached=10)
    assert timelines.place(nobody) < timelines.place(origin("a", 0, 0, 10))
    assert timelines.place(nobody) > timelines.place(NO_ORIGIN._replace(reached=9))


def test_a_place_tells_the_record_that_moved_time():
    timelines = timelines_of([("a", 0, 0, 10, 10), ("b", 3, 5, 10, 10)])
    assert timelines.origin(timelines.place(origin("b", 3, 5, 10)), 5) == origin("b", 3, 5, 10)


#: (topic, partition, how much further its time is, how far behind that its watermark is)
steps = st.lists(
    st.tuples(st.sampled_from(TOPICS), st.integers(0, 2), st.integers(0, 5), st.integers(0, 4)), max_size=25
)
bases = st.dictionaries(st.integers(0, 2), st.integers(0, 8), max_size=2)


def records_of(given_steps):
    rows, offsets, reached, marks = [], {}, {}, {}
    for topic, partition, further, behind in given_steps:
        place = (topic, partition)
        offsets[place] = offsets.get(place, -1) + 1
        reached[place] = reached.get(place, 0) + further
        marks[place] = max(marks.get(place, 0), reached[place] - behind)
        rows.append((topic, partition, offsets[place], reached[place], marks[place]))
    return sorted(rows, key=lambda row: (row[3], row[0], row[1], row[2]))  # the order of an epoch


def slow_times(rows, topics, base):
    times, before, including = dict(base), [], []
    for topic, partition, _, _, mark in rows:
        before.append(min(times.values(), default=-1))
        if topic in topics:
            times[partition] = max(times.get(partition, -1), mark)
        including.append(min(times.values(), default=-1))
    return before, including


@given(steps, bases, st.sampled_from(sorted(FEEDS)))
def test_the_time_at_each_record_is_what_reading_one_by_one_gives(given_steps, base, feed):
    rows = records_of(given_steps)
    timelines = timelines_of(rows, {feed: sorted(base.items())})
    assert times_at(timelines, feed, rows) == slow_times(rows, FEEDS[feed], base)


#: a function may tell a watermark that is further than the record
strange_steps = st.lists(
    st.tuples(st.sampled_from(TOPICS), st.integers(0, 2), st.integers(0, 5), st.integers(-3, 4)), max_size=25
)


@given(steps | strange_steps, bases, st.sampled_from(sorted(FEEDS)))
def test_time_is_at_most_what_the_partition_of_a_record_had_reached_unless_watermarks_are_further(
    given_steps, base, feed
):
    rows = records_of(given_steps)
    timelines = timelines_of(rows, {feed: sorted(base.items())})
    timeline, times = timelines.timeline(feed), times_at(timelines, feed, rows)
    if timeline.follows_places:
        for before, including, (_, _, _, reached, _) in zip(*times, rows, strict=True):
            assert max(before, including) <= max(reached, timeline.base)
    else:
        assert any(behind < 0 for *_, behind in given_steps) or base


@given(steps, bases, st.sampled_from(sorted(FEEDS)), st.sets(st.integers(0, 24)))
def test_a_cursor_that_has_some_of_the_records_knows_the_time_at_each(given_steps, base, feed, mine):
    rows = records_of(given_steps)
    timelines = timelines_of(rows, {feed: sorted(base.items())})
    before, including = slow_times(rows, FEEDS[feed], base)
    cursor, clock = Cursor(timelines.timeline(feed)), EventTime(hold=3)
    cursor.attach(clock)
    for at in (at for at in range(len(rows)) if at in mine):
        place, offset = timelines.place(origin(*rows[at][:4])), rows[at][2]
        cursor.come_to(place, offset)
        assert cursor.now == before[at]
        cursor.include(place, offset)
        assert cursor.now == including[at]
        assert clock.now == (cursor.now if cursor.now < 0 else max(cursor.now - 3, 0))
    cursor.come_to(1 << 62, 0)
    assert cursor.now == timelines.timeline(feed).end


@given(steps, bases, st.integers(0, 30))
def test_the_next_move_that_brings_a_time_is_the_first_record_at_which_it_has_come(given_steps, base, time):
    rows = records_of(given_steps)
    timelines = timelines_of(rows, {"one": sorted(base.items())})
    before, including = slow_times(rows, ("a",), base)
    wanted = [row for row, was, now in zip(rows, before, including, strict=True) if now >= time and now != was]
    found = Cursor(timelines.timeline("one")).next_with(time)
    assert found == ((timelines.place(origin(*wanted[0][:4])), wanted[0][2]) if wanted else None)
