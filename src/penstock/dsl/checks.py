"""What a handle checks of the functions that map and join."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import TopologyError, describe_function
from penstock.topology.functions import check_function, takes


def check_mapper(function: Any, verb: str, with_key: bool) -> Callable[..., Any]:
    """Return a function of the value, or of key and value."""
    if with_key:
        return check_function(function, verb, "key", "value")
    if callable(function) and not takes(function, 1) and takes(function, 2):
        raise TopologyError(
            f"{verb}() calls its function with (value), but {describe_function(function)} takes two arguments: "
            f"say with_key=True if it wants (key, value)"
        )
    return check_function(function, verb, "value")


def check_joiner(function: Any, verb: str, with_key: bool = False) -> Callable[..., Any]:
    """Return a function of both values, or of the key and both values."""
    if with_key:
        return check_function(function, verb, "key", "left", "right")
    return check_function(function, verb, "left", "right")
