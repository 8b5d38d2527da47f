"""An Avro schema as fastavro reads it, and what can be said of one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from penstock.errors import TopologyError
from penstock.serde.extras import need
from penstock.serde.framing import frame_of

ASKED = "Serdes.avro"


@lru_cache(maxsize=256)
def parsed_schema(text: str) -> Any:
    """Return a schema as fastavro reads it: names made full, and known to be right."""
    fastavro = need("fastavro", extra="avro", asked=ASKED)
    try:
        parsed = fastavro.parse_schema(json.loads(text))
    except Exception as error:
        raise TopologyError(f"{ASKED}: not an Avro schema: {error} in {text[:300]}") from error
    _make_bytes_of_defaults(parsed)
    return parsed


def _make_bytes_of_defaults(parsed: Any) -> None:
    """Put bytes in the place of the texts by which JSON writes the defaults of bytes; fastavro takes defaults as they stand."""
    for one in parts(parsed):
        for field in one.get("fields", ()) if isinstance(one, dict) else ():
            if isinstance(field.get("default"), str) and _is_bytes(field["type"]):
                field["default"] = field["default"].encode("latin-1")


def parts(schema: Any) -> Iterator[Any]:
    """Yield all unions (lists) and types that are more than a name (dicts) within a schema, with itself.

    >>> list(parts({"type": "array", "items": ["null", {"type": "map", "values": "long"}]}))[1:]
    [['null', {'type': 'map', 'values': 'long'}], {'type': 'map', 'values': 'long'}]
    """
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            yield one
            waiting += one
        elif isinstance(one, dict):
            yield one
            waiting += [field["type"] for field in one.get("fields", ())]
            waiting += [one[inner] for inner in ("type", "items", "values") if inner in one]
            waiting += one.get("__named_schemas", {}).values()


def _is_bytes(schema: Any) -> bool:
    if isinstance(schema, list):
        return _is_bytes(schema[0])
    return schema == "bytes" or (isinstance(schema, dict) and schema["type"] in ("bytes", "fixed"))


def has_one_form(text: str) -> bool:
    """Whether a value of a schema is written in one way only: there are no unions of several types, and no logical types.

    >>> has_one_form('{"type":"array","items":["null","long"]}'), has_one_form('["long","string"]')
    (True, False)
    """
    return not any(
        sum(branch != "null" for branch in one) > 1 if isinstance(one, list) else "logicalType" in one
        for one in parts(json.loads(text))
    )


def name_of(parsed: Any, value_type: Any) -> str:
    """Return what the serde of a schema, or of a type, is called."""
    if value_type is not None:
        return getattr(value_type, "__qualname__", None) or str(value_type)
    return str(parsed.get("name", parsed["type"])) if isinstance(parsed, dict) else str(parsed)


def single_object_frame(parsed: Any) -> bytes:
    """Return what stands in front of values of a schema in Avro's single-object encoding."""
    schema = need("fastavro.schema", extra="avro", asked=ASKED)
    return frame_of(schema.fingerprint(schema.to_parsing_canonical_form(parsed), "CRC-64-AVRO"))
