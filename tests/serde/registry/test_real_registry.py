"""Avro, Protobuf and JSON Schema against a real schema registry (Apicurio's, which answers as Confluent's does)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from google.protobuf.api_pb2 import Method, Mixin
from google.protobuf.wrappers_pb2 import StringValue
from tests.serde.registry.shop import (
    INT64,
    MESSAGE,
    STRING,
    Order,
    OrderAlone,
    OrderBefore,
    OrderOfTexts,
    Refund,
    classes,
    proto_file,
)

from penstock import SchemaRegistry, Serdes
from penstock.dev.registry import RegistryServer
from penstock.errors import DeserializationError, RegistryError, SerializationError

FORMATS = {
    "avro": (Serdes.avro, Order("ann", 250)),
    "json": (Serdes.json_schema, Order("ann", 250)),
    "protobuf": (lambda message, **options: Serdes.protobuf(Method, **options), Method(name="get")),
}


@pytest.fixture
def client(schema_registry: RegistryServer) -> Any:
    return SchemaRegistryClient({"url": schema_registry.url})


def bound(serde: Any, topic: str) -> Any:
    return serde.bound_to(topic)


@pytest.mark.parametrize("form", FORMATS)
def test_a_value_comes_back_and_its_schema_is_in_the_registry(form, schema_registry, client, name):
    make, value = FORMATS[form]
    serde = bound(make(Order, registry=schema_registry.url), name(form))
    data = serde.serialize(value)
    assert serde.deserialize(data) == value
    latest = client.get_latest_version(f"{name(form)}-value")
    assert data[:5] == b"\0" + latest.schema_id.to_bytes(4, "big")
    assert latest.schema.schema_type == serde.form.kind


def test_avro_of_an_older_schema_is_read_as_the_newer_says(schema_registry, name):
    before, now = (
        bound(Serdes.avro(one, registry=schema_registry.url), name("evolving")) for one in (OrderBefore, Order)
    )
    old = before.serialize(OrderBefore("ann", 250, "XMAS"))
    assert now.deserialize(old) == Order("ann", 250)
    assert now.serialize(Order("bob", 1))[:5] != old[:5]
    assert before.deserialize(now.serialize(Order("bob", 1, "hi"))) == OrderBefore("bob", 1)


def test_json_of_an_older_schema_is_read_as_the_newer_says(schema_registry, name):
    """A field less: one more is not compatible, as it might have been there before, with values of another type."""
    before, now = (
        bound(Serdes.json_schema(one, registry=schema_registry.url), name("evolving")) for one in (Order, OrderAlone)
    )
    old = before.serialize(Order("ann", 250, "hi"))
    assert now.deserialize(old) == OrderAlone("ann", 250)
    assert now.serialize(OrderAlone("bob", 1))[:5] != old[:5]
    assert before.deserialize(now.serialize(OrderAlone("bob", 1))) == Order("bob", 1)


def test_messages_of_an_older_file_are_read_as_the_newer_says(schema_registry, name):
    fields = {"user": (STRING, ""), "cents": (INT64, "")}
    before = classes(proto_file("order.proto", {"Order": fields}))["Order"]
    now = classes(proto_file("order.proto", {"Order": {**fields, "note": (STRING, "")}}))["Order"]
    old, new = (bound(Serdes.protobuf(one, registry=schema_registry.url), name("evolving")) for one in (before, now))
    assert new.deserialize(old.serialize(before(user="ann", cents=7))) == now(user="ann", cents=7)
    newer = new.serialize(now(user="ann", cents=7, note="hi"))
    assert old.serialize(old.deserialize(newer))[5:] == newer[5:], "unknown fields go along"


def record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}


def test_avro_schemas_refer_to_others(schema_registry, client, name):
    full = name("shop.Address").replace("-", "_")
    address, person = record(full, {"street": "string"}), record("shop.Person", {"home": full, "work": full})
    serde = bound(Serdes.avro(person, registry=schema_registry.url, references={full: address}), name("people"))
    data = serde.serialize({"home": {"street": "High St"}, "work": {"street": "Mill Rd"}})
    assert [one.name for one in client.get_latest_version(f"{name('people')}-value").schema.references] == [full]
    # another process knows nothing of them: it finds the writer's schemas in the registry
    elsewhere = SchemaRegistry(url=schema_registry.url, timeout_ms=9_999)
    reader = Serdes.avro(record("Person", {"home": address}), registry=elsewhere)
    assert reader.deserialize(data) == {"home": {"street": "High St"}}


def test_json_schemas_refer_to_others(schema_registry, client, name):
    named = f"{name('address')}.json"
    person = {"title": "Person", "type": "object", "properties": {"home": {"$ref": named}}, "required": ["home"]}
    address = {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]}
    serde = bound(Serdes.json_schema(person, registry=schema_registry.url, references={named: address}), name("people"))
    assert serde.deserialize(serde.serialize({"home": {"street": "High St"}})) == {"home": {"street": "High St"}}
    with pytest.raises(SerializationError, match="street"):
        serde.serialize({"home": {"street": 7}})
    assert [one.name for one in client.get_latest_version(f"{name('people')}-value").schema.references] == [named]


def test_protobuf_files_import_others(schema_registry, client, name):
    imported = f"{name('address')}.proto"
    files = (
        proto_file(imported, {"Address": {"street": (STRING, "")}}),
        proto_file("person.proto", {"Person": {"home": (MESSAGE, ".shop.Address")}}, (imported,)),
    )
    found = classes(*files)
    serde = bound(Serdes.protobuf(found["Person"], registry=schema_registry.url), name("people"))
    value = found["Person"](home=found["Address"](street="High St"))
    assert serde.deserialize(serde.serialize(value)) == value
    assert [one.name for one in client.get_latest_version(f"{name('people')}-value").schema.references] == [imported]


def test_without_the_right_to_register_a_schema_must_be_there(schema_registry, client, name):
    given = SchemaRegistry(url=schema_registry.url, register=False)
    serde = bound(Serdes.avro(Order, registry=given), name("orders"))
    with pytest.raises(RegistryError, match=r"register=False(.|\n)*remedy") as refused:
        serde.serialize(Order("ann", 1))
    assert not refused.value.retriable
    assert f"{name('orders')}-value" not in client.get_subjects()
    registering = bound(Serdes.avro(Order, registry=schema_registry.url), name("orders"))
    data = registering.serialize(Order("ann", 1))
    assert serde.serialize(Order("ann", 1)) == data
    assert bound(Serdes.avro(Order, registry=given), name("orders")).deserialize(
        serde.serialize(Order("ann", 1))
    ) == Order("ann", 1)


@pytest.mark.parametrize(
    ("subject", "expected"), [("topic", "{}-key"), ("record", "ReturnedGoods"), ("topic_record", "{}-ReturnedGoods")]
)
def test_subjects_are_named_as_asked(subject, expected, schema_registry, client, name):
    given = SchemaRegistry(url=schema_registry.url, subject=subject)
    goods = msgspec.defstruct("ReturnedGoods", [("order", int)])  # the registry is shared: nobody else has this name
    Serdes.avro(goods, registry=given).bound_to(name("refunds"), key=True).serialize(goods(7))
    assert expected.format(name("refunds")) in client.get_subjects()


def test_an_incompatible_schema_is_refused_with_a_remedy(schema_registry, name):
    bound(Serdes.avro(Order, registry=schema_registry.url), name("orders")).serialize(Order("ann", 1))
    with pytest.raises(RegistryError, match=r"409(.|\n)*remedy: .* compatible") as refused:
        bound(Serdes.avro(OrderOfTexts, registry=schema_registry.url), name("orders")).serialize(
            OrderOfTexts("ann", "1")
        )
    assert not refused.value.retriable
    assert refused.value.code == "REGISTRY_INCOMPATIBLE"


def test_an_id_that_does_not_exist_and_bytes_without_one_are_bad_records(schema_registry):
    serde = Serdes.avro(Order, registry=schema_registry.url)
    with pytest.raises(DeserializationError, match="no schema with the id 7654321"):
        serde.deserialize(b"\0" + (7654321).to_bytes(4, "big") + b"\0")
    with pytest.raises(DeserializationError, match="do not begin with the id of a schema"):
        serde.deserialize(b'{"user": "ann"}')


def test_a_value_of_another_format_is_a_bad_record(schema_registry, name):
    data = bound(Serdes.json_schema(Order, registry=schema_registry.url), name("orders")).serialize(Order("ann", 1))
    with pytest.raises(DeserializationError, match=r"is JSON, but .* reads AVRO"):
        Serdes.avro(Order, registry=schema_registry.url).deserialize(data)


@pytest.mark.parametrize("make", [Serdes.avro, Serdes.json_schema])
def test_several_schemas_live_in_one_topic(make, schema_registry, client, name):
    given = SchemaRegistry(url=schema_registry.url, subject="topic_record")
    serde = bound(make(Order | Refund, registry=given), name("events"))
    values = [Order("ann", 250), Refund(7, "late"), Order("bob", 1, "gift")]
    written = [serde.serialize(value) for value in values]
    assert [serde.deserialize(data) for data in written] == values
    assert {f"{name('events')}-Order", f"{name('events')}-Refund"} <= set(client.get_subjects())
    with pytest.raises(DeserializationError, match="but the serde reads"):
        make(Order | Method2, registry=given).deserialize(written[1])
    with pytest.raises(SerializationError, match="not one of Order, Refund"):
        serde.serialize(OrderBefore("ann", 1))


class Method2(OrderBefore):  # type: ignore[misc,valid-type]
    pass


def test_several_messages_live_in_one_topic(schema_registry, name):
    values = [Method(name="get"), StringValue(value="ann")]
    # both files under one subject are not compatible: each message has its own
    given = SchemaRegistry(url=schema_registry.url, subject="topic_record")
    serde = bound(Serdes.protobuf(Method | StringValue, registry=given), name("events"))
    assert [serde.deserialize(serde.serialize(value)) for value in values] == values
    with pytest.raises(
        DeserializationError, match=r"is a google.protobuf.StringValue, but the serde reads google.protobuf.Mixin"
    ):
        Serdes.protobuf(Mixin, registry=given).deserialize(serde.serialize(values[1]))


def test_values_are_written_with_the_newest_schema_if_that_is_asked_for(schema_registry, client, name):
    bound(Serdes.avro(Order, registry=schema_registry.url), name("orders")).serialize(Order("ann", 1))
    bound(Serdes.avro(OrderBefore, registry=schema_registry.url), name("orders")).serialize(OrderBefore("ann", 1))
    newest = client.get_latest_version(f"{name('orders')}-value")
    given = SchemaRegistry(url=schema_registry.url, use_latest=True)
    data = bound(
        Serdes.avro(
            {
                "type": "record",
                "name": "Order",
                "fields": [{"name": "user", "type": "string"}, {"name": "cents", "type": "long"}],
            },
            registry=given,
        ),
        name("orders"),
    ).serialize({"user": "bob", "cents": 2})
    assert data[:5] == b"\0" + newest.schema_id.to_bytes(4, "big")
    assert Serdes.avro(OrderBefore, registry=given).deserialize(data) == OrderBefore("bob", 2, "")


def test_bytes_equal_those_of_confluents_serializers(schema_registry, client, name):
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    context = SerializationContext(name("orders"), MessageField.VALUE)
    serde = bound(Serdes.avro(Order, registry=schema_registry.url), name("orders"))
    theirs = AvroSerializer(
        client, serde.form.text, conf={"subject.name.strategy": lambda ctx, _: f"{ctx.topic}-{ctx.field}"}
    )
    for value in ({"user": "ann", "cents": 250, "note": None}, {"user": "", "cents": -(2**63), "note": "é" * 1000}):
        assert theirs(value, context) == serde.serialize(Order(**value))


def test_protobuf_bytes_equal_those_of_confluents_serializer(schema_registry, client, name):
    """Each registers the file in its own form (theirs: what protoc made), so under its own subject, with its own id."""
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    conf = {"subject.name.strategy": lambda ctx, _: f"{ctx.topic}-{ctx.field}"}
    for number, value in enumerate(
        (Method(name="get", options=[]), StringValue(value="ann"), Mixin(name="x", root="y"))
    ):
        topics = name(f"ours-{number}"), name(f"theirs-{number}")
        ours = bound(Serdes.protobuf(type(value), registry=schema_registry.url), topics[0]).serialize(value)
        theirs = ProtobufSerializer(type(value), client, conf)(
            value, SerializationContext(topics[1], MessageField.VALUE)
        )
        assert (theirs[0], theirs[5:]) == (ours[0], ours[5:])
        assert Serdes.protobuf(type(value), registry=schema_registry.url).deserialize(theirs) == value


def test_json_bytes_are_the_id_and_compact_json(schema_registry, client, name):
    serde = bound(Serdes.json_schema(Order, registry=schema_registry.url), name("orders"))
    data = serde.serialize(Order("ann", 1))
    assert data[5:] == b'{"user":"ann","cents":1,"note":null}'
    assert json.loads(client.get_latest_version(f"{name('orders')}-value").schema.schema_str)["title"] == "Order"
