"""Every query against Kafka's interactive queries (IQv2) on the same records: same rows, order and refusals.

Penstock has sixteen shards here: the order over all of them must be that of Kafka's one partition.
"""

from __future__ import annotations

from contextlib import contextmanager

import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.queries import Refused

from penstock import (
    KeyQuery,
    MultiVersionedKeyQuery,
    PrefixQuery,
    RangeQuery,
    Serdes,
    SessionQuery,
    SessionWindows,
    Stores,
    StreamsBuilder,
    TimestampedKeyQuery,
    TimestampedRangeQuery,
    TimeWindows,
    VersionedKeyQuery,
    VersionedRecord,
    WindowKeyQuery,
    WindowRangeQuery,
    WrongQuery,
)
from penstock.query.answers import ANSWERS
from penstock.testing import TopologyTestDriver

KEYS = ["a", "b", "bb", "c", "d", "é", "z"]
TEXT = {"key": Serdes.string, "value": Serdes.string}
#: long enough for several segments of a window store
TIMES = st.integers(0, 400_000)

records = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.sampled_from("xyz"), TIMES), min_size=1, max_size=20)
bounds = st.none() | st.sampled_from(KEYS)
keys = st.sampled_from([*KEYS, "nobody"])


def table(builder):
    builder.table("in", **TEXT, store="store")


def counts(builder):
    builder.stream("in", **TEXT).group_by_key(**TEXT).count(store="store")


def windows(builder):
    grouped = builder.stream("in", **TEXT).group_by_key(**TEXT)
    grouped.windowed_by(TimeWindows(10_000, grace=100_000)).count(store="store")


def sessions(builder):
    grouped = builder.stream("in", **TEXT).group_by_key(**TEXT)
    grouped.windowed_by(SessionWindows(20_000, grace=100_000)).count(store="store")


def versions(builder):
    builder.table("in", **TEXT, store=Stores.versioned("store", history=100_000))


def everywhere(builder):
    builder.global_table("in", **TEXT, store="store")


@contextmanager
def both(make, rows, *, raw=False):
    """Run the records through Kafka's driver and ours; give what asks both, or the two."""
    builder, mirrored = StreamsBuilder(), oracle.StreamsBuilder()
    make(builder)
    make(mirrored)
    with TopologyTestDriver(builder) as ours, oracle.TopologyTestDriver(mirrored) as theirs:
        handle = ours.input_topic("in", **TEXT)
        for key, value, time in rows:
            handle.pipe(key, value, timestamp=time)
            theirs.pipe("in", key.encode(), None if value is None else value.encode(), time)
        yield (theirs, ours) if raw else lambda query: ask(theirs, ours, query)


def ask(theirs, ours, query):
    try:
        expected = theirs.query("store", query)
    except Refused:
        with pytest.raises(WrongQuery):
            ours.query("store", query)
        return
    found = ours.query("store", query)
    assert (list(found) if found.has_rows else found.value) == expected, query


@pytest.mark.capability("IQ3")
@pytest.mark.parametrize("make", [table, counts, everywhere])
@settings(max_examples=25, deadline=None)
@given(rows=records, lower=bounds, upper=bounds, key=keys, reverse=st.booleans())
def test_keys_and_ranges(make, rows, lower, upper, key, reverse):
    with both(make, rows) as same:
        same(KeyQuery(key))
        same(TimestampedKeyQuery(key))
        same(RangeQuery(lower, upper, reverse=reverse))
        same(TimestampedRangeQuery(lower, upper, reverse=reverse))


@pytest.mark.capability("IQ3")
@pytest.mark.parametrize("make", [table, counts])
@settings(max_examples=25, deadline=None)
@given(rows=records, prefix=st.sampled_from(["a", "b", "bb", "bbb", "\u00e9", "nobody"]))
def test_prefixes(make, rows, prefix):
    """Kafka has no query for them: its stores have the verb."""
    with both(make, rows, raw=True) as (theirs, ours):
        assert list(ours.query("store", PrefixQuery(prefix))) == list(theirs.store("store").prefix_scan(prefix))


@pytest.mark.capability("IQ3")
@settings(max_examples=25, deadline=None)
@given(rows=records, key=keys, since=TIMES, span=TIMES)
def test_windows(rows, key, since, span):
    with both(windows, rows) as same:
        same(WindowKeyQuery(key, since, since + span))
        same(WindowKeyQuery(key, 0, 500_000))
        same(WindowRangeQuery(since, since + span))
        same(WindowRangeQuery(0, 500_000))


@pytest.mark.capability("IQ3")
@settings(max_examples=25, deadline=None)
@given(rows=records, key=keys)
def test_sessions(rows, key):
    with both(sessions, rows) as same:
        same(SessionQuery(key))


@pytest.mark.capability("IQ3")
@settings(max_examples=25, deadline=None)
@given(rows=records, key=keys, since=TIMES, span=TIMES, reverse=st.booleans())
def test_versions(rows, key, since, span, reverse):
    with both(versions, rows) as same:
        same(VersionedKeyQuery(key))
        same(VersionedKeyQuery(key, as_of=since))
        same(MultiVersionedKeyQuery(key, reverse=reverse))
        same(MultiVersionedKeyQuery(key, since, reverse=reverse))


def test_versions_that_kafka_misses():
    """Kafka looks for versions in the segments of the span only, and keeps each in that of its end."""
    with both(versions, [("a", "x", 0), ("a", "y", 20_000)], raw=True) as (theirs, ours):
        query = MultiVersionedKeyQuery("a", 0, 19_999)
        assert theirs.query("store", query) == []
        assert list(ours.query("store", query)) == [VersionedRecord("x", 0, 20_000)]
        query = MultiVersionedKeyQuery("a", 0, 20_000)
        assert theirs.query("store", query) == list(ours.query("store", query))


SEGMENT = 20_000


@pytest.mark.capability("IQ3")
@settings(max_examples=25, deadline=None)
@given(rows=records, key=keys, since=TIMES, span=TIMES, reverse=st.booleans())
def test_versions_of_a_span(rows, key, since, span, reverse):
    until = since + span
    with both(versions, rows, raw=True) as (theirs, ours):
        query = MultiVersionedKeyQuery(key, since, until, reverse=reverse)
        found = list(ours.query("store", query))
        in_span = [v for v in found if v.valid_to is None or v.valid_to // SEGMENT <= until // SEGMENT]
        assert in_span == theirs.query("store", query)


@pytest.mark.capability("IQ3")
@pytest.mark.parametrize("make", [table, windows, sessions, versions])
def test_what_kafkas_stores_do_not_answer_is_refused(make):
    with both(make, [("a", "x", 5)]) as same:
        same(KeyQuery("a"))
        same(RangeQuery())
        same(TimestampedKeyQuery("a"))
        same(WindowKeyQuery("a", 0, 10))
        same(VersionedKeyQuery("a"))


#: asked of Kafka's stores in this file; a query that is added must be, too
ASKED = {
    KeyQuery, RangeQuery, PrefixQuery, TimestampedKeyQuery, TimestampedRangeQuery, WindowKeyQuery, WindowRangeQuery,
    SessionQuery, VersionedKeyQuery, MultiVersionedKeyQuery,
}  # fmt: skip


def test_every_query_is_compared():
    assert set(ANSWERS) == ASKED
