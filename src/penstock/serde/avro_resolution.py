"""Whether values of one Avro schema can be read by another (its specification, "Schema Resolution").

Asked when a serde is made: a schema that cannot be read by any means is an error of the program, not of every record.
What depends on the value (which type of a union it has, which symbol of an enum) is left to the reading of the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.serde.avro_check import named_types

_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


def unresolved(writer: Any, reader: Any) -> str | None:
    """Explain what the reader's schema cannot take from the writer's; None if nothing speaks against it.

    >>> unresolved("int", "long"), unresolved("long", "string")
    (None, 'value was written as long and is read as string')
    """
    return _Resolution(named_types(writer), named_types(reader)).why(writer, reader, "value")


class _Resolution:
    """Two parsed schemas with their named types, and the pairs of records that were compared."""

    def __init__(self, writers: Mapping[str, Any], readers: Mapping[str, Any]) -> None:
        self._writers, self._readers = writers, readers
        self._seen: set[tuple[str, str]] = set()

    def why(self, writer: Any, reader: Any, place: str) -> str | None:
        writer = self._writers.get(writer, writer) if isinstance(writer, str) else writer
        reader = self._readers.get(reader, reader) if isinstance(reader, str) else reader
        if isinstance(writer, list):
            found = [self.why(one, reader, place) for one in writer]
            return None if None in found else found[0]
        if isinstance(reader, list):
            found = [self.why(writer, one, place) for one in reader]
            return (
                None if None in found else f"{place} was written as {_kind(writer)} and is read as a union without it"
            )
        wrote, reads = _kind(writer), _kind(reader)
        if wrote != reads:
            fits = reads in _PROMOTED.get(wrote, ())
            return None if fits else f"{place} was written as {wrote} and is read as {reads}"
        if wrote in ("record", "enum", "fixed") and not _same_name(writer, reader):
            return f"{place} was written as {wrote} {writer['name']} and is read as {reader['name']}: give them one name, or an alias"
        if wrote == "fixed" and writer["size"] != reader["size"]:
            return f"{place} was written with {writer['size']} bytes and is read with {reader['size']}"
        if wrote == "record":
            return self._record(writer, reader, place)
        if wrote == "array":
            return self.why(writer["items"], reader["items"], f"{place}[]")
        return self.why(writer["values"], reader["values"], f"{place}[]") if wrote == "map" else None

    def _record(self, writer: Any, reader: Any, place: str) -> str | None:
        pair = (writer["name"], reader["name"])
        if pair in self._seen:
            return None
        self._seen.add(pair)
        written = {field["name"]: field for field in writer["fields"]}
        for field in reader["fields"]:
            names = [name for name in (field["name"], *field.get("aliases", ())) if name in written]
            inner = f"{place}.{field['name']}"
            if not names and "default" not in field:
                return f"{inner} was not written and has no default: give the field one (name: type = ...)"
            if names and (why := self.why(written[names[0]]["type"], field["type"], inner)) is not None:
                return why
        return None


def _same_name(writer: Any, reader: Any) -> bool:
    """Whether the names are equal without their namespaces, or the reader's aliases have the writer's."""
    names = {name.rpartition(".")[2] for name in (reader["name"], *reader.get("aliases", ()))}
    return writer["name"].rpartition(".")[2] in names


def _kind(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    return _kind(schema["type"])
