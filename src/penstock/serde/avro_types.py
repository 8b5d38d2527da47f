"""The Avro schema of a Python type.

======================================  =============================================================
Python                                  Avro
======================================  =============================================================
None, bool, int, float, str, bytes      null, boolean, long, double, string, bytes
datetime; Meta(tz=False)                timestamp-micros; local-timestamp-micros
date, time, UUID                        date, time-micros, uuid
list, set, frozenset, tuple[T, ...]     array
dict[str, T]                            map
A | B                                   union; of a field whose default is None with null first
Enum of texts that are Avro names       enum; other texts: string, numbers: long
dataclass, msgspec Struct, TypedDict    record, named as the class; a field's default is Avro's default
======================================  =============================================================
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import inspect as types

from penstock.errors import TopologyError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: dict[type[types.Type], Any] = {
    types.NoneType: "null",
    types.BoolType: "boolean",
    types.IntType: "long",
    types.FloatType: "double",
    types.StrType: "string",
    types.BytesType: "bytes",
    types.ByteArrayType: "bytes",
    types.DateType: {"type": "int", "logicalType": "date"},
    types.TimeType: {"type": "long", "logicalType": "time-micros"},
    types.UUIDType: {"type": "string", "logicalType": "uuid"},
}
_ARRAYS = (types.ListType, types.SetType, types.FrozenSetType, types.VarTupleType)
_RECORDS = (types.StructType, types.DataclassType, types.TypedDictType)
_EMPTY: tuple[Any, ...] = (list, dict, set, frozenset, tuple)


def avro_schema_of(type_: Any) -> Any:
    """Return the Avro schema of a type, as what JSON has.

    >>> class Order(msgspec.Struct):
    ...     id: int
    ...     note: str | None = None
    >>> avro_schema_of(Order)["fields"]
    [{'name': 'id', 'type': 'long'}, {'name': 'note', 'type': ['null', 'string'], 'default': None}]
    >>> avro_schema_of(dict[int, str])
    Traceback (most recent call last):
    penstock.errors.TopologyError: Serdes.avro: value is a dict whose keys are not texts, for which Avro has no type: ...
    """
    try:
        info = types.type_info(type_)
    except (TypeError, NameError) as error:
        raise TopologyError(f"Serdes.avro: {type_!r} is not a type that has a schema ({error})") from error
    return _Schemas().of(info, "value")


class _Schemas:
    """The named types met so far: Avro defines each once, and refers to it by name after that."""

    def __init__(self) -> None:
        self._named: dict[str, type] = {}

    def of(self, info: types.Type, place: str) -> Any:
        """Return the schema of a type; ``place``: where it was found, for errors."""
        if isinstance(info, types.Metadata):
            return self.of(info.type, place)
        if (plain := _PLAIN.get(type(info))) is not None:
            return plain
        if isinstance(info, types.DateTimeType):
            return {"type": "long", "logicalType": "local-timestamp-micros" if info.tz is False else "timestamp-micros"}
        if isinstance(info, _ARRAYS):
            return {"type": "array", "items": self.of(info.item_type, f"{place}[]")}
        if isinstance(info, types.DictType):
            return self._map(info, place)
        if isinstance(info, types.UnionType):
            return self._union(info, place)
        if isinstance(info, types.EnumType):
            return self._enum(info, place)
        if isinstance(info, types.LiteralType):
            return _kind_of(info.values, f"{place} is a Literal")
        if isinstance(info, _RECORDS):
            return self._record(info, place)
        raise _refused(f"{place} is {_said(info)}")

    def _map(self, info: types.DictType, place: str) -> Any:
        if not isinstance(info.key_type, types.StrType):
            raise _refused(f"{place} is a dict whose keys are not texts")
        return {"type": "map", "values": self.of(info.value_type, f"{place}[]")}

    def _union(self, info: types.UnionType, place: str) -> Any:
        found = [self.of(one, place) for one in info.types]
        return sorted(found, key=lambda one: one != "null")

    def _enum(self, info: types.EnumType, place: str) -> Any:
        values = [one.value for one in info.cls]
        if not all(isinstance(value, str) and _NAME.fullmatch(value) for value in values):
            return _kind_of(values, f"{place} is an Enum")
        known = self._known(info.cls, place)
        return known or {"type": "enum", "name": info.cls.__name__, "symbols": values}

    def _record(self, info: Any, place: str) -> Any:
        cls = info.cls
        if getattr(info, "array_like", False):
            raise _refused(f"{place} is {cls.__name__}, a Struct with array_like=True")
        if (known := self._known(cls, place)) is not None:
            return known
        fields = [self._field(field, f"{place}.{field.name}") for field in info.fields]
        if getattr(info, "tag", None) is not None:
            fields.insert(0, _tag(info, place))
        return {"type": "record", "name": cls.__name__, "fields": fields}

    def _known(self, cls: type, place: str) -> str | None:
        """Return the name of a class that was met before; else note it."""
        name = cls.__name__
        if name not in self._named:
            self._named[name] = cls
            return None
        if self._named[name] is not cls:
            raise TopologyError(
                f"Serdes.avro: {place} is a second class with the name {name}, and Avro knows types by their names: "
                "rename one of them"
            )
        return name

    def _field(self, field: types.Field, place: str) -> dict[str, Any]:
        if not _NAME.fullmatch(field.encode_name):
            raise _refused(f"{place} is written as {field.encode_name!r}, which is no Avro name")
        schema = self.of(field.type, place)
        found = {"name": field.encode_name, "type": schema}
        default = _default(field)
        if default is msgspec.NODEFAULT:
            if not field.required and field.default is field.default_factory:
                raise _refused(f"{place} may be missing (NotRequired)")
            return found
        if isinstance(schema, list) and schema[0] == "null" and default is not None:
            found["type"] = [*schema[1:], "null"]  # Avro: the default is one of the first type
        return {**found, "default": default}


def _default(field: types.Field) -> Any:
    """Return a field's default as Avro writes it; NODEFAULT if there is none, or none that is the same every time."""
    if field.default is not msgspec.NODEFAULT:
        plain = msgspec.to_builtins(field.default)
        return plain if _is_plain(field.default) else msgspec.NODEFAULT
    return msgspec.to_builtins(field.default_factory()) if field.default_factory in _EMPTY else msgspec.NODEFAULT


def _is_plain(value: Any) -> bool:
    """Whether JSON has the value, so that Avro's default is the value itself."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return value is None or isinstance(value, bool | int | float | str)


def _tag(info: types.StructType, place: str) -> dict[str, Any]:
    """Return the field that tells the Structs of a union from each other: an enum with one symbol."""
    if not isinstance(info.tag, str) or not _NAME.fullmatch(info.tag):
        raise _refused(f"{place} has the tag {info.tag!r}, which is no Avro name")
    name = f"{info.cls.__name__}_{info.tag_field}"
    return {"name": info.tag_field, "type": {"type": "enum", "name": name, "symbols": [info.tag]}}


def _kind_of(values: Any, what: str) -> str:
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return "string"
    if kinds == {int}:
        return "long"
    raise _refused(f"{what} of other values than texts alone or whole numbers alone")


def _said(info: types.Type) -> str:
    if isinstance(info, types.DecimalType):
        return "a Decimal without precision and scale"
    return type(info).__name__.removesuffix("Type")


def _refused(what: str) -> TopologyError:
    return TopologyError(
        f"Serdes.avro: {what}, for which Avro has no type: write another type, or give the schema yourself, "
        "Serdes.avro(schema, value_type=T)"
    )
