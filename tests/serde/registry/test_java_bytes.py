"""Our bytes against those of a Java serializer (tests/golden/registry.json, made by make_registry_golden.py with a real registry)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from penstock import SchemaRegistry, Serdes

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "registry.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["value"]["user"] or "none")
def test_avro_bytes_equal_those_of_java_and_are_read(case):
    """In a registry whose first schema is Java's, as it was when the file was made, the ids are equal, too."""
    client = SchemaRegistryClient.new_client({"url": "mock://java"})
    serde = Serdes.avro(GOLDEN["schema"], registry=SchemaRegistry(client=client)).bound_to("orders")
    client.register_schema("orders-value", Schema(serde.form.text, "AVRO"))
    data = bytes.fromhex(case["bytes"])
    assert serde.serialize(case["value"]) == data
    assert serde.deserialize(data) == case["value"]
