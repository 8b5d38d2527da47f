"""Raw rows come out in the order of a lane; a slow, plain computation says what that is."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.lane import mixed
from penstock.lane.batches import envelope_batches, raw_batches
from penstock.lane.mixed import Mixed
from penstock.lane.ordering import numbered, order_by, raw_headers, reach
from penstock.protocol.envelope import pack_headers
from penstock.protocol.raw_rows import PARTITIONS, RAW_SCHEMA

TOPICS = ("a", "b", "c")
SOURCES = {"a": "one", "b": "two", "c": "two"}
SHARDS = 3
#: (topic, partition, shard, timestamp): offsets follow from the order
records = st.lists(
    st.tuples(st.sampled_from(TOPICS), st.integers(0, 1), st.integers(0, SHARDS - 1), st.integers(0, 20)), max_size=30
)
before = st.dictionaries(st.tuples(st.sampled_from(TOPICS), st.integers(0, 1)), st.integers(0, 15), max_size=3)


def rows_of(given_records):
    offsets: dict = {}
    rows = []
    for topic, partition, shard, timestamp in given_records:
        offset = offsets[topic, partition] = offsets.get((topic, partition), -1) + 1
        rows.append((shard, topic, partition, offset, b"k", f"{topic}{partition}@{offset}".encode(), timestamp))
    return rows


def table_of(rows):
    raw = [(s, TOPICS.index(t) * PARTITIONS + p, o, k, v, time, None) for s, t, p, o, k, v, time in rows]
    columns = zip(*raw, strict=True) if raw else [[] for _ in RAW_SCHEMA]
    return pa.Table.from_arrays(
        [pa.array(c, field.type) for c, field in zip(columns, RAW_SCHEMA, strict=True)], schema=RAW_SCHEMA
    )


def slow_reached(rows, before):
    greatest: dict = {}
    found = {}
    for _, topic, partition, offset, _, _, timestamp in rows:
        group = (topic, partition)
        greatest[group] = max(greatest.get(group, before.get(group, -1)), timestamp)
        found[topic, partition, offset] = greatest[group]
    return found


@given(records, before, st.randoms(use_true_random=False))
def test_a_row_has_reached_the_greatest_time_before_it_in_its_partition(given_records, before, random):
    rows = rows_of(given_records)
    wanted = slow_reached(rows, before)
    random.shuffle(rows)  # an exchange keeps no order
    found, after = reach(numbered(table_of(rows)), TOPICS, before)
    places = [(row[1], row[2], row[3]) for row in rows]
    assert dict(zip(places, found.reached.tolist(), strict=True)) == wanted
    for place, time in after.items():
        assert time == max(t for (topic, partition, _), t in wanted.items() if (topic, partition) == place)


@given(records, before, st.randoms(use_true_random=False))
def test_batches_hold_every_row_once_in_the_order_of_a_lane(given_records, before, random):
    rows = rows_of(given_records)
    wanted_reached = slow_reached(rows, before)
    random.shuffle(rows)
    found, _ = reach(numbered(table_of(rows)), TOPICS, before)
    batches = list(raw_batches(found, TOPICS, SOURCES))
    seen = [(b.shard, b.source, o, v) for b in batches for o, v in zip(b.origins, b.values, strict=True)]
    order = [(shard, o.reached, o.topic, o.partition, o.offset) for shard, _, o, _ in seen]
    assert order == sorted(
        (shard, wanted_reached[topic, partition, offset], topic, partition, offset)
        for shard, topic, partition, offset, *_ in rows
    )
    assert all(SOURCES[o.topic] == source for _, source, o, _ in seen)
    assert all(value == f"{o.topic}{o.partition}@{o.offset}".encode() for _, _, o, value in seen)
    runs = [(b.shard, b.source) for b in batches]
    assert all(one != other for one, other in pairwise(runs))


@given(records, st.randoms(use_true_random=False), st.integers(1, 7), st.sampled_from([1, 2, 3]))
def test_mixed_rows_have_their_places_in_the_order_of_a_lane(given_records, random, most, refusing):
    rows = rows_of(given_records)
    random.shuffle(rows)
    found, _ = reach(numbered(table_of(rows)), TOPICS, {})
    plain = [row for batch in raw_batches(found, TOPICS, SOURCES) for row in seen_in(batch)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixed, "FEW_MIXED", 1)
        patch.setattr(mixed, "MOST", most)
        patch.setattr(mixed, "MOST_MIXED", most)
        works = list(raw_batches(found, TOPICS, SOURCES, lambda shard, sources: shard % refusing == 0))
    assert [row for work in works for row in seen_in(work)] == plain
    assert [row for work in works for row in seen_in(work, apart=True)] == plain
    for work in works:
        if isinstance(work, Mixed):
            assert len(work.batches) == len({batch.source for batch in work.batches})
            assert sum(map(len, work.batches)) <= most


def seen_in(work, apart=False):
    """Return the rows of some work in order: shard, source, origin, value; ``apart``: of mixed ones as they are run one by one."""
    if isinstance(work, Mixed):
        if apart:
            return [row for batch in work.split() for row in seen_in(batch)]
        parts = zip(work.batches, work.places, strict=True)
        rows = [(place, row) for batch, places in parts for place, row in zip(places, seen_in(batch), strict=True)]
        assert sorted(place for place, _ in rows) == list(range(len(rows)))
        return [row for _, row in sorted(rows)]
    return [(work.shard, work.source, o, v) for o, v in zip(work.origins, work.values, strict=True)]


def test_headers_keep_order_repeats_and_nulls():
    headers = (("a", b"1"), ("a", None), ("b", b""))
    assert raw_headers(pa.array([pack_headers(headers), None], pa.binary())) == [headers, ()]
    assert raw_headers(pa.nulls(2, pa.binary())) == [(), ()]


def test_no_rows_make_no_batches():
    found, after = reach(numbered(table_of([])), TOPICS, {})
    assert (list(raw_batches(found, TOPICS, SOURCES)), after) == ([], {})
    assert list(envelope_batches(pa.table({"x": []}), TOPICS)) == []


numbers_of_columns = st.integers(-5, 5) | st.integers(-(1 << 40), 1 << 40) | st.integers(0, 1 << 17)


@given(st.lists(st.tuples(numbers_of_columns, numbers_of_columns, st.integers(0, 2)), max_size=30))
@example([(1 << 16, 1, 0), (0, 1, 0)])
@example([((1 << 16) - 1, 1, 0), (0, 1, 0)])
def test_rows_are_ordered_as_numpy_orders_them(rows):
    columns = [np.array([row[at] for row in rows], dtype=np.int64) for at in range(3)]
    assert order_by(columns).tolist() == np.lexsort(columns).tolist()
