"""Serde itself: immutable, compared by what it does, and able to travel by pickle."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pytest

from penstock.errors import SerializationError
from penstock.record import Windowed
from penstock.serde import ChangedSerde, Serde, Serdes, SessionWindowedSerde, WindowedSerde
from penstock.serde.foreign_key import CombinedKeySerde, SubscriptionResponseWrapperSerde, SubscriptionWrapperSerde

BUILT_IN = ["string", "bytes", "int32", "int64", "float32", "float64", "boolean", "uuid", "json", "void", "pickle"]


@dataclass
class Point:
    x: int
    y: int = 0


class Order(msgspec.Struct):
    id: int


class Row(TypedDict):
    name: str


def shout(text: str) -> bytes:
    return text.upper().encode()


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_serde_pickles_as_its_name_and_comes_back_as_itself(name: str) -> None:
    serde = getattr(Serdes, name)
    assert pickle.loads(pickle.dumps(serde)) is serde
    assert len(pickle.dumps(serde)) < 100
    assert copy.deepcopy(serde) is serde
    assert repr(serde) == f"Serdes.{name}"


@pytest.mark.parametrize(
    ("type_", "value", "data"),
    [(Point, Point(1, 2), b'{"x":1,"y":2}'), (Order, Order(7), b'{"id":7}'), (Row, {"name": "n"}, b'{"name":"n"}')],
)
def test_json_of_a_type_pickles_as_the_type(type_: Any, value: Any, data: bytes) -> None:
    serde = pickle.loads(pickle.dumps(Serdes.json_of(type_)))
    assert serde == Serdes.json_of(type_)
    assert serde.serialize(value) == data
    assert serde.deserialize(data) == value
    assert type(serde.deserialize(data)) is type(value)


@pytest.mark.parametrize(
    "serde",
    [
        WindowedSerde(Serdes.string, 1000),
        SessionWindowedSerde(Serdes.json_of(Point)),
        ChangedSerde(Serdes.windowed(Serdes.int64, 5)),
        SubscriptionWrapperSerde(Serdes.string),
        SubscriptionResponseWrapperSerde(Serdes.json),
        CombinedKeySerde(Serdes.string, Serdes.int32),
    ],
    ids=repr,
)
def test_a_serde_around_another_pickles_as_what_made_it(serde: Serde[Any]) -> None:
    again = pickle.loads(pickle.dumps(serde))
    assert again == serde
    assert hash(again) == hash(serde)
    assert type(again) is type(serde)
    assert repr(again) == repr(serde)


def test_a_users_serde_pickles_when_its_functions_do() -> None:
    serde = Serde(shout, bytes.decode, name="shout")
    again = pickle.loads(pickle.dumps(serde))
    assert again == serde
    assert again.serialize("a") == b"A"
    assert repr(again) == "Serde(shout)"


def test_a_users_serde_without_a_name_shows_its_functions() -> None:
    assert repr(Serde(shout, bytes.decode)) == "Serde(shout, bytes.decode)"


def test_serdes_that_do_different_things_are_not_equal() -> None:
    assert Serdes.int32 != Serdes.int64
    assert Serdes.json_of(Point) != Serdes.json_of(Order)
    assert Serdes.windowed(Serdes.string, 1) != Serdes.windowed(Serdes.string, 2)
    assert Serdes.string != "string"


def test_a_serde_cannot_be_changed() -> None:
    for serde in (Serdes.string, Serdes.windowed(Serdes.string, 1)):
        with pytest.raises(AttributeError, match="immutable"):
            serde.serialize = shout  # type: ignore[assignment]
        with pytest.raises(AttributeError, match="immutable"):
            del serde.name
        assert not hasattr(serde, "__dict__")


def test_a_serde_is_made_of_two_callables() -> None:
    with pytest.raises(TypeError, match="callable"):
        Serde("utf-8", bytes.decode)  # type: ignore[arg-type]


def test_none_is_the_callers_business_and_the_contract_says_so() -> None:
    assert "`None` never reaches" in (Serde.__doc__ or "")
    with pytest.raises(TypeError):
        Serdes.string.serialize(None)  # type: ignore[arg-type]


def test_the_hot_functions_are_those_of_c() -> None:
    assert Serdes.string.serialize is str.encode
    assert Serdes.string.deserialize is bytes.decode
    data = b"kept"
    assert Serdes.bytes.serialize(data) is data


def test_a_windowed_serde_knows_its_parts() -> None:
    serde = Serdes.windowed(Serdes.int64, 10)
    assert (serde.inner, serde.size) == (Serdes.int64, 10)
    assert serde.deserialize(serde.serialize(Windowed(1, 20, 30))) == Windowed(1, 20, 30)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("serde", [Serdes.json, Serdes.json_of(list[float])], ids=["json", "json_of"])
def test_json_refuses_numbers_that_it_does_not_have(serde: Serde[Any], number: float) -> None:
    with pytest.raises(SerializationError, match="JSON has no"):
        serde.serialize([1.5, number])
