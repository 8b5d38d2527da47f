"""An unknown keyword option is refused with the nearest name that exists."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.errors import OptionError, nearest

C = TypeVar("C", bound=type)


def strict_options(cls: C) -> C:
    """Let every public method of a class check the names of its keyword arguments.

    >>> @strict_options
    ... class Stream:
    ...     def filter(self, p, *, name=None): ...
    >>> Stream().filter(None, nmae="x")
    Traceback (most recent call last):
    penstock.errors.OptionError: filter() has no option 'nmae' (did you mean 'name'?); it takes p, name
    """
    for name, method in list(vars(cls).items()):
        if inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, _strict(method, cls.__name__ if name == "__init__" else name))
    return cls


def _strict(method: Callable[..., Any], called: str) -> Callable[..., Any]:
    parameters = inspect.signature(method).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return method
    options = [
        name for name, p in parameters.items() if name != "self" and p.kind is not inspect.Parameter.VAR_POSITIONAL
    ]

    @functools.wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in options:
                takes = ", ".join(options) or "no options"
                raise OptionError(f"{called}() has no option {name!r}{nearest(name, options)}; it takes {takes}")
        return method(*args, **kwargs)

    return checked
