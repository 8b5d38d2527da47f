"""Serdes with a schema registry in a topology: sources, stores, joins and sinks, record by record and by batch; the settings."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from google.protobuf.wrappers_pb2 import StringValue
from tests.serde.registry.shop import Order, OrderBefore, Refund

from penstock import App, SchemaRegistry, Serdes, StreamsBuilder
from penstock.config import load
from penstock.engine.engine import check_secrets
from penstock.engine.fingerprint import canonical_topology
from penstock.errors import ConfigError, DeserializationError, SerializationError, TopologyError
from penstock.masking import masked
from penstock.serde.registry.catalog import catalog_of, learn
from penstock.testing import TopologyTestDriver


@pytest.fixture
def url(name):
    """A registry of the test's own, in memory."""
    return f"mock://{name('registry')}"


def shop(orders: Any, names: Any, out: Any) -> StreamsBuilder:
    builder = StreamsBuilder()
    people = builder.table("names", value=names)
    (
        builder.stream("orders", value=orders)
        .group_by(lambda _, order: order.user, value=orders)
        .reduce(lambda one, other: Order(one.user, one.cents + other.cents), store="totals", value=orders)
        .join(people, lambda total, name: {"name": name.value, "cents": total.cents})
        .to_stream()
        .to("out", value=out)
    )
    return builder


@pytest.mark.parametrize("id_in", ["prefix", "header"])
@pytest.mark.parametrize("subject", ["topic", "record", "topic_record"])
@pytest.mark.parametrize("auto_commit", [True, False], ids=["one by one", "by batch"])
def test_all_formats_meet_in_a_table(auto_commit, subject, id_in, url):
    given = SchemaRegistry(url=url, subject=subject, id_in=id_in)
    named = {"title": "Named", "type": "object", "required": ["name", "cents"]}
    orders, names = Serdes.avro(Order, registry=given), Serdes.protobuf(StringValue, registry=given)
    builder = shop(orders, names, Serdes.json_schema(named, registry=given))
    with TopologyTestDriver(builder, lanes=2) as driver:
        driver.auto_commit = auto_commit
        driver.input_topic("names", value=names).pipe("ann", StringValue(value="Ann"), timestamp=0)
        driver.commit()
        source = driver.input_topic("orders", value=orders)
        for at in range(400):
            source.pipe(None, Order("ann" if at % 2 else "bob", at), timestamp=at + 1)
        driver.commit()
        out = driver.output_topic("out").read_all()
        assert out[-1].value == {"name": "Ann", "cents": sum(range(1, 400, 2))}
        assert driver.store("totals").get("bob") == Order("bob", sum(range(0, 400, 2)))
        ids = [header for header, _ in out[-1].headers]
        assert ids == (["__value_schema_id"] if id_in == "header" else [])


def test_confluents_own_deserializer_finds_the_id_in_the_header(url):
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient.new_client({"url": url})
    orders = Serdes.avro(Order, registry=SchemaRegistry(client=client, id_in="header"))
    builder = StreamsBuilder()
    builder.stream("orders", value=orders).to("copies", value=orders)
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("orders", value=orders).pipe("1", Order("ann", 250))
        raw = driver._application.output["copies"][0]
    context = SerializationContext("copies", MessageField.VALUE, headers=list(raw.headers))
    assert AvroDeserializer(client)(raw.value, context) == {"user": "ann", "cents": 250, "note": None}


def test_a_store_keeps_values_of_an_older_schema(url):
    """What was written before the class changed is read by the new one; the changelog says which schema each row has."""
    before, now = Serdes.avro(OrderBefore, registry=url).bound_to("a"), Serdes.avro(Order, registry=url)
    builder = StreamsBuilder()
    builder.table("orders", value=now, store="orders")
    with TopologyTestDriver(builder) as driver:
        driver.pipe_raw("orders", 0, b"1", before.serialize(OrderBefore("ann", 7, "XMAS")), 0)
        driver.input_topic("orders", value=now).pipe("2", Order("bob", 8, "hi"))
        assert [driver.store("orders").get(key) for key in "12"] == [Order("ann", 7), Order("bob", 8, "hi")]


def test_bytes_without_an_id_go_to_the_policy(url):
    builder = StreamsBuilder()
    orders = Serdes.avro(Order, registry=url)
    builder.stream("orders", value=orders).to("copies", value=orders)
    config = {"on_deserialization_error": "dead_letter", "dead_letter_topic": "dead"}
    with TopologyTestDriver(builder, config=config) as driver:
        driver.pipe_raw("orders", 0, b"1", b'{"user": "ann"}', 0)
        driver.pipe_raw("orders", 0, b"2", b"\0\0\0\x7f\x7frest", 0)
        driver.input_topic("orders", value=orders).pipe("3", Order("ann", 1))
        assert [record.key for record in driver.output_topic("copies").read_all()] == ["3"]
        letters = [
            dict(record.headers)["__streams.errors.message"]
            for record in driver.output_topic("dead", value=Serdes.bytes).read_all()
        ]
        assert [b"do not begin with the id" in letters[0], b"no schema with the id 32639" in letters[1]] == [True, True]


def test_a_topic_that_a_record_names_has_its_own_subject(url):
    builder = StreamsBuilder()
    orders = Serdes.avro(Order, registry=url)
    builder.stream("orders", value=orders).to(lambda key, order, _: f"of-{order.user}", value=orders)
    with TopologyTestDriver(builder) as driver:
        for user in ("ann", "bob", "ann"):
            driver.input_topic("orders", value=orders).pipe("1", Order(user, 1))
        assert driver.output_topic("of-ann", value=orders).read_values() == [Order("ann", 1)] * 2
        client = catalog_of(SchemaRegistry(url=url))._connected()._client
        assert {"of-ann-value", "of-bob-value", "orders-value"} <= set(client.get_subjects())


def test_the_application_has_one_registry_for_all_that_ask_for_it(url):
    orders = Serdes.avro(Order, registry=True)
    builder = StreamsBuilder()
    builder.stream("orders", value=orders).to("copies", value=orders)
    with TopologyTestDriver(builder, config={"registry": SchemaRegistry(url=url, subject="record")}) as driver:
        driver.input_topic("orders", value=orders).pipe("1", Order("ann", 1))
        assert driver.output_topic("copies", value=orders).read_values() == [Order("ann", 1)]
    assert catalog_of(SchemaRegistry(url=url))._connected()._client.get_subjects() == ["Order"]
    with pytest.raises(ConfigError, match="there is none: set registry="):
        TopologyTestDriver(builder)
    with pytest.raises(ConfigError, match="there is none: set registry="):
        App(builder, application_id="shop")


def test_secrets_of_a_registry_are_not_shown(url):
    given = SchemaRegistry(url="https://me:hush@host", basic_auth="me:open sesame", key_password="pass of key")
    told = f"{given!r} {given.digest} {Serdes.avro(Order, registry=given)!r} {masked(load({'registry': given}, environ={}))}"
    assert not [secret for secret in ("hush", "sesame", "pass of key") if secret in told]
    assert given.secrets == ["url", "basic_auth", "key_password"]
    with pytest.raises(ConfigError, match=r"hold secrets.*registry basic_auth"):
        check_secrets("spark://host:7077", {}, {}, [given])
    safe = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    check_secrets("spark://host:7077", {}, safe, [given])


def test_the_canonical_topology_does_not_name_the_registry():
    """Another address is no other topology; whether there is a registry is."""

    def of(**options: Any) -> str:
        builder = StreamsBuilder()
        builder.table("orders", value=Serdes.avro(Order, **options), store="orders")
        return canonical_topology(builder.build())

    assert of(registry="mock://a") == of(registry=SchemaRegistry(url="http://b", basic_auth="me:hush"))
    assert of(registry="mock://a") != of()


def test_a_serde_travels_and_what_the_driver_has_asked_for_is_known_there(url):
    orders = Serdes.avro(Order, registry=url).bound_to("orders")
    orders.resolve()
    rows = orders.catalog().known()
    there = pickle.loads(pickle.dumps(orders))
    assert (there, hash(there)) == (orders, hash(orders))
    elsewhere = Serdes.avro(Order, registry=SchemaRegistry(url="http://127.0.0.1:9/nobody")).bound_to("orders")
    learn([(elsewhere.registry.digest, *row[1:]) for row in rows])
    data = elsewhere.serialize(Order("ann", 1))  # nobody is asked: nobody answers there
    assert (data, elsewhere.deserialize(data)) == (orders.serialize(Order("ann", 1)), Order("ann", 1))


def test_wrong_use_is_refused(url):
    with pytest.raises(SerializationError, match=r"does not know its topic.*bound_to"):
        Serdes.avro(Order, registry=url).serialize(Order("ann", 1))
    with pytest.raises(TopologyError, match="do not go with registry="):
        Serdes.avro(Order, registry=url, single_object=True)
    with pytest.raises(TopologyError, match="references= goes with registry="):
        Serdes.avro({"type": "string"}, references={"a": "string"})
    with pytest.raises(ConfigError, match="did you mean 'topic'"):
        SchemaRegistry(url=url, subject="topics")
    with pytest.raises(ConfigError, match="cannot travel to the workers"):
        pickle.dumps(SchemaRegistry(client=object()))
    with pytest.raises(ConfigError, match="registry"):
        load({"registry": 7}, environ={})
    assert load({}, environ={"PENSTOCK_REGISTRY": json.dumps({"url": url})})["registry"] == {"url": url}


def test_a_column_of_several_schemas_is_read_one_by_one(url):
    """Rows of the older schema, of the newer, and one that cannot be read lie in one batch."""
    before, now = (Serdes.avro(one, registry=url).bound_to("orders") for one in (OrderBefore, Order))
    builder = StreamsBuilder()
    builder.stream("orders", value=Serdes.avro(Order, registry=url)).map_values(lambda order: order.cents).to("cents")
    with TopologyTestDriver(builder, config={"on_deserialization_error": "skip"}, auto_commit=False) as driver:
        for at in range(300):
            data = before.serialize(OrderBefore("a", at)) if at % 3 else now.serialize(Order("a", at))
            driver.pipe_raw("orders", 0, None, b"bad" if at == 7 else data, at)
        driver.commit()
        assert driver.output_topic("cents").read_values() == [at for at in range(300) if at != 7]


def test_a_refund_is_no_order(url):
    refunds, orders = (Serdes.avro(one, registry=url) for one in (Refund, Order))
    with pytest.raises(DeserializationError, match=r"cannot be read: .* record Refund and is read as Order"):
        orders.deserialize(refunds.bound_to("refunds").serialize(Refund(1)))
