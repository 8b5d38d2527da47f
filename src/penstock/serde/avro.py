"""Avro: values by a schema, bytes by fastavro; plain values (dicts, lists, texts, numbers) or objects of a type.

value → [to_builtins] → plain → [check] → fastavro → [frame] → bytes → [frame → writer's schema] → fastavro → plain → [convert] → value
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from io import BytesIO
from typing import Any
from uuid import UUID

import msgspec

from penstock.errors import DeserializationError, SerializationError, TopologyError
from penstock.serde.avro_check import Unchecked, checking_type, misfit, named_types
from penstock.serde.avro_resolution import unresolved
from penstock.serde.avro_schema import ASKED, name_of, parsed_schema, single_object_frame
from penstock.serde.avro_types import avro_schema_of
from penstock.serde.base import Serde
from penstock.serde.extras import need
from penstock.serde.framing import FRAME_SIZE, schema_in
from penstock.serde.schema_text import SchemaLike, is_schema, schema_text

#: objects that fastavro takes and gives as they are
_KEPT = (bytes, bytearray, dt.datetime, dt.date, dt.time, UUID, Decimal)


def avro(
    schema: Any,
    *,
    value_type: Any = None,
    writer: SchemaLike | None = None,
    single_object: bool = False,
    older: Sequence[SchemaLike | type] = (),
) -> Serde[Any]:
    """Return the Avro serde of a schema, or of a dataclass, msgspec Struct, TypedDict or other type with one.

    ``schema`` is a dict, JSON text, the path of a file, or a type, of which the schema is made. Values are plain (a record is a dict), or
    objects of the type: of ``schema``, if it is one, else of ``value_type``. A value that does not fit is refused, with its field.

    ``writer``: the schema that the bytes were written with, if it is another; they are read as ``schema`` says (fields without
    a value get their default). Such a serde only reads. ``single_object``: the schema's fingerprint stands in front of every
    value (Avro's single-object encoding), and values of all ``older`` schemas are read as well: for stores and topics that
    outlive a schema.

    >>> class Order(msgspec.Struct):
    ...     id: int
    ...     note: str | None = None
    >>> orders = avro(Order)
    >>> orders.serialize(Order(7)), orders.deserialize(b"\\x0e\\x02\\x04hi"), orders
    (b'\\x0e\\x00', Order(id=7, note='hi'), Serdes.avro(Order))
    >>> orders.serialize(Order("seven"))
    Traceback (most recent call last):
    penstock.errors.SerializationError: Serdes.avro(Order): value['id'] is 'seven' (str), the schema says long
    """
    need("fastavro", extra="avro", asked=ASKED)
    if older and not single_object:
        raise TopologyError(
            f"{ASKED}: older= needs single_object=True: bare Avro does not say which schema a value has"
        )
    if writer is not None and single_object:
        raise TopologyError(
            f"{ASKED}: writer= or single_object=True, not both: a single object names its writer's schema (older=)"
        )
    if not is_schema(schema):
        if value_type is not None:
            raise TopologyError(f"{ASKED}: value_type= goes with a schema; {schema!r} is a type already")
        value_type = schema
    written = None if writer is None else _text(writer)
    return avro_of_text(_text(schema), value_type, written, single_object, tuple(map(_text, older)))


def _text(schema: Any) -> str:
    return schema_text(schema if is_schema(schema) else avro_schema_of(schema), asked=ASKED)


@lru_cache(maxsize=256)
def avro_of_text(
    text: str, value_type: Any, writer: str | None, single_object: bool, older: tuple[str, ...]
) -> Serde[Any]:
    """Return the serde of schemas as text: how it travels to a worker, which makes it once."""
    parsed = parsed_schema(text)
    name = f"avro({name_of(parsed, value_type)}{', single_object=True' if single_object else ''})"
    read: Callable[[bytes], Any]
    if single_object:
        body, frame = _writing(parsed, name, value_type), single_object_frame(parsed)
        serialize = _framed(body, frame)
        read = _read_framed(
            {frame: parsed} | {single_object_frame(one): one for one in map(parsed_schema, older)}, parsed
        )
    elif writer is not None:
        serialize, read = _refusing(name), _reading(parsed_schema(writer), parsed)
    else:
        serialize, read = _writing(parsed, name, value_type), _reading(parsed, parsed)
    recipe = (avro_of_text, (text, value_type, writer, single_object, older))
    return Serde(serialize, _converted(read, value_type), name, _recipe=recipe)


def avro_reader(written: str, text: str, value_type: Any) -> Callable[[bytes, int], Any]:
    """Return what reads a value of one schema, at a place of some bytes, as another schema says."""
    return _converted(_reading(parsed_schema(written), parsed_schema(text)), value_type)


def avro_column_reader(
    written: str, text: str, value_type: Any
) -> Callable[[BytesIO, list[int], list[int]], list[Any]]:
    """Return what reads values that lie in one buffer, each from a place to another."""
    read = need("fastavro", extra="avro", asked=ASKED).schemaless_reader
    writer = parsed_schema(written)
    target, convert = _target(writer, parsed_schema(text)), msgspec.convert

    def read_all(source: BytesIO, begins: list[int], ends: list[int]) -> list[Any]:
        seek, tell = source.seek, source.tell
        found = []
        for begin, end in zip(begins, ends, strict=True):
            seek(begin)
            found.append(read(source, writer, target))
            if tell() != end:
                raise _left_over(end - tell())
        return found if value_type is None else convert(found, list[value_type], builtin_types=_KEPT)

    return read_all


def avro_column_writer(
    text: str, value_type: Any, frame: bytes
) -> Callable[[list[Any]], tuple[bytes, list[int]] | None] | None:
    """Return what writes values into one buffer, a frame in front of each; it gives None for what may not fit.

    None: the schema is one that msgspec cannot check values by.
    """
    write = need("fastavro", extra="avro", asked=ASKED).schemaless_writer
    parsed = parsed_schema(text)
    try:
        checked = list[checking_type(parsed, named_types(parsed))]  # type: ignore[misc, valid-type]
    except Unchecked:
        return None
    plain_of, convert = msgspec.to_builtins, msgspec.convert

    def write_all(values: list[Any]) -> tuple[bytes, list[int]] | None:
        if value_type is not None:
            values = plain_of(values, builtin_types=_KEPT)
        try:
            convert(values, checked, builtin_types=_KEPT)
        except msgspec.ValidationError:  # it may fit: one by one it is looked at
            return None
        out, ends = BytesIO(), [0]
        put, tell, ended = out.write, out.tell, ends.append
        for value in values:
            put(frame)
            write(out, parsed, value, strict_allow_default=True)
            ended(tell())
        return out.getvalue(), ends

    return write_all


def _writing(parsed: Any, name: str, value_type: Any) -> Callable[[Any], bytes]:
    write = need("fastavro", extra="avro", asked=ASKED).schemaless_writer
    named = named_types(parsed)
    try:
        checked = checking_type(parsed, named)
    except Unchecked:
        checked = None
    plain_of, convert = msgspec.to_builtins, msgspec.convert

    def refuse(value: Any, error: Exception | None) -> SerializationError:
        return SerializationError(f"Serdes.{name}: {misfit(value, parsed, named) or error}")

    def serialize(value: Any) -> bytes:
        if value_type is not None:
            value = plain_of(value, builtin_types=_KEPT)
        fits = False
        if checked is not None:
            try:
                convert(value, checked, builtin_types=_KEPT)
                fits = True
            except msgspec.ValidationError:  # what that type does not take may still fit
                pass
        if not fits and misfit(value, parsed, named) is not None:
            raise refuse(value, None)
        out = BytesIO()
        try:
            write(out, parsed, value, strict_allow_default=True)
        except Exception as error:
            raise refuse(value, error) from error
        return out.getvalue()

    return serialize


def _framed(body: Callable[[Any], bytes], frame: bytes) -> Callable[[Any], bytes]:
    return lambda value: frame + body(value)


def _refusing(name: str) -> Callable[[Any], bytes]:
    def serialize(value: Any) -> bytes:
        raise SerializationError(
            f"Serdes.{name} with writer= only reads: give the sink, store or repartition a serde without it, or use single_object=True"
        )

    return serialize


def _reading(writer: Any, reader: Any) -> Callable[..., Any]:
    """Return what reads a value of the writer's schema, which begins at a place of the bytes and ends with them."""
    read = need("fastavro", extra="avro", asked=ASKED).schemaless_reader
    target = _target(writer, reader)

    def plain(data: bytes, at: int = 0) -> Any:
        source = BytesIO(data)
        if at:
            source.seek(at)
        value = read(source, writer, target)
        if source.tell() != len(data):
            raise _left_over(len(data) - source.tell())
        return value

    return plain


def _read_framed(known: dict[bytes, Any], reader: Any) -> Callable[[bytes], Any]:
    readings = {frame: _reading(writer, reader) for frame, writer in known.items()}

    def deserialize(data: bytes, at: int = 0) -> Any:
        return schema_in(data, readings)(data, FRAME_SIZE)

    return deserialize


def _target(writer: Any, reader: Any) -> Any:
    """Return the schema to resolve to, None if none is needed; refuse one that no value could be resolved to."""
    if writer == reader:
        return None
    if (why := unresolved(writer, reader)) is not None:
        raise TopologyError(f"{ASKED}: values of the writer's schema cannot be read by the reader's: {why}")
    return reader


def _left_over(size: int) -> DeserializationError:
    return DeserializationError(
        f"{size} bytes are left over after the value: it was written with another schema (give that one as writer=), "
        "or a frame stands in front of it"
    )


def _converted(read: Callable[..., Any], value_type: Any) -> Callable[..., Any]:
    if value_type is None:
        return read
    convert = msgspec.convert
    return lambda data, at=0: convert(read(data, at), value_type, builtin_types=_KEPT)
