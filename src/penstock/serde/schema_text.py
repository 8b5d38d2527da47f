"""A schema as it may be given: a dict or list, JSON text, or a file; as it is kept: JSON text, keys in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

from penstock.errors import TopologyError

#: what a schema may be given as; a text that is not JSON and has no suffix is the name of a type ("long")
SchemaLike: TypeAlias = dict[str, Any] | list[Any] | str | Path


def is_schema(given: Any) -> bool:
    """Whether what was given is a schema, not a type.

    >>> is_schema({"type": "string"}), is_schema("order.avsc"), is_schema(int), is_schema(list[int])
    (True, True, False, False)
    """
    return isinstance(given, dict | list | str | Path)


def schema_text(given: SchemaLike, *, asked: str) -> str:
    """Return a schema as JSON text, the same for every way in which it may be given.

    A file is read here, on the driver: workers need not have it.

    >>> schema_text({"type": "array", "items": "long"}, asked="Serdes.avro")
    '{"items":"long","type":"array"}'
    >>> schema_text('{"type": "array", "items": "long"}', asked="Serdes.avro")
    '{"items":"long","type":"array"}'
    >>> schema_text("long", asked="Serdes.avro")
    '"long"'
    >>> schema_text('{"type": ', asked="Serdes.avro")
    Traceback (most recent call last):
    penstock.errors.TopologyError: Serdes.avro: the schema is not JSON (Expecting value: line 1 column 10 (char 9))...
    """
    return json.dumps(_parsed(given, asked), separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _parsed(given: SchemaLike, asked: str) -> Any:
    if isinstance(given, Path):
        return _from_json(_contents(given, asked), f"{asked}: the schema in {given}")
    if not isinstance(given, str):
        return given
    if given.lstrip()[:1] in ("{", "[", '"'):
        return _from_json(given, f"{asked}: the schema")
    if "." in given or "/" in given:
        return _parsed(Path(given), asked)
    return given


def _contents(path: Path, asked: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TopologyError(
            f"{asked}: the schema file {path} cannot be read ({error.strerror}): give its path from {Path.cwd()}, "
            "an absolute path, or the schema itself as a dict or JSON text"
        ) from error


def _from_json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise TopologyError(f"{what} is not JSON ({error}): give a dict, JSON text, or the path of a file") from error
