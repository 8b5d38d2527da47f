"""A .proto file as text, of what protoc has made of it: registries compare versions of a file by its text.

Services, custom options and comments are left out: no bytes of a message depend on them. Of a file with groups, extensions or an edition
there is no text here (None), and what protoc has made is registered as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_GROUP = 10
_NAMES = """double float int64 uint64 int32 fixed64 fixed32 bool string group message bytes
uint32 enum sfixed32 sfixed64 sint32 sint64"""
_SCALARS = dict(enumerate(_NAMES.split(), 1))
_LABELS = {1: "optional ", 2: "required ", 3: "repeated "}
#: options of a file that others may have generated code by
_FILE_OPTIONS = ("java_package", "java_outer_classname", "go_package", "csharp_namespace")


def proto_text(file: Any) -> str | None:
    """Return the text of a `FileDescriptorProto`; None if it has what is not written here.

    >>> from google.protobuf import empty_pb2
    >>> from google.protobuf.descriptor_pb2 import FileDescriptorProto
    >>> print(proto_text(FileDescriptorProto.FromString(empty_pb2.DESCRIPTOR.serialized_pb)))
    syntax = "proto3";
    package google.protobuf;
    option java_package = "com.google.protobuf";
    option java_outer_classname = "EmptyProto";
    option go_package = "google.golang.org/protobuf/types/known/emptypb";
    option csharp_namespace = "Google.Protobuf.WellKnownTypes";
    message Empty {
    }
    <BLANKLINE>
    """
    if file.syntax not in ("", "proto2", "proto3") or file.extension or any(map(_is_unwritten, file.message_type)):
        return None
    return "".join(f"{line}\n" for line in _file(file))


def _is_unwritten(message: Any) -> bool:
    groups = any(field.type == _GROUP for field in message.field)
    return groups or bool(message.extension) or any(map(_is_unwritten, message.nested_type))


def _file(file: Any) -> Iterator[str]:
    syntax = file.syntax or "proto2"
    yield f'syntax = "{syntax}";'
    if file.package:
        yield f"package {file.package};"
    for number, name in enumerate(file.dependency):
        yield f'import {"public " if number in file.public_dependency else ""}"{name}";'
    for name in _FILE_OPTIONS:
        if file.options.HasField(name):
            yield f"option {name} = {json.dumps(getattr(file.options, name))};"
    for message in file.message_type:
        yield from _message(message, syntax, "")
    for enum in file.enum_type:
        yield from _enum(enum, "")


def _message(message: Any, syntax: str, indent: str) -> Iterator[str]:
    yield f"{indent}message {message.name} {{"
    inner = indent + "  "
    maps = {one.name: one for one in message.nested_type if one.options.map_entry}
    plain = [field for field in message.field if field.proto3_optional or not field.HasField("oneof_index")]
    for field in plain:
        yield inner + _field(field, syntax, maps)
    for number, oneof in enumerate(message.oneof_decl):
        members = [f for f in message.field if f not in plain and f.oneof_index == number]
        if members:
            yield f"{inner}oneof {oneof.name} {{"
            yield from (f"{inner}  {_field(field, syntax, maps, label=False)}" for field in members)
            yield f"{inner}}}"
    for nested in message.nested_type:
        if nested.name not in maps:
            yield from _message(nested, syntax, inner)
    for enum in message.enum_type:
        yield from _enum(enum, inner)
    yield from (f"{inner}extensions {one.start} to {one.end - 1};" for one in message.extension_range)
    yield from (f"{inner}reserved {one.start} to {one.end - 1};" for one in message.reserved_range)
    yield from (f'{inner}reserved "{name}";' for name in message.reserved_name)
    yield f"{indent}}}"


def _field(field: Any, syntax: str, maps: dict[str, Any], *, label: bool = True) -> str:
    entry = maps.get(field.type_name.rpartition(".")[2]) if field.label == 3 else None
    if entry is not None:
        key, value = entry.field
        return f"map<{_type(key)}, {_type(value)}> {field.name} = {field.number}{_options(field)};"
    said = _LABELS[field.label] if label else ""
    if syntax == "proto3" and field.label == 1 and not field.proto3_optional:
        said = ""
    return f"{said}{_type(field)} {field.name} = {field.number}{_options(field)};"


def _type(field: Any) -> str:
    return field.type_name or _SCALARS[field.type]


def _options(field: Any) -> str:
    options = []
    if field.HasField("default_value"):
        quoted = _SCALARS[field.type] in ("string", "bytes")
        options.append(f"default = {json.dumps(field.default_value) if quoted else field.default_value}")
    if field.options.HasField("packed"):
        options.append(f"packed = {json.dumps(field.options.packed)}")
    if field.options.deprecated:
        options.append("deprecated = true")
    if field.json_name and field.json_name != _json_name(field.name):
        options.append(f"json_name = {json.dumps(field.json_name)}")
    return f" [{', '.join(options)}]" if options else ""


def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _enum(enum: Any, indent: str) -> Iterator[str]:
    yield f"{indent}enum {enum.name} {{"
    if enum.options.allow_alias:
        yield f"{indent}  option allow_alias = true;"
    yield from (f"{indent}  {value.name} = {value.number};" for value in enum.value)
    yield from (f"{indent}  reserved {one.start} to {one.end};" for one in enum.reserved_range)
    yield from (f'{indent}  reserved "{name}";' for name in enum.reserved_name)
    yield f"{indent}}}"
