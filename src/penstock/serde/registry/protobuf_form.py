"""Protobuf with a registry: the schema is the message's file, and its place in there stands behind the id."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from penstock.errors import DeserializationError
from penstock.serde.extras import need
from penstock.serde.protobuf import protobuf
from penstock.serde.registry.client import SchemaText
from penstock.serde.registry.forms import ReadBody, ReadColumn, SchemaBranch, WriteBody, WriteColumn
from penstock.serde.registry.framing import indexes_bytes, read_indexes
from penstock.serde.registry.proto_text import proto_text

#: files that every registry and every compiler has
_WELL_KNOWN = "google/protobuf/"
_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[\w.]+|[{};]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ProtobufForm:
    """Messages of some classes that protoc has generated."""

    kind: ClassVar[str] = "PROTOBUF"

    messages: tuple[Any, ...]

    @property
    def is_union(self) -> bool:
        """Whether messages are of several classes."""
        return len(self.messages) > 1

    @property
    def name(self) -> str:
        """The serde's name."""
        return f"protobuf({' | '.join(one.DESCRIPTOR.full_name for one in self.messages)})"

    def branches(self, *, split: bool) -> tuple[SchemaBranch, ...]:
        """Return the schemas that messages are written with: each has its own place."""
        return tuple(
            SchemaBranch(
                one.DESCRIPTOR.full_name, _schema(one.DESCRIPTOR.file), one, indexes_bytes(_place(one.DESCRIPTOR))
            )
            for one in self.messages
        )

    def writer(self, branch: SchemaBranch, latest: SchemaText | None) -> WriteBody:
        """Return what writes messages of a class."""
        return protobuf(branch.value_type).serialize

    def column_reader(self, written: SchemaText, branches: tuple[SchemaBranch, ...]) -> ReadColumn:
        """Values are read one by one."""
        raise NotImplementedError

    def column_writer(self, branch: SchemaBranch, frame: bytes) -> WriteColumn | None:
        """Values are written one by one."""
        return None

    def reader(self, written: SchemaText, branches: tuple[SchemaBranch, ...]) -> ReadBody:
        """Return what reads messages, by their places in the writer's file."""
        names = message_names(written.text)
        by_name = {branch.name: protobuf(branch.value_type).deserialize for branch in branches}
        by_short = {name.rpartition(".")[2]: read for name, read in by_name.items()}
        by_place = {
            place: read
            for place, name in names.items()
            if (read := by_name.get(name) or by_short.get(name.rpartition(".")[2]))
        }

        def read_message(data: bytes, at: int) -> Any:
            place, at = read_indexes(data, at)
            read = by_place.get(place)
            if read is None:
                told = (
                    f"a {names[place]}"
                    if place in names
                    else f"message {list(place)} of its schema, which has none there"
                )
                raise DeserializationError(f"the message is {told}, but the serde reads {', '.join(by_name)}")
            return read(data[at:])

        return read_message


def _place(descriptor: Any) -> list[int]:
    """Return where a message is in its file: its number among the messages around it, from the outermost in."""
    if descriptor.containing_type is None:
        return [list(descriptor.file.message_types_by_name).index(descriptor.name)]
    outer = descriptor.containing_type
    return [*_place(outer), [one.name for one in outer.nested_types].index(descriptor.name)]


def _schema(file: Any) -> SchemaText:
    known: dict[str, str] = {}
    _follow(file, known)
    return SchemaText("PROTOBUF", _text(file), tuple(known.items()))


def _follow(file: Any, known: dict[str, str]) -> None:
    for other in file.dependencies:
        if other.name not in known and not other.name.startswith(_WELL_KNOWN):
            _follow(other, known)
            known[other.name] = _text(other)


def _text(file: Any) -> str:
    """Return a file as a registry takes it: as text, or, where that cannot be, what protoc has made of it in base 64."""
    package = need("google.protobuf.descriptor_pb2", extra="protobuf", asked="Serdes.protobuf")
    made = package.FileDescriptorProto.FromString(file.serialized_pb)
    return proto_text(made) or b64encode(file.serialized_pb).decode()


@lru_cache(maxsize=256)
def message_names(text: str) -> dict[tuple[int, ...], str]:
    """Return the full names of the messages of a file by their places; the file as protoc has made it, in base 64, or as it was written.

    >>> message_names('syntax = "proto3"; package a; message B { message C {} oneof d { int32 e = 1; } } /* message F */ message G {}')
    {(0,): 'a.B', (0, 0): 'a.B.C', (1,): 'a.G'}
    """
    package = need("google.protobuf.descriptor_pb2", extra="protobuf", asked="Serdes.protobuf")
    try:
        file = package.FileDescriptorProto.FromString(b64decode(text, validate=True))
    except Exception:  # neither base 64 nor a file
        return dict(_written_names(text))
    return dict(_made_names(file.message_type, (), file.package))


def _made_names(messages: Any, place: tuple[int, ...], outer: str) -> Iterator[tuple[tuple[int, ...], str]]:
    for number, one in enumerate(messages):
        name = f"{outer}.{one.name}" if outer else one.name
        yield (*place, number), name
        yield from _made_names(one.nested_type, (*place, number), name)


def _written_names(text: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield the messages of a file as it was written: only where blocks begin and end matters."""
    tokens = [token for token in _TOKEN.findall(text) if not token.startswith(("//", "/*", '"', "'"))]
    package, before = "", ";"
    #: of each block that is open: its place and name if it is a message, and how many messages it has
    blocks: list[list[Any]] = [[(), "", 0]]
    opening: str | None = None
    for at, token in enumerate(tokens):
        if before in ("{", "}", ";") and token == "package":
            package = tokens[at + 1]
        if before in ("{", "}", ";") and token == "message" and blocks[-1][0] is not None:
            opening = tokens[at + 1]
        if token == "{":
            if opening is None:
                blocks.append([None, "", 0])
            else:
                outer = blocks[-1]
                name = ".".join(part for part in (outer[1] or package, opening) if part)
                place = (*outer[0], outer[2])
                outer[2] += 1
                yield place, name
                blocks.append([place, name, 0])
                opening = None
        elif token == "}" and len(blocks) > 1:
            blocks.pop()
        before = token
