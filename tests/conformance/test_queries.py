"""Every query against Kafka's interactive queries (IQv2) on the same records: the same rows in the same order, the same refusals.

Penstock has sixteen shards here: the order over all of them must be that of Kafka's one partition.
"""

from __future__ import annotations

import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.queries import Refused

from penstock import (
    KeyQuery,
    MultiVersionedKeyQuery,
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
    WindowKeyQuery,
    WindowRangeQuery,
    WrongQuery,
)
from penstock.testing import TopologyTestDriver

KEYS = ["a", "b", "bb", "c", "d", "é", "z"]
TEXT = {"key": Serdes.string, "value": Serdes.string}
#: long enough for several segments of a window store
TIMES = st.integers(0, 400_000)

records = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.sampled_from("xyz"), TIMES), min_size=1, max_size=25)
bounds = st.none() | st.sampled_from(KEYS)
keys = st.sampled_from([*KEYS, "nobody"])


def tables(builder):
    """Make stores of every kind that both have."""
    builder.table("texts", **TEXT, store="table")
    words = builder.stream("words", **TEXT)
    grouped = words.group_by_key(**TEXT)
    grouped.count(store="counts")
    grouped.windowed_by(TimeWindows(10_000, grace=100_000)).count(store="windows")
    grouped.windowed_by(SessionWindows(20_000, grace=100_000)).count(store="sessions")
    builder.table("versions", **TEXT, store=Stores.versioned("versioned", history=100_000))


def _ask(theirs, ours, store, query):
    try:
        expected = theirs.query(store, query)
    except Refused:
        with pytest.raises(WrongQuery):
            ours.query(store, query)
        return
    found = ours.query(store, query)
    assert (list(found) if found.has_rows else found.value) == expected, (store, query)


def _both(rows):
    builder, mirrored = StreamsBuilder(), oracle.StreamsBuilder()
    tables(builder)
    tables(mirrored)
    ours = TopologyTestDriver(builder)
    theirs = oracle.TopologyTestDriver(mirrored, in_memory=False)
    for topic in ("texts", "words", "versions"):
        handle = ours.input_topic(topic, **TEXT)
        for key, value, time in rows:
            handle.pipe(key, value, timestamp=time)
            theirs.pipe(topic, key.encode(), None if value is None else value.encode(), time)
    return theirs, ours


@pytest.mark.capability("IQ3")
@settings(max_examples=25, deadline=None)
@given(rows=records, lower=bounds, upper=bounds, key=keys, reverse=st.booleans(), since=TIMES, span=TIMES)
def test_every_query_gives_the_rows_of_kafkas_in_their_order(rows, lower, upper, key, reverse, since, span):
    theirs, ours = _both(rows)
    until = since + span
    with theirs, ours:
        for store in ("table", "counts"):
            for query in (
                KeyQuery(key),
                TimestampedKeyQuery(key),
                RangeQuery(lower, upper, reverse=reverse),
                TimestampedRangeQuery(lower, upper, reverse=reverse),
            ):
                _ask(theirs, ours, store, query)
        _ask(theirs, ours, "windows", WindowKeyQuery(key, since, until))
        _ask(theirs, ours, "windows", WindowRangeQuery(since, until))
        _ask(theirs, ours, "sessions", SessionQuery(key))
        _ask(theirs, ours, "versioned", VersionedKeyQuery(key))
        _ask(theirs, ours, "versioned", VersionedKeyQuery(key, as_of=since))
        _ask(theirs, ours, "versioned", MultiVersionedKeyQuery(key, since, until, reverse=reverse))
        _ask(theirs, ours, "versioned", MultiVersionedKeyQuery(key, reverse=reverse))


def test_what_kafkas_stores_do_not_answer_is_refused():
    theirs, ours = _both([("a", "x", 5)])
    with theirs, ours:
        for store in ("table", "windows", "sessions", "versioned"):
            for query in (
                KeyQuery("a"),
                RangeQuery(),
                TimestampedKeyQuery("a"),
                WindowKeyQuery("a", 0, 10),
                VersionedKeyQuery("a"),
            ):
                _ask(theirs, ours, store, query)
