"""Serdes: bytes as Kafka's, types of the user's own, and a serde made of two functions."""

import dataclasses
import uuid
from typing import TypedDict

import msgspec
import pytest

from penstock import Serde, Serdes, StreamsBuilder
from penstock.testing import TopologyTestDriver


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Order(msgspec.Struct):
    id: str
    items: list[str] = []


class User(TypedDict):
    name: str
    age: int


@pytest.mark.parametrize(
    ("serde", "value", "raw"),
    [
        (Serdes.string, "é", "é".encode()),
        (Serdes.bytes, b"\x00x", b"\x00x"),
        (Serdes.int32, -2, (-2).to_bytes(4, "big", signed=True)),
        (Serdes.int64, 2**40, (2**40).to_bytes(8, "big")),
        (Serdes.float64, 1.5, bytes.fromhex("3ff8000000000000")),
        (Serdes.float32, 1.5, bytes.fromhex("3fc00000")),
        (Serdes.boolean, True, b"\x01"),
        (Serdes.uuid, uuid.UUID(int=5), str(uuid.UUID(int=5)).encode()),
        (Serdes.json, {"a": [1, 2.5, None, True]}, b'{"a":[1,2.5,null,true]}'),
    ],
)
def test_bytes_are_those_of_kafka(serde, value, raw):
    assert serde.serialize(value) == raw
    assert serde.deserialize(raw) == value


def test_void_is_nothing():
    builder = StreamsBuilder()
    builder.stream("in", key=Serdes.void).to("out", key=Serdes.void)
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in", key=Serdes.void).pipe(None, 1)
        assert driver.output_topic("out", key=Serdes.void).read().key is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Point, Point(1, 2)),
        (Order, Order("7", ["a"])),
        (User, User(name="ann", age=3)),
        (list[Point], [Point(1), Point(2)]),
    ],
)
def test_json_of_a_type(kind, value):
    serde = Serdes.json_of(kind)
    assert serde.deserialize(serde.serialize(value)) == value
    with pytest.raises(Exception, match=r"."):
        serde.deserialize(b'{"nothing": "of the kind"')


def test_json_of_a_type_checks_what_it_reads():
    with pytest.raises(Exception, match=r"(?i)int"):
        Serdes.json_of(Point).deserialize(b'{"x": "one"}')


def test_pickle_takes_anything():
    value = {"a": (1, {2, 3}), "b": Point(1)}
    assert Serdes.pickle.deserialize(Serdes.pickle.serialize(value)) == value


def test_a_serde_is_two_functions():
    upper: Serde[str] = Serde(lambda text: text.upper().encode(), lambda raw: raw.decode().lower())
    assert upper.serialize("a") == b"A"
    assert upper.deserialize(b"A") == "a"
    builder = StreamsBuilder()
    builder.stream("in", value=upper).map_values(lambda v: v + "!").to("out", value=upper)
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in", value=upper).pipe("k", "x")
        assert driver.output_topic("out", value=upper).read_values() == ["x!"]
        assert driver.all_output()["out"][0][1] == b"X!"


def test_types_of_the_users_own_in_aggregates():
    def add(key, order, point):
        point.x += len(order.items)
        return point

    builder = StreamsBuilder()
    (
        builder.stream("in", value=Serdes.json_of(Order))
        .group_by_key()
        .aggregate(lambda: Point(0), add, store="points", value=Serdes.json_of(Point))
        .to_stream()
        .to("out")
    )
    with TopologyTestDriver(builder) as driver:
        source = driver.input_topic("in", value=Serdes.json_of(Order))
        source.pipe("a", Order("1", ["x", "y"]))
        source.pipe("a", Order("2", ["z"]))
        assert driver.output_topic("out", value=Serdes.json_of(Point)).read_values() == [Point(2), Point(3)]
        assert driver.store("points").get("a") == Point(3)


def test_keys_of_other_types():
    builder = StreamsBuilder()
    builder.stream("in", key=Serdes.int64).group_by_key().count(store="n").to_stream().to("out")
    with TopologyTestDriver(builder, lanes=3) as driver:
        for key in (1, 2, 1, -5):
            driver.input_topic("in", key=Serdes.int64).pipe(key, "x")
        assert driver.output_topic("out", key=Serdes.int64, value=Serdes.int64).read_table() == {1: 2, 2: 1, -5: 1}
        assert driver.store("n").get(-5) == 1


@pytest.mark.parametrize("wrong", [str, "string", lambda x: x, object()])
def test_something_that_is_no_serde_is_refused_when_it_is_given(wrong):
    with pytest.raises(Exception, match=r"(?i)serde"):
        StreamsBuilder().stream("in", value=wrong)
    with pytest.raises(Exception, match=r"(?i)serde"):
        StreamsBuilder().stream("in").to("out", key=wrong)
    with pytest.raises(Exception, match=r"(?i)serde"):
        StreamsBuilder().stream("in").group_by_key().count(value=wrong)


def test_a_value_of_the_wrong_type_names_the_topic_and_the_remedy():
    builder = StreamsBuilder()
    builder.stream("in").to("out", value=Serdes.int64)
    with TopologyTestDriver(builder) as driver, pytest.raises(Exception, match=r"(?s)out.*int64.*value="):
        driver.input_topic("in").pipe("k", "text")
