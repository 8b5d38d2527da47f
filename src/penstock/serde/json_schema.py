"""JSON with a schema, checked in both directions: of a type by msgspec in C, of a schema that is given by jsonschema-rs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from penstock.errors import DeserializationError, SerializationError, TopologyError
from penstock.serde import primitives
from penstock.serde.base import Serde
from penstock.serde.extras import need
from penstock.serde.schema_text import is_schema, schema_text
from penstock.serde.typed_json import json_of

_ASKED = "Serdes.json_schema"


def json_schema(schema: Any) -> Serde[Any]:
    """Return the JSON serde of a type, or of a JSON Schema (a dict, JSON text, the path of a file), that checks what it reads and writes.

    Values are objects of the type; of a schema they are plain. Constraints of a type (`msgspec.Meta(ge=0)`) are part of its schema.
    The difference from `json_of`: that one does not check what it writes.

    >>> class Order(msgspec.Struct):
    ...     id: int
    >>> orders = json_schema(Order)
    >>> orders.serialize(Order(7)), orders.deserialize(b'{"id":8}'), orders
    (b'{"id":7}', Order(id=8), Serdes.json_schema(Order))
    >>> orders.serialize(Order("seven"))
    Traceback (most recent call last):
    penstock.errors.SerializationError: Serdes.json_schema(Order): Expected `int`, got `str` - at `$.id`
    """
    if is_schema(schema):
        return json_schema_of_text(schema_text(schema, asked=_ASKED))
    return json_schema_of_type(schema)


def schema_of_type(type_: Any) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a type.

    >>> schema_of_type(list[int])
    {'type': 'array', 'items': {'type': 'integer'}}
    """
    try:
        return msgspec.json.schema(type_)
    except (TypeError, NameError) as error:
        raise TopologyError(
            f"{_ASKED}: {type_!r} has no JSON Schema ({error}): write another type, or give the schema yourself"
        ) from error


def json_schema_of_type(type_: Any) -> Serde[Any]:
    """Return the serde of a type."""
    schema_of_type(type_)
    name = f"json_schema({getattr(type_, '__qualname__', type_)})"
    inner = json_of(type_)
    encode, decode = inner.serialize, inner.deserialize

    def serialize(value: Any) -> bytes:
        data = encode(value)
        try:
            decode(data)
        except msgspec.ValidationError as error:
            raise SerializationError(f"Serdes.{name}: {error}") from error
        return data

    return Serde(serialize, decode, name, _recipe=(json_schema_of_type, (type_,)))


@lru_cache(maxsize=256)
def json_schema_of_text(text: str) -> Serde[Any]:
    """Return the serde of a JSON Schema as text: how it travels to a worker, which makes it once."""
    schema = json.loads(text)
    check = _validator(schema)
    title = schema.get("title", "schema") if isinstance(schema, dict) else "schema"
    name = f"json_schema({title})"
    encode, decode = primitives.json.serialize, primitives.json.deserialize

    def serialize(value: Any) -> bytes:
        data = encode(value)
        if (why := check(decode(data))) is not None:  # as a reader will see it: a dataclass is an object
            raise SerializationError(f"Serdes.{name}: {why}")
        return data

    def deserialize(data: bytes) -> Any:
        value = decode(data)
        if (why := check(value)) is not None:
            raise DeserializationError(f"Serdes.{name}: {why}")
        return value

    return Serde(serialize, deserialize, name, _recipe=(json_schema_of_text, (text,)))


def _validator(schema: Any) -> Callable[[Any], str | None]:
    """Return a function that says what is wrong with a plain value, and where; None if nothing is."""
    package = need("jsonschema_rs", extra="json-schema", asked=f"{_ASKED} of a schema (not of a type)")
    try:
        validator = package.validator_for(schema)
    except ValueError as error:
        raise TopologyError(f"{_ASKED}: not a JSON Schema: {error}") from error
    is_valid, errors = validator.is_valid, validator.iter_errors

    def why(value: Any) -> str | None:
        if is_valid(value):
            return None
        first = next(iter(errors(value)))
        place = "".join(f"[{step!r}]" for step in first.instance_path)
        return f"value{place}: {first.message}"

    return why
