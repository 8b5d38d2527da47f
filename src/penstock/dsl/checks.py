"""What a handle checks before it makes a node: functions and their arguments, joins and their options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from penstock.errors import TopologyError, describe_function


def check_function(function: Any, verb: str, *arguments: str) -> Callable[..., Any]:
    """Return a function that can be called with so many arguments, or say how it is called.

    >>> check_function(lambda value: value, "filter", "key", "value")
    Traceback (most recent call last):
    penstock.errors.TopologyError: filter() calls its function with (key, value), but <lambda> takes (value)...
    """
    if not callable(function):
        raise TopologyError(f"{verb}() needs a function of ({', '.join(arguments)}), but got {function!r}")
    callee: Callable[..., Any] = function
    try:
        signature = inspect.signature(callee)
    except ValueError:  # a built-in that does not say what it takes
        return callee
    try:
        signature.bind(*arguments)
    except TypeError:
        name = getattr(function, "__name__", None) or type(function).__name__
        wanted = f"{verb}() calls its function with ({', '.join(arguments)})"
        raise TopologyError(f"{wanted}, but {name} takes {signature}: {describe_function(function)}") from None
    return callee


def takes(function: Callable[..., Any], count: int) -> bool:
    """Tell if a function can be called with so many arguments; one that does not say can.

    >>> takes(lambda key, value: value, 1)
    False
    """
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


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
