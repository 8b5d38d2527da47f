"""Make tests/golden/registry.json: what Apicurio's Java serializer, told to be as Confluent's, writes with a real registry.

Avro only: tests/conformance/test_java_schemas.py has the other formats, too, where the serializer can be had.

    .venv/bin/python tests/golden/make_registry_golden.py

Needs Java and a Maven repository; the tests only read the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jpype
from java_serializers import serializer_jars

from penstock.dev.jars import resolve
from penstock.dev.registry import PATH, RegistryServer
from penstock.dev.server import COORDINATES

OUT = Path(__file__).with_name("registry.json")

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "cents", "type": "long"},
        {"name": "price", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
ORDERS = [
    {"user": "ann", "cents": 250, "price": 2.5, "note": None},
    {"user": "", "cents": -(2**63), "price": -0.0, "note": "é" * 100},
    {"user": "bob", "cents": 2**63 - 1, "price": 1e308, "note": ""},
]


def written(url: str) -> Iterator[dict[str, Any]]:
    """Yield what the serializers write."""
    java = jpype.JClass
    conf = java("java.util.HashMap")()
    for name, value in {
        "url": url.removesuffix(PATH) + "/apis/registry/v2",
        "auto-register": "true",
        "as-confluent": "true",
        "use-id": "contentId",
        "headers.enabled": "false",
    }.items():
        conf.put(f"apicurio.registry.{name}", value)
    avro = java("io.apicurio.registry.serde.avro.AvroKafkaSerializer")()
    avro.configure(conf, False)
    schema = java("org.apache.avro.Schema$Parser")().parse(json.dumps(ORDER))
    for order in ORDERS:
        record = java("org.apache.avro.generic.GenericData$Record")(schema)
        for name, value in order.items():
            record.put(name, jpype.JLong(value) if name == "cents" else value)
        yield {"value": order, "bytes": bytes(avro.serialize("orders", record)).hex()}


def main() -> None:
    """Write the file."""
    with RegistryServer() as registry:
        jpype.startJVM(classpath=[*serializer_jars(), *map(str, resolve(COORDINATES))], convertStrings=True)
        cases = list(written(registry.url))
    OUT.write_text(json.dumps({"schema": ORDER, "cases": cases}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
