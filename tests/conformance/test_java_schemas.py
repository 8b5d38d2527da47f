"""Avro, JSON Schema and Protobuf against serializers in Java, with a real registry: what Java writes is read, and ours are Java's bytes.

They are Apicurio's, told to be as Confluent's (docs/schemas.md says where they are not). Without their jars these tests are skipped.
"""

import json

import jpype
import pytest
from oracle.jvm import J
from tests.golden.java_serializers import serializer_jars
from tests.serde.registry.shop import INT64, STRING, classes, proto_file

from penstock import Serdes
from penstock.dev.jars import JarsNotFound
from penstock.dev.registry import PATH
from penstock.errors import DeserializationError
from penstock.serde.registry.framing import ID_SIZE, without_frame

FIELDS = {"user": "string", "cents": "long", "note": ["null", "string"]}
AVRO = {"type": "record", "name": "Order", "fields": [{"name": name, "type": kind} for name, kind in FIELDS.items()]}
JSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"user": {"type": "string"}, "cents": {"type": "integer"}, "note": {"type": ["string", "null"]}},
    "required": ["user", "cents"],
}
ORDERS = [
    {"user": "ann", "cents": 250, "note": None},
    {"user": "", "cents": -(2**63), "note": 'é \u2028 </a> "\\" \n\t\x07 ' * 20},
    {"user": "bob", "cents": 2**63 - 1, "note": ""},
]
#: the message is not the first of its file: its place in it is not the short form
FILE = proto_file(
    "order.proto", {"Refund": {"why": (STRING, "")}, "Order": {"user": (STRING, ""), "cents": (INT64, "")}}
)
MESSAGES = classes(FILE)
ALL_MESSAGES = [MESSAGES["Order"](user="ann", cents=250), MESSAGES["Refund"](why="é" * 100), MESSAGES["Order"]()]
PROTOBUF, IN_HEADERS = "protobuf.ProtobufKafkaSerializer", {"headers.enabled": True}


class Java:
    """Apicurio's serializers and deserializers, by a class loader of their own in the JVM of this process."""

    def __init__(self, url):
        urls = [J["java.io.File"](jar).toURI().toURL() for jar in serializer_jars()]
        self._loader = J["java.net.URLClassLoader"](urls, J["java.lang.ClassLoader"].getSystemClassLoader())
        self._url = url.removesuffix(PATH) + "/apis/registry/v2"

    def __getitem__(self, name):
        return jpype.JClass(name, loader=self._loader)

    def serde(self, kind, **settings):
        """Make a serializer or deserializer of record values."""
        thread = J["java.lang.Thread"].currentThread()
        before, made = thread.getContextClassLoader(), self[f"io.apicurio.registry.serde.{kind}"]()
        thread.setContextClassLoader(self._loader)  # it finds its HTTP client by that
        try:
            made.configure(self._settings(settings), False)
        finally:
            thread.setContextClassLoader(before)
        return made

    def _settings(self, given):
        settings = J["java.util.HashMap"]()
        usual = {
            "url": self._url,
            "as_confluent": True,
            "use_id": "contentId",
            "auto-register": True,
            "headers.enabled": False,
        }
        for name, value in {**usual, **given}.items():
            text = str(value).lower() if isinstance(value, bool) else value
            settings.put(f"apicurio.registry.{name.replace('_', '-')}", text)
        return settings

    def avro(self, order):
        """Return a record of Avro's own class."""
        schema = self["org.apache.avro.Schema$Parser"]().parse(json.dumps(AVRO))
        record = self["org.apache.avro.generic.GenericData$Record"](schema)
        for name, value in order.items():
            record.put(name, jpype.JLong(value) if name == "cents" else value)
        return record

    def json(self, order):
        """Return a tree of Jackson's."""
        return self["com.fasterxml.jackson.databind.ObjectMapper"]().readTree(json.dumps(order))

    def protobuf(self, message):
        """Return a message of a class that is made of the file."""
        file_class = self["com.google.protobuf.Descriptors$FileDescriptor"]
        proto = self["com.google.protobuf.DescriptorProtos$FileDescriptorProto"].parseFrom(
            java(FILE.SerializeToString())
        )
        file = file_class.buildFrom(proto, J["java.lang.reflect.Array"].newInstance(file_class.class_, 0))
        kind = file.findMessageTypeByName(message.DESCRIPTOR.name)
        return self["com.google.protobuf.DynamicMessage"].parseFrom(kind, java(message.SerializeToString()))


def java(data):
    return jpype.JArray(jpype.JByte)(data)


def headers():
    return J["org.apache.kafka.common.header.internals.RecordHeaders"]()


@pytest.fixture(scope="module")
def apicurio(schema_registry):
    try:
        return Java(schema_registry.url)
    except JarsNotFound as error:
        pytest.skip(f"no serializers in Java to compare with: {error}")


def settings_of(topic):
    """Return the settings of a serde of Java's that takes the schema that ours has registered."""
    return {"artifact.artifact-id": f"{topic}-value", "auto-register": False, "find_latest": True}


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order["user"] or "none")
def test_avro_is_the_same_both_ways(apicurio, schema_registry, name, order):
    ours = Serdes.avro(AVRO, registry=schema_registry.url).bound_to(name("avro"))
    data, settings = ours.serialize(order), settings_of(name("avro"))
    theirs = apicurio.serde("avro.AvroKafkaSerializer", **settings)
    assert bytes(theirs.serialize(name("avro"), apicurio.avro(order))) == data
    assert ours.deserialize(data) == order
    read = apicurio.serde("avro.AvroKafkaDeserializer", **settings).deserialize(name("avro"), java(data))
    assert read.equals(apicurio.avro(order))


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order["user"] or "none")
def test_json_is_the_same_both_ways(apicurio, schema_registry, name, order):
    ours = Serdes.json_schema(JSON, registry=schema_registry.url).bound_to(name("json"))
    data, settings = ours.serialize(order), settings_of(name("json"))
    theirs = apicurio.serde("jsonschema.JsonSchemaKafkaSerializer", **settings)
    assert bytes(theirs.serialize(name("json"), apicurio.json(order))) == data
    assert ours.deserialize(data) == order
    assert read_json(apicurio, name("json"), data).equals(apicurio.json(order))


def read_json(apicurio, topic, data):
    tree = {"deserializer.value.return-class": "com.fasterxml.jackson.databind.JsonNode"}
    return apicurio.serde("jsonschema.JsonSchemaKafkaDeserializer", **settings_of(topic), **tree).deserialize(
        topic, java(data)
    )


def test_json_beyond_the_first_plane_of_unicode_is_escaped_by_java_and_read_by_both(apicurio, schema_registry, name):
    order = {"user": "😀", "cents": 1}
    ours = Serdes.json_schema(JSON, registry=schema_registry.url).bound_to(name("json"))
    data = ours.serialize(order)
    theirs = apicurio.serde("jsonschema.JsonSchemaKafkaSerializer", **settings_of(name("json")))
    escaped = bytes(theirs.serialize(name("json"), apicurio.json(order)))
    assert escaped == data.replace("😀".encode(), rb"\uD83D\uDE00") != data
    assert ours.deserialize(escaped) == order
    assert read_json(apicurio, name("json"), data).equals(apicurio.json(order))


@pytest.mark.parametrize("message", ALL_MESSAGES, ids=lambda message: message.DESCRIPTOR.name)
def test_protobuf_is_the_same_where_the_id_is_in_headers(apicurio, name, message):
    """The headers are Apicurio's own, so a registry is not asked here: value and bytes are those of the serde without one."""
    theirs, found = apicurio.serde(PROTOBUF, **IN_HEADERS), headers()
    data = bytes(theirs.serialize(name("messages"), found, apicurio.protobuf(message)))
    assert next(str(header.key()) for header in found.toArray()) == "apicurio.value.contentId"
    assert Serdes.protobuf(type(message)).serialize(message) == data
    assert Serdes.protobuf(type(message)).deserialize(data) == message


@pytest.mark.parametrize("message", ALL_MESSAGES, ids=lambda message: message.DESCRIPTOR.name)
def test_protobuf_behind_an_id_has_the_name_of_the_message_in_java_and_its_place_here(
    apicurio, schema_registry, name, message
):
    """That of Confluent's serializers is the place (test_real_registry.py). Values of the other form are bad records, not misread."""
    theirs = bytes(apicurio.serde(PROTOBUF).serialize(name("theirs"), apicurio.protobuf(message)))
    ours = Serdes.protobuf(type(message), registry=schema_registry.url).bound_to(name("ours"))
    data, called = ours.serialize(message), message.DESCRIPTOR.name.encode()
    frame, body = without_frame(data, indexed=True)
    named = bytes([len(called) + 2, 0x0A, len(called)]) + called
    assert theirs[ID_SIZE:] == named + body == named + message.SerializeToString()
    with pytest.raises(DeserializationError):
        ours.deserialize(frame[:ID_SIZE] + theirs[ID_SIZE:])
