"""Serdes with schemas in a topology: sources, stores, joins, sinks; and what a record that does not fit becomes."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest
from google.protobuf.wrappers_pb2 import Int64Value, StringValue

from penstock import Serdes, StreamsBuilder
from penstock.errors import DeserializationError, MissingExtra, SerializationError
from penstock.testing import TopologyTestDriver


class Order(msgspec.Struct, frozen=True):
    user: str
    cents: int
    note: str | None = None


class Total(msgspec.Struct):
    user: str = ""
    cents: int = 0
    orders: int = 0


OrderBefore = msgspec.defstruct("Order", [("user", str), ("cents", int)])
orders, totals, names = Serdes.avro(Order), Serdes.avro(Total), Serdes.protobuf(StringValue)


def add(_key: Any, order: Order, total: Total) -> Total:
    return Total(order.user, total.cents + order.cents, total.orders + 1)


def named_totals() -> StreamsBuilder:
    """Orders in Avro, added up by user, joined with names in Protobuf; the result in JSON with a schema."""
    builder = StreamsBuilder()
    people = builder.table("names", value=names)
    (
        builder.stream("orders", value=orders)
        .group_by(lambda _, order: order.user, value=orders)
        .aggregate(Total, add, store="totals", value=totals)
        .join(people, lambda total, name: {"name": name.value, "cents": total.cents})
        .to_stream()
        .to("out", value=Serdes.json_schema({"title": "Named", "type": "object", "required": ["name", "cents"]}))
    )
    return builder


@pytest.mark.parametrize("auto_commit", [True, False], ids=["one by one", "by batch"])
def test_avro_and_protobuf_topics_meet_in_a_table(auto_commit: bool) -> None:
    with TopologyTestDriver(named_totals(), lanes=2) as driver:
        driver.auto_commit = auto_commit
        driver.input_topic("names", value=names).pipe("ann", StringValue(value="Ann"), timestamp=0)
        driver.commit()
        source = driver.input_topic("orders", value=orders)
        for at in range(100):
            source.pipe(None, Order("ann" if at % 2 else "bob", at), timestamp=at + 1)
        driver.commit()
        assert driver.output_topic("out").read_table() == {"ann": {"name": "Ann", "cents": 2500}}
        assert driver.store("totals").get("bob") == Total("bob", 2450, 50)


def test_keys_may_be_objects_of_a_schema() -> None:
    builder = StreamsBuilder()
    keys = Serdes.protobuf(Int64Value)
    builder.stream("in", key=keys).group_by_key().count(store="by-key").to_stream().to("out", key=keys)
    builder.stream("avro", key=orders).group_by_key().count(store="by-order").to_stream().to("out2", key=orders)
    with TopologyTestDriver(builder) as driver:
        for number in (1, 2, 1):
            driver.input_topic("in", key=keys).pipe(Int64Value(value=number), "v")
            driver.input_topic("avro", key=orders).pipe(Order("u", number), "v")
        found = driver.output_topic("out", key=keys, value=Serdes.int64).read_all()
        assert [(one.key.value, one.value) for one in found] == [(1, 1), (2, 1), (1, 2)]
        assert driver.output_topic("out2", key=orders, value=Serdes.int64).read_table() == {
            Order("u", 1): 2,
            Order("u", 2): 1,
        }


def test_a_topic_with_values_of_two_schemas_is_read_as_the_newer() -> None:
    before = Serdes.avro(OrderBefore, single_object=True)
    now = Serdes.avro(Order, single_object=True, older=[OrderBefore])
    builder = StreamsBuilder()
    builder.table("orders", value=now, store="orders")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("orders", value=before).pipe("a", OrderBefore("ann", 1))
        driver.input_topic("orders", value=now).pipe("b", Order("bob", 2, "new"))
        assert driver.store("orders").get("a") == Order("ann", 1, None)
        assert driver.store("orders").get("b") == Order("bob", 2, "new")


def test_bytes_of_another_schema_are_a_record_that_cannot_be_read() -> None:
    builder = StreamsBuilder()
    builder.stream("orders", value=orders).to("out")
    with TopologyTestDriver(builder) as driver, pytest.raises(DeserializationError, match="orders-0@0"):
        driver.input_topic("orders", value=Serdes.bytes).pipe("a", b"\x02a")


def test_bytes_of_another_schema_are_skipped_where_that_is_asked_for() -> None:
    builder = StreamsBuilder()
    builder.stream("orders", value=orders).to("out")
    with TopologyTestDriver(builder, config={"on_deserialization_error": "skip"}) as driver:
        driver.input_topic("orders", value=Serdes.bytes).pipe("a", b"\x02a")
        driver.input_topic("orders", value=orders).pipe("b", Order("bob", 1))
        assert driver.output_topic("out", value=orders).read_values() == [Order("bob", 1)]


def test_a_value_that_does_not_fit_names_the_node_and_the_field() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out", value=orders, name="writer")
    with TopologyTestDriver(builder) as driver, pytest.raises(SerializationError) as error:
        driver.input_topic("in").pipe("a", {"user": "ann", "cents": 1.5})
    assert "value['cents'] is 1.5 (float), the schema says long" in str(error.value)
    assert "writer" in str(error.value)


def test_a_value_that_does_not_fit_is_skipped_where_that_is_asked_for() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out", value=orders)
    with TopologyTestDriver(builder, config={"on_production_error": "skip"}) as driver:
        driver.input_topic("in").pipe("a", {"user": "ann", "cents": 1.5})
        driver.input_topic("in").pipe("b", {"user": "bob", "cents": 2})
        assert driver.output_topic("out", value=orders).read_values() == [Order("bob", 2)]


@pytest.mark.parametrize(
    ("module", "package", "extra", "make"),
    [
        ("fastavro", "fastavro", "avro", lambda: Serdes.avro(Order)),
        ("google.protobuf.message", "protobuf", "protobuf", lambda: Serdes.protobuf(StringValue)),
        ("jsonschema_rs", "jsonschema-rs", "json-schema", lambda: Serdes.json_schema({"title": "not made before"})),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str, extra: str, make: Any
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"package {package}: pip install 'penstock-streams\[{extra}\]'"):
        make()
