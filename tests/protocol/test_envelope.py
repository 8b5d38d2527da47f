"""What goes into an envelope comes out of it, in order."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.envelope import (
    BATCH,
    RECORD,
    SCHEMA,
    SINK,
    EnvelopeRow,
    batches_of,
    pack_headers,
    pack_place,
    rows_of,
    unpack_headers,
    unpack_place,
)
from penstock.record import NO_ORIGIN, Origin

data = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(st.text(max_size=5), data), max_size=3).map(tuple)
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
subs = st.lists(st.integers(0, 1000), max_size=4).map(tuple)
rows = st.builds(
    EnvelopeRow,
    st.integers(0, 3),
    st.integers(0, 100),
    st.text(max_size=5),
    st.integers(-1, 100),
    data,
    data,
    longs,
    headers.map(pack_headers),
    data,
)
origins = st.builds(
    Origin, st.just("t"), st.integers(0, 2**31 - 1), longs, longs, data, data, headers, ints, longs, subs
)


@given(st.lists(rows, max_size=30))
def test_rows_come_out_as_they_went_in(given_rows):
    assert [row for batch in batches_of(given_rows) for row in rows_of(batch)] == given_rows


@given(headers)
def test_headers_keep_order_and_repeats(given_headers):
    assert unpack_headers(pack_headers(given_headers)) == given_headers


@given(origins)
def test_an_origin_keeps_coordinates_bytes_and_times(origin):
    assert unpack_place(pack_place(origin, origin.sub, 1, raw=True), ["a", "t"]) == origin


@given(subs)
def test_what_no_record_caused_has_no_topic_on_the_other_side_either(sub):
    rung = NO_ORIGIN._replace(timestamp=7, sub=sub)
    assert unpack_place(pack_place(rung, sub, 0, raw=True), []) == rung


@given(origins)
def test_without_the_raw_bytes_an_origin_keeps_the_rest(origin):
    bare = origin._replace(key=None, value=None, headers=())
    assert unpack_place(pack_place(origin, origin.sub, 0, raw=False), ["t"]) == bare


def order(origin):
    return (origin.reached, origin.partition, origin.offset, origin.sub)


@given(origins, origins)
def test_places_sort_as_bytes_the_way_a_lane_orders_records(one, other):
    places = [pack_place(origin, origin.sub, 0, raw=False) for origin in (one, other)]
    if order(one) != order(other):
        assert (places[0] < places[1]) == (order(one) < order(other))


def test_many_rows_become_several_batches_of_the_schema():
    row = EnvelopeRow(SINK, 0, "t", -1, b"k", None, 5)
    batches = list(batches_of([row] * (2 * BATCH + 1)))
    assert [batch.num_rows for batch in batches] == [BATCH, BATCH, 1]
    assert all(batch.schema == SCHEMA for batch in batches)
    assert list(batches_of([])) == []


def test_another_shape_is_refused():
    with pytest.raises(TypeError, match="not an envelope"):
        rows_of(pa.RecordBatch.from_pydict({"kind": [RECORD]}))
