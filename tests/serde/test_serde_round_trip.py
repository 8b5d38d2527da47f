"""What is written is read back; what cannot be written is refused, never shortened."""

from __future__ import annotations

import dataclasses
import math
import re
import struct
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.batch.column import Column
from penstock.errors import DeserializationError, PenstockError, SerializationError
from penstock.record import Change, Windowed
from penstock.serde import ChangedSerde, Serde, Serdes
from penstock.serde.foreign_key import (
    CombinedKey,
    CombinedKeySerde,
    Instruction,
    SubscriptionResponseWrapper,
    SubscriptionResponseWrapperSerde,
    SubscriptionWrapper,
    SubscriptionWrapperSerde,
)

int32s, int64s = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
texts = st.text()
hashes = st.none() | st.binary(min_size=16, max_size=16)
json_values = st.recursive(
    st.none() | st.booleans() | int64s | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=10,
)
changes = st.builds(Change, texts, st.none() | texts) | st.builds(Change, st.none(), texts)
v1 = st.builds(SubscriptionWrapper, hashes, st.sampled_from(Instruction), texts, st.just(1), int32s)
v0 = st.builds(SubscriptionWrapper, hashes, st.sampled_from(Instruction), texts, st.just(0), st.none())
responses = st.builds(SubscriptionResponseWrapper, hashes, st.none() | texts.filter(bool), st.just(0), st.none())

PAIRS: dict[str, tuple[Serde[Any], st.SearchStrategy[Any]]] = {
    "string": (Serdes.string, texts),
    "bytes": (Serdes.bytes, st.binary()),
    "int32": (Serdes.int32, int32s),
    "int64": (Serdes.int64, int64s),
    "float32": (Serdes.float32, st.floats(width=32, allow_nan=False)),
    "float64": (Serdes.float64, st.floats(allow_nan=False)),
    "boolean": (Serdes.boolean, st.booleans()),
    "uuid": (Serdes.uuid, st.uuids()),
    "json": (Serdes.json, json_values),
    "pickle": (Serdes.pickle, st.tuples(texts, st.sets(int64s))),
    "json_of": (Serdes.json_of(dict[str, list[int]]), st.dictionaries(texts, st.lists(int64s))),
    "changed": (ChangedSerde(Serdes.string), changes),
    "subscription": (SubscriptionWrapperSerde(Serdes.string), v0 | v1),
    "response": (SubscriptionResponseWrapperSerde(Serdes.string), responses),
    "combined_key": (CombinedKeySerde(Serdes.int32, Serdes.string), st.builds(CombinedKey, int32s, texts)),
}


@pytest.mark.parametrize("name", PAIRS)
@given(data=st.data())
def test_a_value_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    serde, values = PAIRS[name]
    value = data.draw(values)
    written = serde.serialize(value)
    assert type(written) is bytes
    assert serde.deserialize(written) == value


@given(texts, st.integers(0, 2**62), st.integers(1, 2**61))
def test_a_window_comes_back_with_its_end(key: str, start: int, size: int) -> None:
    window = Windowed(key, start, start + size)
    for serde in (Serdes.windowed(Serdes.string, size), Serdes.session_windowed(Serdes.string)):
        assert serde.deserialize(serde.serialize(window)) == window


def test_not_a_number_stays_not_a_number() -> None:
    for serde in (Serdes.float32, Serdes.float64):
        assert math.isnan(serde.deserialize(serde.serialize(math.nan)))


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        (Serdes.int32, 2**31),
        (Serdes.int32, -(2**31) - 1),
        (Serdes.int64, 2**63),
        (Serdes.int64, 1.5),
        (Serdes.int64, "1"),
        (Serdes.float32, 1e39),
        (Serdes.float64, "1"),
        (Serdes.string, b"bytes"),
        (Serdes.string, 1),
        (Serdes.string, "\ud800"),
        (Serdes.bytes, "text"),
        (Serdes.bytes, 5),
        (Serdes.boolean, 2),
        (Serdes.boolean, "true"),
        (Serdes.uuid, "123e4567-e89b-12d3-a456-426614174000"),
        (Serdes.json, object()),
        (Serdes.json_of(int), object()),
        (Serdes.windowed(Serdes.json, 1), Windowed(None, 0, 1)),
        (Serdes.windowed(Serdes.json, 1), Windowed("k", 2**63, 2**63 + 1)),
        (Serdes.session_windowed(Serdes.json), Windowed(None, 0, 1)),
        (ChangedSerde(Serdes.string), Change(None, None)),
        (SubscriptionWrapperSerde(Serdes.string), SubscriptionWrapper(b"short", Instruction(0), "k", 1, 0)),
        (SubscriptionWrapperSerde(Serdes.string), SubscriptionWrapper(None, Instruction(0), "k", 2, 0)),
        (SubscriptionWrapperSerde(Serdes.string), SubscriptionWrapper(None, Instruction(0), "k", 1, None)),
        (SubscriptionWrapperSerde(Serdes.json), SubscriptionWrapper(None, Instruction(0), None, 1, 0)),
        (SubscriptionResponseWrapperSerde(Serdes.string), SubscriptionResponseWrapper(None, "v", 1)),
        (CombinedKeySerde(Serdes.json, Serdes.json), CombinedKey(None, "pk")),
        (CombinedKeySerde(Serdes.json, Serdes.json), CombinedKey("fk", None)),
    ],
)
def test_a_value_that_does_not_fit_is_refused(serde: Serde[Any], value: Any) -> None:
    natural = (TypeError, ValueError, AttributeError, OverflowError, struct.error, SerializationError)
    with pytest.raises(natural):
        serde.serialize(value)


@pytest.mark.parametrize(
    ("serde", "data"),
    [
        (Serdes.string, b"\xff"),
        (Serdes.json, b"{"),
        (Serdes.json_of(int), b'"one"'),
        (Serdes.uuid, b"123e4567e89b12d3a456426614174000"),
        (Serdes.uuid, b"123e4567-e89b-12d3-a456-42661417400_"),
        (Serdes.uuid, b"123e4567-e89b-12d3-a456-426614174000\n"),
        (Serdes.void, b""),
    ],
)
def test_bytes_that_are_not_of_the_format_are_refused(serde: Serde[Any], data: bytes) -> None:
    with pytest.raises((ValueError, DeserializationError)):
        serde.deserialize(data)


def test_a_uuid_is_read_in_either_case() -> None:
    assert Serdes.uuid.deserialize(b"123E4567-E89B-12D3-A456-426614174000") == UUID(
        "123e4567-e89b-12d3-a456-426614174000"
    )


def test_void_writes_kafkas_null() -> None:
    assert Serdes.void.serialize(None) is None


def test_the_size_of_a_window_may_be_a_timedelta_and_may_not_be_negative() -> None:
    assert Serdes.windowed(Serdes.string, timedelta(minutes=1)) == Serdes.windowed(Serdes.string, 60_000)
    with pytest.raises(PenstockError, match="size of a window"):
        Serdes.windowed(Serdes.string, -1)


@pytest.mark.parametrize("size", [None, 0])
def test_a_window_without_a_size_ends_at_the_end_of_time(size: int | None) -> None:
    serde = Serdes.windowed(Serdes.string, size)
    assert serde.deserialize(serde.serialize(Windowed("k", 5, 6))) == Windowed("k", 5, 2**63 - 1)


@given(int32s, texts, int32s)
def test_a_prefix_begins_the_keys_of_its_foreign_key_only(foreign: int, primary: str, other: int) -> None:
    serde = CombinedKeySerde(Serdes.int32, Serdes.string)
    key = serde.serialize(CombinedKey(foreign, primary))
    assert key.startswith(serde.prefix(other)) == (foreign == other)


@dataclasses.dataclass
class Price:
    amount: float | None
    parts: list[float] = dataclasses.field(default_factory=list)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_json_refuses_numbers_that_it_does_not_have(number):
    """The encoders would write null, and a reader would find nothing where something was."""
    for serde, value, place in [
        (Serdes.json, number, "value"),
        (Serdes.json, {"a": [1, {"b": number}]}, "value['a'][1]['b']"),
        (Serdes.json, Price(number), "value.amount"),
        (Serdes.json_of(Price), Price(None, [1.0, number]), "value.parts[1]"),
        (Serdes.json_of(dict[str, float]), {"a": number}, "value['a']"),
    ]:
        with pytest.raises(SerializationError, match=rf"JSON has no {number}, which {re.escape(place)} is"):
            serde.serialize(value)
        with pytest.raises(SerializationError, match=f"JSON has no {number}"):
            Column([value, value]).arrow_of(serde)


def test_json_takes_nulls_where_they_are_meant():
    for serde, value, data in [
        (Serdes.json, {"a": None, "b": [1.5, None, "null"]}, b'{"a":null,"b":[1.5,null,"null"]}'),
        (Serdes.json_of(Price), Price(None), b'{"amount":null,"parts":[]}'),
    ]:
        assert serde.serialize(value) == data
        assert Column([value, value]).arrow_of(serde).to_pylist() == [data, data]
