"""Make tests/golden/registry.json: what Apicurio's Java serializer, told to be as Confluent's, writes with a real registry.

Avro only: their Protobuf serializer has a format of its own behind the id, which Confluent's cannot read.

    .venv/bin/python tests/golden/make_registry_golden.py

Needs Java and a Maven repository; the tests only read the file. The serializer is that of 2.6.5: the POMs of later ones name parts that
are not published. Their dependencies are in the archive of the registry.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jpype

from penstock.dev.archive import unpacked
from penstock.dev.jars import resolve, run_ivy
from penstock.dev.registry import ARCHIVE, PATH, RegistryServer
from penstock.dev.server import COORDINATES

VERSION = "2.6.5.Final"
NAMES = "serdes-avro-serde client common serde-common schema-resolver schema-util-common"
SETTINGS = (
    '<ivysettings><settings defaultResolver="public"/>'
    '<resolvers><ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers></ivysettings>'
)
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


def fetched(folder: Path) -> list[str]:
    """Bring the serializers, each without what its POM names."""
    jars = [(f"apicurio-registry-{name}", VERSION) for name in NAMES.split()] + [
        ("apicurio-common-rest-client-jdk", "0.1.18.Final")
    ]
    dependencies = "".join(
        f'<dependency org="io.apicurio" name="{name}" rev="{version}" conf="default->*" transitive="false"/>'
        for name, version in jars
    )
    (folder / "settings.xml").write_text(SETTINGS)
    (folder / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="penstock" module="golden"/><configurations><conf name="default"/>'
        f"</configurations><dependencies>{dependencies}</dependencies></ivy-module>"
    )
    run_ivy(folder / "jars", print, str(folder / "settings.xml"))
    return [str(jar) for jar in (folder / "jars").glob("*.jar")]


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
    with tempfile.TemporaryDirectory() as folder, RegistryServer() as registry:
        library = [str(jar) for jar in (unpacked(ARCHIVE) / "lib").glob("*.jar")]
        jars = [*fetched(Path(folder)), *library, *map(str, resolve(COORDINATES))]
        jpype.startJVM(classpath=jars, convertStrings=True)
        cases = list(written(registry.url))
    OUT.write_text(json.dumps({"schema": ORDER, "cases": cases}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
