"""Which node, and which of the user's functions, an exception came from.

Two ways to find the failing node, so that the usual case costs nothing per record:

* policy ``fail``: nothing is wrapped. The task gives each node's closure a code object with the node's name; the innermost such
  frame of the traceback is the node that failed.
* any other policy: each node is wrapped in a guard, because the policy is asked at the innermost failing node and, if it says
  so, only that node's subtree is skipped (as in Kafka Streams).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

from penstock.errors import ProcessingError, StreamsError, describe_function
from penstock.operators.base import Forward
from penstock.record import Origin


def name_code(function: Forward, name: str) -> Forward:
    """Return the same closure with a code object that carries the node's name; tracebacks then read as the topology does."""
    if not isinstance(function, FunctionType):
        return function
    code = function.__code__.replace(co_name=name, co_qualname=name)
    named = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    named.__kwdefaults__ = function.__kwdefaults__
    return named


def failing_node(error: BaseException, nodes: Mapping[CodeType, str]) -> str | None:
    """Return the innermost node in the traceback of an error."""
    found = None
    frame = error.__traceback__
    while frame is not None:
        found = nodes.get(frame.tb_frame.f_code, found)
        frame = frame.tb_next
    return found


def failing_function(error: BaseException, functions: tuple[Callable[..., Any], ...]) -> str | None:
    """Return which of a node's user functions raised, with the line that did, else the first of them."""
    for function in functions:
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        for frame in traceback.walk_tb(error.__traceback__):
            if code is not None and frame[0].f_code is code:
                return f"{describe_function(function)}, raised at line {frame[1]}"
    return describe_function(functions[0]) if functions else None


def processing_error(
    error: Exception, node: str | None, origin: Origin, functions: tuple[Callable[..., Any], ...]
) -> StreamsError:
    """Wrap an exception of a node with all that a reader needs to find it."""
    if isinstance(error, StreamsError) and error.node is not None:
        return error
    wrapped = ProcessingError(
        f"{type(error).__name__}: {error}", node=node, origin=origin, function=failing_function(error, functions)
    )
    wrapped.__cause__ = error
    return wrapped
