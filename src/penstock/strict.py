"""What is given to a public method is checked when it is given: names of options, and serdes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.errors import OptionError, nearest

C = TypeVar("C", bound=type)


def strict_options(cls: C) -> C:
    """Let every public method of a class check the names of its keyword arguments, and its serdes.

    >>> @strict_options
    ... class Stream:
    ...     def filter(self, p, *, name=None): ...
    ...     def to(self, topic, *, value: "Serde | None" = None): ...
    >>> Stream().filter(None, nmae="x")
    Traceback (most recent call last):
    penstock.errors.OptionError: filter() has no option 'nmae' (did you mean 'name'?); it takes p, name
    >>> Stream().to("out", value=str)
    Traceback (most recent call last):
    penstock.errors.OptionError: to(value=<class 'str'>) is no serde: give one of Serdes, e.g. Serdes.json, or Serde(serialize, deserialize)
    """
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name != "__init__":
            continue
        called = cls.__name__ if name == "__init__" else name
        if inspect.isfunction(member):
            setattr(cls, name, _strict(member, called))
        elif isinstance(member, staticmethod):
            setattr(cls, name, staticmethod(_strict(member.__func__, called)))
    return cls


def strict_init(cls: C) -> C:
    """Let only the constructor of a class check its options: its other methods are called for every record.

    >>> @strict_init
    ... class Windows:
    ...     def __init__(self, size, grace=0): ...
    >>> Windows(10, garce=5)
    Traceback (most recent call last):
    penstock.errors.OptionError: Windows() has no option 'garce' (did you mean 'grace'?); it takes size, grace
    """
    setattr(cls, "__init__", _strict(vars(cls)["__init__"], cls.__name__))  # noqa: B010 - mypy knows better
    return cls


def _strict(method: Callable[..., Any], called: str) -> Callable[..., Any]:
    parameters = inspect.signature(method).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return method
    options = [
        name for name, p in parameters.items() if name != "self" and p.kind is not inspect.Parameter.VAR_POSITIONAL
    ]
    serdes = frozenset(name for name, p in parameters.items() if "Serde" in str(p.annotation))

    @functools.wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name, given in kwargs.items():
            if name not in options:
                takes = ", ".join(options) or "no options"
                raise OptionError(f"{called}() has no option {name!r}{nearest(name, options)}; it takes {takes}")
            if name in serdes and given is not None:
                _check_serde(f"{called}({name}={given!r})", given)
        return method(*args, **kwargs)

    return checked


def _check_serde(said: str, given: Any) -> None:
    if not callable(getattr(given, "serialize", None)) or not callable(getattr(given, "deserialize", None)):
        raise OptionError(f"{said} is no serde: give one of Serdes, e.g. Serdes.json, or Serde(serialize, deserialize)")
