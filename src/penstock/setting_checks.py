"""What a value of a setting may be: checked and brought to its type, from text too, and the same as JSON Schema."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import nearest

#: answers of the policies of errors
POLICIES = ("fail", "skip", "dead_letter")
#: what else a function may answer about a row that was not sent: run the epoch again
RETRY = "retry"
#: answers of ``on_uncaught_error``
UNCAUGHT = ("shutdown", "restart")
#: serdes that a setting can name: those of ``Serdes`` that are made without anything
SERDES = (
    "string", "json", "int32", "int64", "float32", "float64", "boolean", "uuid", "bytes", "pickle", "void"
)  # fmt: skip
#: timestamp extractors that a setting can name (``extractors.py``)
EXTRACTORS = ("fail_on_invalid", "skip_on_invalid", "partition_time_on_invalid", "wall_clock")
#: where stores keep their rows
PERSISTENT, IN_MEMORY = "persistent", "in_memory"
#: what is found in a module: ``shop.serdes:order``
_PLACE = r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"
#: names of optimisations of a topology (``dsl/optimize.py``)
OPTIMISATIONS = ("merge_repartition_topics", "reuse_ktable_source_topics", "single_store_self_join")


@dataclass(frozen=True, slots=True)
class Check:
    """Checks a value and brings it to its type. ``schema``: what it takes, but the text of the environment, as JSON Schema."""

    parse: Callable[[Any], Any]
    schema: Mapping[str, Any]

    def __call__(self, value: Any) -> Any:
        """Return the value; raise ``ValueError`` if it cannot be."""
        return self.parse(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a non-empty string")
    return value


text = Check(_text, {"type": "string", "minLength": 1})


def at_least(least: int) -> Check:
    """Take whole numbers from ``least`` on."""

    def parse(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise ValueError("must be a whole number")
        number = int(value)
        if number < least:
            raise ValueError(f"must be at least {least}")
        return number

    return Check(parse, {"type": "integer", "minimum": least})


def optional(check: Check) -> Check:
    """Take nothing, too."""
    schema = {"anyOf": [check.schema, {"type": "null"}]}
    return Check(lambda value: None if value is None or value == "" else check.parse(value), schema)


def one_of(*choices: str) -> Check:
    """Take one of some words."""

    def parse(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}{nearest(str(value), choices)}")
        return str(value)

    return Check(parse, {"enum": list(choices)})


def _flag(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


flag = Check(_flag, {"type": "boolean"})


def policy(*choices: str) -> Check:
    """Take one of some words, or a function, which no JSON can hold."""
    words = one_of(*choices)
    return Check(lambda value: value if callable(value) else words.parse(value), words.schema)


def named(what: str, choices: tuple[str, ...], *is_one: str) -> Check:
    """Take the name of a built-in one, the place of one in a module, or what has these methods; looked up later."""

    def parse(value: Any) -> Any:
        if not isinstance(value, str):
            if not all(callable(getattr(value, method, None)) for method in is_one) or isinstance(value, type):
                raise ValueError(f"must be {what}, or the name of one: {', '.join(choices)}, or module:name")
            return value
        name = value.removeprefix("Serdes.").removeprefix("TimestampExtractor.")
        if name not in choices and not re.fullmatch(_PLACE, value):
            raise ValueError(f"must be one of {', '.join(choices)}, or module:name{nearest(name, choices)}")
        return name

    return Check(parse, {"anyOf": [{"enum": list(choices)}, {"type": "string", "pattern": f"^{_PLACE}$"}]})


serde = named("a serde", SERDES, "serialize", "deserialize")
extractor = named("a function of (record) or (record, partition_time)", EXTRACTORS, "__call__")


def _optimize(value: Any) -> tuple[str, ...]:
    given = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise ValueError("must be 'none', 'all', or names of optimisations")
    choices = ("none", "all", *OPTIMISATIONS)
    for name in given:
        if name not in choices:
            raise ValueError(f"there is no {name!r}{nearest(str(name), choices)}: use some of {', '.join(choices)}")
    return tuple(name for name in given if name != "none")


optimisations = Check(
    _optimize,
    {"anyOf": [{"enum": ["none", "all", *OPTIMISATIONS]}, {"type": "array", "items": {"enum": list(OPTIMISATIONS)}}]},
)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping of client settings: kafka={...}, or a table [tool.penstock.kafka]")
    return dict(value)


mapping = Check(_mapping, {"type": "object"})


def _registry(value: Any) -> str | dict[str, Any]:
    if hasattr(value, "options"):  # a SchemaRegistry
        return dict(value.options())
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = json.loads(value)
    if isinstance(value, Mapping):
        return dict(value)
    if not isinstance(value, str) or not value.startswith(("http://", "https://", "mock://")):
        raise ValueError("must be a URL, SchemaRegistry(url=...), or a mapping of its options")
    return value


registry = Check(_registry, {"anyOf": [{"type": "string", "pattern": "^(https?|mock)://"}, {"type": "object"}]})


def split_address(address: str) -> tuple[str, int]:
    """Return host and port of an address; a port alone is one of this machine, which no other can reach.

    >>> split_address("8080"), split_address("0.0.0.0:80"), split_address("[::1]:0")
    (('127.0.0.1', 8080), ('0.0.0.0', 80), ('::1', 0))
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65_535 or (":" in host and "[" not in address):
        raise ValueError("must be host:port, or a port alone for 127.0.0.1; port 0 chooses a free one")
    return host, int(port)


def _address(value: Any) -> str:
    host, port = split_address(str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(value))
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


address = Check(
    _address,
    {
        "anyOf": [
            {"type": "string", "pattern": "^([^:]*:)?[0-9]{1,4}$"},
            {"type": "integer", "minimum": 0, "maximum": 65535},
        ]
    },
)


def _user_config(value: Any) -> dict[str, Any]:
    given = json.loads(value) if isinstance(value, str) else value
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise ValueError("must be a mapping of names to values")
    for name, part in given.items():
        try:
            pickle.dumps(part)
        except Exception as error:
            raise ValueError(
                f"{name!r} cannot travel to the workers ({type(error).__name__}: {error}): give what can be pickled, and make connections "
                "and the like of it with context.resource(name, make)"
            ) from error
    return dict(given)


user_config = Check(_user_config, {"type": "object"})
