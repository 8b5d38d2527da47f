"""Values of whatever schema they were written with, as plain data: for the command line, which has no types."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.errors import ConfigError
from penstock.serde.base import Serde
from penstock.serde.registry.avro_form import AvroAsWritten
from penstock.serde.registry.avro_form import self_contained as avro_text
from penstock.serde.registry.catalog import catalog_of
from penstock.serde.registry.client import SchemaText
from penstock.serde.registry.framing import read_indexes, schema_named
from penstock.serde.registry.json_form import self_contained as json_text
from penstock.serde.registry.protobuf_form import message_names
from penstock.serde.registry.settings import SchemaRegistry
from penstock.serde.with_schemas import avro, json_schema


def reader_as_written(registry: SchemaRegistry) -> Callable[[bytes], Any]:
    """Return what reads values as what JSON has; of a Protobuf message its name, and its bytes in base 64."""
    catalog, readers = catalog_of(registry), dict[int | str, Callable[[bytes, int], Any]]()

    def read(data: bytes) -> Any:
        named, at = schema_named(data)
        if named not in readers:
            readers[named] = _reader(catalog.schema(named))
        return msgspec.to_builtins(readers[named](data, at))

    return read


def _reader(written: SchemaText) -> Callable[[bytes, int], Any]:
    if written.kind == "AVRO":
        return AvroAsWritten().reader(written)
    if written.kind == "JSON":
        return lambda data, at: json.loads(data[at:])
    names = message_names(written.text)

    def read_message(data: bytes, at: int) -> Any:
        place, at = read_indexes(data, at)
        return {"message": names.get(place), "bytes": b64encode(data[at:]).decode()}

    return read_message


def serde_as_registered(registry: SchemaRegistry, topic: str, part: str) -> Serde[Any]:
    """Return the serde of plain values of the newest schema of a topic's keys or values."""
    _, newest = catalog_of(registry).latest(f"{topic}-{part}")
    given = SchemaRegistry(**{**registry.options(), "use_latest": True, "subject": "topic"})
    if newest.kind == "AVRO":
        made = avro(avro_text(newest.text, newest.known), registry=given)
    elif newest.kind == "JSON":
        made = json_schema(json_text(newest), registry=given)
    else:
        raise ConfigError(
            f"the schema of {topic}-{part} is {newest.kind}: such values are written by a program that has the message class"
        )
    return made.bound_to(topic, key=part == "key")  # type: ignore[attr-defined,no-any-return]
