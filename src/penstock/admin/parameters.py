"""Parameters of a request: read, checked, and refused with what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson
from starlette.requests import Request

from penstock.admin.answers import HttpError
from penstock.errors import nearest
from penstock.query.barriers import Position

#: milliseconds that a request may wait for a barrier
LONGEST_WAIT_MS = 30_000


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an endpoint, for the check of its name and for ``/openapi.json``."""

    name: str
    kind: str
    meaning: str


POSITION = (
    Parameter("position", "string", 'Offsets that the answer must have: JSON, {"topic": {"0": 41}}.'),
    Parameter("min_epoch", "integer", "The least epoch that the answer may be of."),
    Parameter("wait_ms", "integer", f"Milliseconds to wait for such a barrier, {LONGEST_WAIT_MS} at most. Default: 0."),
)


def check_names(request: Request, known: Iterable[Parameter]) -> None:
    """Refuse a parameter that the endpoint does not have."""
    names = [parameter.name for parameter in known]
    for name in request.query_params:
        if name not in names:
            has = f"it has {', '.join(names)}" if names else "it has none"
            raise HttpError(400, f"there is no parameter {name!r} here{nearest(name, names)}", has)


def choice(request: Request, name: str, choices: Sequence[str]) -> str:
    """Return one of some words; the first is the default."""
    value = request.query_params.get(name, choices[0])
    if value not in choices:
        raise HttpError(400, f"{name}={value!r}{nearest(value, choices)}", f"use one of {', '.join(choices)}")
    return value


def number(request: Request, name: str, *, least: int, most: int, default: int) -> int:
    """Return a whole number."""
    found = optional_number(request, name, least=least, most=most)
    return default if found is None else found


def optional_number(request: Request, name: str, *, least: int = 0, most: int = (1 << 63) - 1) -> int | None:
    """Return a whole number; None if it is not given."""
    value = request.query_params.get(name)
    if value is None or value == "":
        return None
    try:
        found = int(value) if len(value) <= 20 else most + 1
    except ValueError:
        raise HttpError(400, f"{name}={value[:100]!r} is no whole number", f"give one from {least} to {most}") from None
    if not least <= found <= most:
        raise HttpError(400, f"{name}={value[:100]} is not from {least} to {most}", "give one in these limits")
    return found


def flag(request: Request, name: str) -> bool:
    """Return whether something is asked for."""
    return choice(request, name, ("0", "1", "false", "true")) in ("1", "true")


def position(request: Request) -> Position | None:
    """Return the position that an answer must have, if one is asked for."""
    text = request.query_params.get("position")
    if not text:
        return None
    try:
        found = orjson.loads(text)
        return {
            (topic, int(partition)): _offset(offset)
            for topic, partitions in found.items()
            for partition, offset in partitions.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise HttpError(
            400,
            "position= is no position",
            'write JSON: {"topic": {"0": 41}}, the last offset that the answer must have',
        ) from None


def _offset(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(value)
    return value
