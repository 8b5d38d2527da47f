"""Types and messages of the tests of schema registries, in several versions."""

from __future__ import annotations

from typing import Any

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


class Order(msgspec.Struct, frozen=True):
    user: str
    cents: int
    note: str | None = None


class Refund(msgspec.Struct, frozen=True):
    order: int
    why: str = ""


#: Order, as it was before: it had a coupon, and no note
OrderBefore = msgspec.defstruct("Order", [("user", str), ("cents", int), ("coupon", str, "")])
#: Order without what may be left out
OrderAlone = msgspec.defstruct("Order", [("user", str), ("cents", int)])
#: not compatible: cents are text
OrderOfTexts = msgspec.defstruct("Order", [("user", str), ("cents", str)])

STRING, INT64, MESSAGE = 9, 3, 11


def proto_file(
    name: str, messages: dict[str, dict[str, tuple[int, str]]], imports: tuple[str, ...] = (), package: str = "shop"
) -> descriptor_pb2.FileDescriptorProto:
    """Return a .proto file as protoc would have made it: message → field → (kind, type name)."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=imports)
    for message, fields in messages.items():
        made = file.message_type.add(name=message)
        for number, (field, (kind, type_name)) in enumerate(fields.items(), 1):
            made.field.add(name=field, number=number, type=kind, label=1, type_name=type_name or None)
    return file


def classes(*files: descriptor_pb2.FileDescriptorProto) -> dict[str, Any]:
    """Return the message classes of files, by their names; in a pool of their own, so that versions do not meet."""
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    return {
        message.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{message.name}"))
        for file in files
        for message in file.message_type
    }
