"""Whether a value fits an Avro schema: asked before it is written, because fastavro shortens what does not.

(It writes 1.5 as the int 1, 1e300 as the float infinity, and a time without a zone as one of the machine's.)

Two answers. `checking_type`: a type by which msgspec checks a value in C; what it takes fits. `misfit`: a walk that knows all of Avro,
and says what does not fit and where; it is asked about what the first refuses.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import Meta, defstruct

from penstock.serde.avro_schema import parts

INT32, INT64 = 2**31, 2**63
FLOAT32 = 3.4028234663852886e38

_CHECKED: dict[str, Any] = {
    "null": None,
    "boolean": bool,
    "int": Annotated[int, Meta(ge=-INT32, le=INT32 - 1)],
    "long": Annotated[int, Meta(ge=-INT64, le=INT64 - 1)],
    "float": Annotated[float, Meta(ge=-FLOAT32, le=FLOAT32)],
    "double": float,
    "string": str,
    "bytes": bytes,
    "time-millis": dt.time,
    "time-micros": dt.time,
    "timestamp-millis": Annotated[dt.datetime, Meta(tz=True)],
    "timestamp-micros": Annotated[dt.datetime, Meta(tz=True)],
    "local-timestamp-millis": Annotated[dt.datetime, Meta(tz=False)],
    "local-timestamp-micros": Annotated[dt.datetime, Meta(tz=False)],
    "uuid": UUID,
}
#: what Python has for a logical type, beside the values of the type below it
_LOGICAL: dict[str, tuple[type, ...]] = {
    "date": (dt.date,),
    "time-millis": (dt.time,),
    "time-micros": (dt.time,),
    "timestamp-millis": (dt.datetime,),
    "timestamp-micros": (dt.datetime,),
    "local-timestamp-millis": (dt.datetime,),
    "local-timestamp-micros": (dt.datetime,),
    "uuid": (UUID,),
    "decimal": (Decimal,),
}


class Unchecked(Exception):
    """A schema for which msgspec has no type: `misfit` is asked about every value."""


def named_types(schema: Any) -> dict[str, Any]:
    """Return the records, enums and fixed types of a parsed schema by their full names."""
    types = (one for one in parts(schema) if isinstance(one, dict))
    return {one["name"]: one for one in types if one["type"] in ("record", "error", "enum", "fixed")}


def checking_type(schema: Any, named: Mapping[str, Any], within: tuple[str, ...] = ()) -> Any:
    """Return a type whose values fit a parsed schema; raise `Unchecked` if msgspec has none.

    >>> checking_type({"type": "array", "items": "string"}, {})
    list[str]
    """
    if isinstance(schema, str):
        return _CHECKED[schema] if schema in _CHECKED else checking_type(named[schema], named, within)
    if isinstance(schema, list):
        return _union(schema, named, within)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical in _CHECKED:
        return _CHECKED[logical]
    if logical is not None or not isinstance(kind, str):
        raise Unchecked
    if kind == "array":
        return list[checking_type(schema["items"], named, within)]  # type: ignore[misc]
    if kind == "map":
        return dict[str, checking_type(schema["values"], named, within)]  # type: ignore[misc]
    if kind == "enum":
        return Literal[tuple(schema["symbols"])]
    if kind == "fixed":
        return Annotated[bytes, Meta(min_length=schema["size"], max_length=schema["size"])]
    if kind == "record" and schema["name"] not in within:
        return _record(schema, named, (*within, schema["name"]))
    if kind in _CHECKED:
        return _CHECKED[kind]
    raise Unchecked  # a record inside itself


def _union(branches: list[Any], named: Mapping[str, Any], within: tuple[str, ...]) -> Any:
    known = [one for one in branches if one != "null"]
    if len(known) != 1:
        raise Unchecked
    found = checking_type(known[0], named, within)
    return found | None if "null" in branches else found


def _record(schema: Any, named: Mapping[str, Any], within: tuple[str, ...]) -> Any:
    """Return a Struct for a record: msgspec checks it three times as fast as a TypedDict. Its own field names cannot be keywords."""
    fields: list[Any] = []
    for at, field in enumerate(schema["fields"]):
        type_ = checking_type(field["type"], named, within)
        fields.append((f"field_{at}", type_, None) if "default" in field else (f"field_{at}", type_))
    names = {f"field_{at}": field["name"] for at, field in enumerate(schema["fields"])}
    return defstruct(schema["name"].rpartition(".")[2], fields, kw_only=True, rename=names, gc=False)


def misfit(value: Any, schema: Any, named: Mapping[str, Any], place: str = "value") -> str | None:
    """Explain what does not fit, where, and what the schema has there; None if all does.

    >>> misfit({"ids": [1, "two"]}, {"type": "map", "values": {"type": "array", "items": "long"}}, {})
    "value['ids'][1] is 'two' (str), the schema says long"
    """
    if isinstance(schema, str):
        return misfit(value, named[schema], named, place) if schema in named else _plain(value, schema, place)
    if isinstance(schema, list):
        return _misfit_union(value, schema, named, place)
    kind, logical = schema["type"], schema.get("logicalType")
    if isinstance(value, _LOGICAL.get(logical, ())):
        return _misfit_time(value, logical, place)
    if kind in ("record", "error"):
        return _misfit_record(value, schema, named, place)
    if kind == "map":
        fits = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
        parts = [(f"{place}[{key!r}]", inner, schema["values"]) for key, inner in value.items()] if fits else []
        return _first(parts, named) if fits else _wrong(value, "map (a dict with texts as keys)", place)
    if kind == "array":
        fits = isinstance(value, list | tuple)
        parts = [(f"{place}[{at}]", inner, schema["items"]) for at, inner in enumerate(value)] if fits else []
        return _first(parts, named) if fits else _wrong(value, "array (a list)", place)
    if kind == "enum":
        return None if value in schema["symbols"] else _wrong(value, f"one of {', '.join(schema['symbols'])}", place)
    if kind == "fixed":
        fits = isinstance(value, bytes) and len(value) == schema["size"]
        return None if fits else _wrong(value, f"fixed ({schema['size']} bytes)", place)
    return misfit(value, kind, named, place)


def _plain(value: Any, kind: str, place: str) -> str | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    number = whole or isinstance(value, float)
    fits = {
        "null": value is None,
        "boolean": isinstance(value, bool),
        "int": whole and -INT32 <= value < INT32,
        "long": whole and -INT64 <= value < INT64,
        "float": number and (abs(value) <= FLOAT32 or value != value or abs(value) == float("inf")),
        "double": number,
        "string": isinstance(value, str),
        "bytes": isinstance(value, bytes | bytearray),
    }
    return None if fits[kind] else _wrong(value, kind, place)


def _misfit_union(value: Any, branches: list[Any], named: Mapping[str, Any], place: str) -> str | None:
    found = [misfit(value, one, named, place) for one in branches]
    if None in found:
        return None
    known = [why for one, why in zip(branches, found, strict=True) if one != "null"]
    if len(known) == 1 and value is not None:
        return known[0]
    return _wrong(value, f"one of {', '.join(map(_name, branches))}", place)


def _misfit_record(value: Any, schema: Any, named: Mapping[str, Any], place: str) -> str | None:
    if not isinstance(value, Mapping):
        return _wrong(value, f"record {schema['name']} (a dict)", place)
    fields = {field["name"]: field for field in schema["fields"]}
    if unknown := [key for key in value if key not in fields]:
        return f"{place}[{unknown[0]!r}] is no field of the record {schema['name']}, which has {', '.join(fields)}"
    for name, field in fields.items():
        if name not in value and "default" not in field:
            return f"{place}[{name!r}] is missing, the schema says {_name(field['type'])} and has no default"
    return _first([(f"{place}[{k!r}]", inner, fields[k]["type"]) for k, inner in value.items()], named)


def _misfit_time(value: Any, logical: str, place: str) -> str | None:
    if logical == "date" and isinstance(value, dt.datetime):
        return _wrong(value, "date", place)
    if logical.startswith("timestamp-") and value.tzinfo is None:
        return f"{place} is {value!r} without a time zone, the schema says {logical}: give one (tzinfo=UTC)"
    return None


def _first(parts: list[tuple[str, Any, Any]], named: Mapping[str, Any]) -> str | None:
    return next((why for place, inner, schema in parts if (why := misfit(inner, schema, named, place))), None)


def _wrong(value: Any, expected: str, place: str) -> str:
    shown = repr(value)
    return f"{place} is {shown[:77] + '...' if len(shown) > 80 else shown} ({type(value).__name__}), the schema says {expected}"


def _name(schema: Any) -> str:
    if isinstance(schema, list):
        return " or ".join(map(_name, schema))
    return schema if isinstance(schema, str) else str(schema.get("name") or schema.get("logicalType") or schema["type"])
