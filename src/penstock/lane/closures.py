"""How the closures of nodes are put together: straight into an only child, through the user's wrapper, through a guard."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from penstock.errors import TopologyError, describe_function
from penstock.operators.base import Forward
from penstock.record import Headers, Record
from penstock.topology.functions import takes
from penstock.topology.node import Wrapper

#: decides about the failure of a node: (node, record, timestamp, headers, error)
OnFailure = Callable[[str, Record[Any, Any] | None, int, Headers, Exception], None]


def wrap(wrapper: Wrapper, node: str, process: Forward) -> Forward:
    """Return what the user's wrapper makes of a node, as a plain function."""
    wrapped = wrapper(node, process)
    if not callable(wrapped) or not takes(wrapped, 4):
        raise TopologyError(
            f"the wrapper must return a function of (key, value, timestamp, headers), but for node {node!r} it returned "
            f"{wrapped!r}: {describe_function(wrapper)}"
        )
    if isinstance(wrapped, FunctionType):
        return wrapped

    def call(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        wrapped(key, value, timestamp, headers)

    return call


def guard(on_failure: OnFailure, node: str, on_record: Forward) -> Forward:
    """Wrap a node so that its failure is decided about here, and only its subtree is skipped."""

    def guarded(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            on_record(key, value, timestamp, headers)
        except Exception as error:
            on_failure(node, Record(key, value, max(timestamp, 0), headers), timestamp, headers, error)

    return guarded
