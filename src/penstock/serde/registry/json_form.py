"""JSON with a schema in a registry: the value is checked by the reader's schema, the writer's only has to be there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.errors import DeserializationError
from penstock.serde.base import Serde
from penstock.serde.json_schema import json_schema_of_text, json_schema_of_type, schema_of_type
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


@dataclass(frozen=True, slots=True)
class JsonForm(TypedForm):
    """Values of a type, or of a JSON Schema."""

    kind: ClassVar[str] = "JSON"

    @property
    def name(self) -> str:
        """The serde's name."""
        shown = _title(self.text or "{}")
        if self.value_type is not None:
            shown = getattr(self.value_type, "__qualname__", str(self.value_type))
        return f"json_schema({shown or 'schema'})"

    def _text_of(self, type_: Any) -> str:
        return text_of_type(type_)

    def _name_in(self, text: str) -> str:
        return _title(text)

    def writer(self, branch: SchemaBranch, latest: SchemaText | None) -> WriteBody:
        """Return what writes values of a branch; it checks them by our schema, and by the newest one, if that is asked for."""
        write = _serde(branch).serialize
        if latest is None:
            return write
        check = json_schema_of_text(self_contained(latest)).deserialize

        def checked(value: Any) -> bytes:
            data = write(value)
            check(data)
            return data

        return checked

    def column_reader(self, written: SchemaText, branches: tuple[SchemaBranch, ...]) -> ReadColumn:
        """Values are read one by one."""
        raise NotImplementedError

    def column_writer(self, branch: SchemaBranch, frame: bytes) -> WriteColumn | None:
        """Values are written one by one."""
        return None

    def reader(self, written: SchemaText, branches: tuple[SchemaBranch, ...]) -> ReadBody:
        """Return what reads values."""
        found = branch_named(_title(written.text), branches)
        if found is None:
            titles = ", ".join(branch.name for branch in branches)
            raise DeserializationError(
                f"the value is a {_title(written.text) or 'schema without a title'}, but the serde reads {titles}"
            )
        read = _serde(found).deserialize
        return lambda data, at: read(data[at:])


def text_of_type(type_: Any) -> str:
    """Return the JSON Schema of a type as text; of a class with its name as the title, and with its fields on top.

    >>> text_of_type(list[int])
    '{"items":{"type":"integer"},"type":"array"}'
    """
    schema = schema_of_type(type_)
    top = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if top in schema.get("$defs", {}):
        others = {name: each for name, each in schema["$defs"].items() if name != top}
        schema = {**schema["$defs"][top], **({"$defs": others} if others else {})}
        if f'"#/$defs/{top}"' in json.dumps(schema):  # it is part of itself
            schema["$defs"] = {**others, top: {"$ref": "#"}}
    if "type" not in schema:  # what else says that it is a schema?
        schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, separators=(",", ":"), sort_keys=True)


def self_contained(schema: SchemaText) -> str:
    """Return a schema with those that it refers to among its definitions, each under its own ``$id``."""
    if not schema.known:
        return schema.text
    found = json.loads(schema.text)
    there = {name: {**json.loads(text), "$id": name} for name, text in schema.known}
    return json.dumps({**found, "$defs": {**found.get("$defs", {}), **there}})


def _serde(branch: SchemaBranch) -> Serde[Any]:
    if branch.value_type is not None:
        return json_schema_of_type(branch.value_type)
    return json_schema_of_text(self_contained(branch.schema))


def _title(text: str) -> str:
    schema = json.loads(text)
    return str(schema.get("title", "")) if isinstance(schema, dict) else ""
