"""Suppliers: what ``process()`` and its relatives take, checked while the program is built."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from penstock.errors import TopologyError, describe_function


def check_processor_supplier(supplier: Any) -> None:
    """Refuse what does not make a new object with a ``process`` method each time."""
    _check(supplier, "process", "a Processor class, or a callable without arguments that makes a Processor")


def check_transformer_supplier(supplier: Any) -> None:
    """Refuse what does not make a new object with a ``transform`` method each time."""
    _check(supplier, "transform", "a class with transform(key, value), or a callable without arguments that makes one")


def _check(supplier: Any, method: str, wanted: str) -> None:
    if not callable(supplier):
        raise TopologyError(f"expected {wanted}, but got {supplier!r}; give the class, not an instance of it")
    if not _takes_no_arguments(supplier):
        raise TopologyError(f"expected {wanted}, but {describe_function(supplier)} needs arguments")
    first, second = supplier(), supplier()
    if not callable(getattr(first, method, None)):
        raise TopologyError(
            f"expected {wanted}, but {describe_function(supplier)} makes {first!r}, which has no {method} method"
        )
    if first is second:
        raise TopologyError(
            f"the supplier {describe_function(supplier)} must return a new instance at each call, "
            "but returned the same twice"
        )


def _takes_no_arguments(supplier: Callable[..., Any]) -> bool:
    try:
        inspect.signature(supplier).bind()
    except TypeError:
        return False
    except ValueError:  # a built-in without a signature: the call itself will tell
        return True
    return True
