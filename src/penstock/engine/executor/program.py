"""The user's program on its way to the workers: by name what they can import, by value what ``__main__`` defines.

``cloudpickle`` does this for functions and plain classes. Two kinds of classes that serdes are made of need more: a ``msgspec.Struct``
would come without its fields, and what msgspec has noted at a dataclass cannot be pickled.
"""

from __future__ import annotations

import dataclasses
import io
import sys
from contextlib import suppress
from functools import reduce
from inspect import get_annotations
from typing import Any, ForwardRef, get_type_hints

import msgspec
from pyspark import cloudpickle

from penstock.protocol.main_module import MAIN, add_members, make_struct, number_of

#: where msgspec notes what it knows of a class; it is made again where it is needed
NOTES = "__msgspec_cache__"
#: of a struct, made with the class
_OWN = frozenset(
    {
        "__module__",
        "__qualname__",
        "__doc__",
        "__annotations__",
        "__slots__",
        "__match_args__",
        "__weakref__",
        "__dict__",
    }
)
_OPTIONS = (
    "frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults", "forbid_unknown_fields", "weakref", "dict",
    "cache_hash", "tag", "tag_field",
)  # fmt: skip

_CloudPickler: Any = cloudpickle.CloudPickler


def dump(program: Any) -> bytes:
    """Return a program as bytes, for ``protocol.main_module.load``."""
    data = io.BytesIO()
    pickler = _ProgramPickler(data)
    pickler.dump(program)
    pickler.dump([class_ for class_ in pickler.classes if class_.__module__ == MAIN and "." not in class_.__qualname__])
    return data.getvalue()


class _ProgramPickler(_CloudPickler):  # type: ignore[misc]
    """Pickles a program; ``classes`` are those that went by value."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.classes: list[type] = []

    def reducer_override(self, obj: Any) -> Any:
        """Describe how a class goes that the workers cannot import, and leave the rest to ``cloudpickle``."""
        if obj is dataclasses.MISSING:  # there is one of it, which fields without a default are known by
            return "MISSING"
        if isinstance(obj, type) and not _is_importable(obj):
            self.classes.append(obj)
            _resolve_annotations(obj)
            if isinstance(obj, msgspec.StructMeta):
                return _reduced_struct(obj)
            if NOTES in obj.__dict__:
                delattr(obj, NOTES)
        return super().reducer_override(obj)


def _is_importable(class_: type) -> bool:
    module = sys.modules.get(class_.__module__)
    if class_.__module__ == MAIN or module is None:
        return False
    try:
        found: Any = reduce(getattr, class_.__qualname__.split("."), module)
    except AttributeError:
        return False
    return found is class_


def _resolve_annotations(class_: type) -> None:
    """Put types in the place of their names: what the names mean is known in the program only."""
    own = get_annotations(class_)
    if not any(isinstance(annotation, str | ForwardRef) for annotation in own.values()):
        return
    with suppress(NameError, TypeError):  # who asks for them gets that error
        hints = get_type_hints(class_, include_extras=True)
        class_.__annotations__ = {name: hints[name] for name in own}


def _reduced_struct(class_: Any) -> tuple[Any, ...]:
    own = get_annotations(class_)
    fields = [field for field in msgspec.structs.fields(class_) if field.name in own]
    namespace = {
        "__annotations__": own,
        "__module__": class_.__module__,
        "__qualname__": class_.__qualname__,
        "__doc__": class_.__doc__,
    }
    for field in fields:
        if field.default is not msgspec.NODEFAULT:
            namespace[field.name] = field.default
    factories = {
        field.name: field.default_factory for field in fields if field.default_factory is not msgspec.NODEFAULT
    }
    if "__post_init__" in class_.__dict__:  # looked for when the class is made
        namespace["__post_init__"] = class_.__dict__["__post_init__"]
    options = {name: getattr(class_.__struct_config__, name) for name in _OPTIONS}
    options["rename"] = {field.name: field.encode_name for field in fields}
    options["kw_only"] = any(field.name not in class_.__match_args__ for field in fields)
    members = {
        name: member
        for name, member in class_.__dict__.items()
        if name not in {*_OWN, *namespace, *class_.__struct_fields__} and not name.startswith("__struct_")
    }
    arguments = (number_of(class_), type(class_), class_.__name__, class_.__bases__, namespace, factories, options)
    return make_struct, arguments, members, None, None, add_members
