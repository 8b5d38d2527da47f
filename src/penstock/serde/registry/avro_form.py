"""Avro with a registry: schemas that name others, and values of the writer's schema read by the reader's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.errors import DeserializationError
from penstock.serde.avro import avro_column_reader, avro_column_writer, avro_of_text, avro_reader
from penstock.serde.avro_schema import ASKED, name_of, parsed_schema
from penstock.serde.avro_types import avro_schema_of
from penstock.serde.registry.client import SchemaText
from penstock.serde.registry.forms import (
    ReadBody,
    ReadColumn,
    SchemaBranch,
    TypedForm,
    WriteBody,
    WriteColumn,
    branch_named,
)
from penstock.serde.schema_text import schema_text

_NAMED = ("record", "error", "enum", "fixed")


@dataclass(frozen=True, slots=True)
class AvroForm(TypedForm):
    """Values of an Avro schema."""

    kind: ClassVar[str] = "AVRO"

    @property
    def name(self) -> str:
        """The serde's name."""
        if self.text is None:
            return f"avro({name_of(None, self.value_type)})"
        return f"avro({name_of(parsed_schema(self_contained(self.text, self.known)), self.value_type)})"

    def _text_of(self, type_: Any) -> str:
        return schema_text(avro_schema_of(type_), asked=ASKED)

    def _name_in(self, text: str) -> str:
        return _record_name(text, self.known)

    def writer(self, branch: SchemaBranch, latest: SchemaText | None) -> WriteBody:
        """Return what writes values of a branch."""
        schema = latest or branch.schema
        return avro_of_text(self_contained(schema.text, schema.known), branch.value_type, None, False, ()).serialize

    def column_reader(self, written: SchemaText, branches: tuple[SchemaBranch, ...]) -> ReadColumn:
        """Return what reads columns of the writer's schema."""
        reader = branches[0].schema
        texts = self_contained(written.text, written.known), self_contained(reader.text, reader.known)
        return avro_column_reader(*texts, self.value_type)

    def column_writer(self, branch: SchemaBranch, frame: bytes) -> WriteColumn | None:
        """Return what writes columns, a frame in front of each value; None if they are written one by one."""
        return avro_column_writer(self_contained(branch.schema.text, branch.schema.known), self.value_type, frame)

    def reader(self, written: SchemaText, branches: tuple[SchemaBranch, ...]) -> ReadBody:
        """Return what reads values of the writer's schema as the reader's says."""
        text = self_contained(written.text, written.known)
        found = branch_named(_record_name(text, ()), branches)
        if found is None:
            raise DeserializationError(
                f"the record is a {_record_name(text, ())}, but the serde reads {', '.join(branch.name for branch in branches)}"
            )
        return avro_reader(text, self_contained(found.schema.text, found.schema.known), found.value_type)


@dataclass(frozen=True, slots=True)
class AvroAsWritten:
    """Values of whatever Avro schema they were written with, plain; they are only read."""

    kind: ClassVar[str] = "AVRO"

    def reader(self, written: SchemaText) -> ReadBody:
        """Return what reads values of the writer's schema."""
        text = self_contained(written.text, written.known)
        return avro_reader(text, text, None)


def self_contained(text: str, known: tuple[tuple[str, str], ...]) -> str:
    """Return a schema with those that it refers to inside, where each is named first.

    >>> home = '{"type":"record","name":"shop.Address","fields":[{"name":"street","type":"string"}]}'
    >>> found = self_contained('{"type":"record","name":"shop.Man","fields":[{"name":"home","type":"Address"}]}', (("shop.Address", home),))
    >>> json.loads(found)["fields"][0]["type"]["namespace"]
    'shop'
    """
    if not known:
        return text
    return json.dumps(_inside(json.loads(text), "", dict(known), set()))


def _inside(schema: Any, namespace: str, known: Mapping[str, str], done: set[str]) -> Any:
    if isinstance(schema, list):
        return [_inside(one, namespace, known, done) for one in schema]
    if isinstance(schema, str):
        return _named(schema, namespace, known, done)
    found = dict(schema)
    if found.get("type") in _NAMED:
        namespace = found.get("namespace", namespace)
        if "." in found["name"]:
            namespace = found["name"].rpartition(".")[0]
    if "fields" in found:
        found["fields"] = [{**one, "type": _inside(one["type"], namespace, known, done)} for one in found["fields"]]
    for part in ("items", "values"):
        if part in found:
            found[part] = _inside(found[part], namespace, known, done)
    if not isinstance(found["type"], str) or found["type"] not in (*_NAMED, "array", "map"):
        found["type"] = _inside(found["type"], namespace, known, done)
    return found


def _named(name: str, namespace: str, known: Mapping[str, str], done: set[str]) -> Any:
    full = next((one for one in (f"{namespace}.{name}", name) if one in known), None)
    if full is None:
        return name
    if full in done:
        return full
    done.add(full)
    outer, _, inner = full.rpartition(".")
    there = json.loads(known[full])
    return _inside({**there, "name": inner, "namespace": outer}, outer, known, done)


def _record_name(text: str, known: tuple[tuple[str, str], ...]) -> str:
    parsed = parsed_schema(self_contained(text, known))
    return str(parsed.get("name", "")) if isinstance(parsed, dict) else ""
