"""Subscriptions, responses, combined keys and hashes by column: the bytes that single ones have."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.batch.fallback import Fallback
from penstock.batch.foreign_key import (
    Responses,
    Subscriptions,
    read_responses,
    read_subscriptions,
    write_combined,
    write_responses,
    write_subscriptions,
)
from penstock.batch.murmur3 import murmur3_128_of
from penstock.serde import Serdes
from penstock.serde.foreign_key import (
    CombinedKey,
    CombinedKeySerde,
    Instruction,
    SubscriptionResponseWrapper,
    SubscriptionResponseWrapperSerde,
    SubscriptionWrapper,
    SubscriptionWrapperSerde,
)
from penstock.serde.murmur3 import murmur3_128

hashes = st.none() | st.binary(min_size=16, max_size=16)
SUBSCRIPTION, RESPONSE = SubscriptionWrapperSerde(Serdes.bytes), SubscriptionResponseWrapperSerde(Serdes.bytes)


def column(items):
    return pa.array([b"?", *items], pa.binary())[1:]  # a part of a longer one


@given(st.lists(st.tuples(hashes, st.integers(0, 3), st.binary(max_size=6)), min_size=1))
def test_subscriptions_are_those_of_the_serde(rows):
    marks, codes, keys = zip(*rows, strict=True)
    written = write_subscriptions(Subscriptions(column(marks), np.array(codes), column(keys)))
    single = [SubscriptionWrapper(mark, Instruction(code), key, 1, 0) for mark, code, key in rows]
    assert written.to_pylist() == [SUBSCRIPTION.serialize(one) for one in single]
    read = read_subscriptions(column(written.to_pylist()))
    assert read.hashes.to_pylist() == list(marks)
    assert read.instructions.tolist() == list(codes)
    assert read.primary_keys.to_pylist() == list(keys)


@given(st.lists(st.tuples(hashes, st.none() | st.binary(max_size=20)), min_size=1))
def test_responses_are_those_of_the_serde(rows):
    marks, values = zip(*rows, strict=True)
    written = write_responses(Responses(column(marks), column(values)))
    assert written.to_pylist() == [RESPONSE.serialize(SubscriptionResponseWrapper(*row)) for row in rows]
    read = read_responses(column(written.to_pylist()))
    single = [RESPONSE.deserialize(data) for data in written.to_pylist()]
    assert read.hashes.to_pylist() == [one.original_value_hash for one in single]
    assert read.values.to_pylist() == [one.foreign_value for one in single]


@given(st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=5)), min_size=1))
def test_combined_keys_are_those_of_the_serde(rows):
    foreign, primary = zip(*rows, strict=True)
    serde = CombinedKeySerde(Serdes.bytes, Serdes.bytes)
    written = write_combined(column(foreign), column(primary)).to_pylist()
    assert written == [serde.serialize(CombinedKey(*row)) for row in rows]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01",
        b"\x01\x02pk",
        b"\x00\x02pk",
        b"\x82\x02pk\0\0\0\0",
        b"\x81\x02pk\0\0\0\x01",
        b"\x81\x04pk\0\0\0\0",
        None,
    ],
)
def test_subscriptions_of_another_shape_are_not_for_columns(data):
    good = SUBSCRIPTION.serialize(SubscriptionWrapper(None, Instruction(2), b"pk", 1, 0))
    with pytest.raises(Fallback):
        read_subscriptions(pa.array([good, data], pa.binary()))


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x00hash", b"\x81v", None])
def test_responses_of_another_shape_are_not_for_columns(data):
    with pytest.raises(Fallback):
        read_responses(pa.array([b"\x80v", data], pa.binary()))


@given(st.lists(st.none() | st.binary(max_size=70) | st.builds(bytes, st.integers(1000, 1100))))
def test_hashes_of_many_rows_are_those_of_each(rows):
    assert murmur3_128_of(column(rows)).to_pylist() == [None if row is None else murmur3_128(row) for row in rows]
