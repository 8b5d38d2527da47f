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
from weakref import WeakValueDictionary

import msgspec

MAIN = "__main__"

#: classes that have come by value, by a number that the program gave them: what comes twice is one class
_made: WeakValueDictionary[str, type] = WeakValueDictionary()


def load(data: bytes) -> Any:
    """Return what a program has sent, with its classes known by name from then on."""
    unpickler = pickle.Unpickler(io.BytesIO(data))
    found = unpickler.load()
    main, classes = sys.modules[MAIN], []
    with suppress(EOFError):  # what plain ``pickle`` has written has none
        classes = unpickler.load()
    for class_ in classes:
        if not isinstance(getattr(main, class_.__name__, class_), type):
            continue  # a name of the worker's own
        setattr(main, class_.__name__, class_)
    return found


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
