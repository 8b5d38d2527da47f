"""`Serdes.avro`, `Serdes.protobuf`, `Serdes.json_schema`: with a schema registry, or without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.errors import TopologyError
from penstock.serde import avro as plain_avro
from penstock.serde import json_schema as plain_json_schema
from penstock.serde import protobuf as plain_protobuf
from penstock.serde.avro_schema import parsed_schema
from penstock.serde.avro_types import avro_schema_of
from penstock.serde.base import Serde
from penstock.serde.extras import need
from penstock.serde.registry.avro_form import AvroForm, self_contained
from penstock.serde.registry.forms import types_of
from penstock.serde.registry.json_form import JsonForm, text_of_type
from penstock.serde.registry.protobuf_form import ProtobufForm
from penstock.serde.registry.serde import RegistrySerde
from penstock.serde.registry.settings import registry_of
from penstock.serde.schema_text import SchemaLike, is_schema, schema_text

References = Mapping[str, SchemaLike]


def avro(
    schema: Any,
    registry: Any = None,
    *,
    references: References | None = None,
    value_type: Any = None,
    writer: SchemaLike | None = None,
    single_object: bool = False,
    older: Sequence[SchemaLike | type] = (),
) -> Serde[Any]:
    """Return the Avro serde of a schema, or of a dataclass, msgspec Struct, TypedDict or other type with one.

    ``schema`` is a dict, JSON text, the path of a file, or a type, of which the schema is made. Values are plain (a record is a dict), or
    objects of the type: of ``schema``, if it is one, else of ``value_type``. A value that does not fit is refused, with its field.

    ``registry``: a URL, a `SchemaRegistry`, or True for the application's (its setting ``registry``); bytes are Confluent's then: the
    schema's id in front. Values of every schema that the registry has are read as this one says. A union of classes (``Order | Refund``)
    with ``SchemaRegistry(subject="record")`` or ``"topic_record"``: each has its own schema. ``references``: the schemas that
    ``schema`` names without having them, by name; they are registered under it.

    Without a registry: ``writer``, the schema that the bytes were written with, if it is another; such a serde only reads.
    ``single_object``: the schema's fingerprint stands in front of every value (Avro's single-object encoding), and values of all
    ``older`` schemas are read as well: for stores and topics that outlive a schema.

    >>> import msgspec
    >>> class Order(msgspec.Struct):
    ...     id: int
    ...     note: str | None = None
    >>> orders = avro(Order)
    >>> orders.serialize(Order(7)), orders.deserialize(b"\\x0e\\x02\\x04hi"), orders
    (b'\\x0e\\x00', Order(id=7, note='hi'), Serdes.avro(Order))
    >>> registered = avro(Order, registry="mock://shop").bound_to("orders")
    >>> registered.serialize(Order(7))[5:], registered.deserialize(registered.serialize(Order(8))), registered
    (b'\\x0e\\x00', Order(id=8, note=None), Serdes.avro(Order, registry))
    """
    given = registry_of(registry)
    if given is None:
        _no_references(references, "avro")
        return plain_avro.avro(schema, value_type=value_type, writer=writer, single_object=single_object, older=older)
    need("fastavro", extra="avro", asked="Serdes.avro")
    if writer is not None or single_object or older:
        raise TopologyError(
            "Serdes.avro: writer=, single_object= and older= do not go with registry=: it knows the writer's schema"
        )
    if not is_schema(schema):
        if value_type is not None:
            raise TopologyError(f"Serdes.avro: value_type= goes with a schema; {schema!r} is a type already")
        schema, value_type = None if len(types_of(schema)) > 1 else avro_schema_of(schema), schema
    text, known = None if schema is None else schema_text(schema, asked="Serdes.avro"), _known(references, "avro")
    if text is not None:
        parsed_schema(self_contained(text, known))
    return RegistrySerde(AvroForm(text, value_type, known), given)


def protobuf(message: Any, registry: Any = None) -> Serde[Any]:
    """Return the serde of a message class that protoc has generated.

    Values are messages of exactly that class. Fields that the class does not know are kept and written again, so records of a newer schema
    pass through an older program. Map entries are written in the order of their keys: equal messages have equal bytes.
    The serde pickles as the class, so the generated module must be importable by the workers.

    ``registry``: as of `avro`. The schema is the message's file; files that it imports are registered under their names. A union
    of classes (``Order | Refund``) takes each of them.

    >>> from google.protobuf.wrappers_pb2 import StringValue
    >>> names = protobuf(StringValue)
    >>> names.serialize(StringValue(value="ann")), names.deserialize(b"\\n\\x03bob").value, names
    (b'\\n\\x03ann', 'bob', Serdes.protobuf(google.protobuf.StringValue))
    >>> protobuf(StringValue, registry="mock://shop").bound_to("names").serialize(StringValue(value="ann"))[5:]
    b'\\x02\\x0e\\n\\x03ann'
    """
    given = registry_of(registry)
    if given is None:
        return plain_protobuf.protobuf(message)
    messages = types_of(message)
    for one in messages:
        plain_protobuf.protobuf(one)  # raises for what is no message class
    return RegistrySerde(ProtobufForm(messages), given)


def json_schema(schema: Any, registry: Any = None, *, references: References | None = None) -> Serde[Any]:
    """Return the JSON serde of a type, or of a JSON Schema (a dict, JSON text, the path of a file), that checks what it reads and writes.

    Values are objects of the type; of a schema they are plain. Constraints of a type (`msgspec.Meta(ge=0)`) are part of its schema.
    The difference from `json_of`: that one does not check what it writes. ``registry``, ``references``: as of `avro`.

    >>> import msgspec
    >>> class Order(msgspec.Struct):
    ...     id: int
    >>> orders = json_schema(Order)
    >>> orders.serialize(Order(7)), orders.deserialize(b'{"id":8}'), orders
    (b'{"id":7}', Order(id=8), Serdes.json_schema(Order))
    >>> json_schema(Order, registry="mock://shop").bound_to("orders").serialize(Order(7))[5:]
    b'{"id":7}'
    """
    given = registry_of(registry)
    if given is None:
        _no_references(references, "json_schema")
        return plain_json_schema.json_schema(schema)
    known = _known(references, "json_schema")
    if is_schema(schema):
        return RegistrySerde(JsonForm(schema_text(schema, asked="Serdes.json_schema"), None, known), given)
    return RegistrySerde(JsonForm(None if len(types_of(schema)) > 1 else text_of_type(schema), schema, known), given)


def _known(references: References | None, asked: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, schema_text(text, asked=f"Serdes.{asked}")) for name, text in (references or {}).items())


def _no_references(references: References | None, asked: str) -> None:
    if references:
        raise TopologyError(
            f"Serdes.{asked}: references= goes with registry=: a registry keeps the schemas that others name"
        )
