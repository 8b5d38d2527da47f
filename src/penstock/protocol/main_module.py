"""Programs of one file: what ``__main__`` defines is not to be imported by the workers, and travels by value.

Classes are then found in the main module of a worker, too: values of these classes can be pickled there, by name, as in the program.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

MAIN = "__main__"

#: classes that have come by value, by a number that the program gave them: what comes twice is one class
_made: WeakValueDictionary[str, type] = WeakValueDictionary()
_numbers: WeakKeyDictionary[type, str] = WeakKeyDictionary()


def load(data: bytes) -> Any:
    """Return what a program has sent, with its classes known by name from then on."""
    unpickler = pickle.Unpickler(io.BytesIO(data))
    found = unpickler.load()
    main, classes = sys.modules[MAIN], []
    with suppress(EOFError):  # what plain ``pickle`` has written has none
        classes = unpickler.load()
    for class_ in classes:
        if (
            getattr(getattr(main, class_.__name__, class_), "__module__", None) == MAIN
        ):  # else a name of the worker's own
            setattr(main, class_.__name__, class_)
    return found


def number_of(class_: type) -> str:
    """Return the number of a class, which is found by it in this process, too."""
    number = _numbers.setdefault(class_, uuid4().hex)
    _made[number] = class_
    return number


def make_struct(
    number: str,
    meta: Any,
    name: str,
    bases: tuple[type, ...],
    namespace: Mapping[str, Any],
    factories: Mapping[str, Any],
    options: Mapping[str, Any],
) -> type:
    """Make a ``msgspec.Struct``: its fields are known when it is made, and never after. ``factories``: of default values."""
    found = _made.get(number)
    if found is None:
        fields = {field: msgspec.field(default_factory=factory) for field, factory in factories.items()}
        found = _made[number] = meta(name, bases, {**namespace, **fields}, **options)
    return found


def add_members(class_: type, members: Mapping[str, Any]) -> None:
    """Give a class its methods and other members: they may mention the class."""
    for name, member in members.items():
        setattr(class_, name, member)
