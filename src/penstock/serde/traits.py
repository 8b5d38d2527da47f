"""What may be relied on of a serde: where bytes may stand for values, and values for bytes.

    canonical   bytes → value → bytes gives the same bytes, for all bytes that it takes
    stable      value → bytes → value → bytes gives the same bytes
    kept        the classes of values that value → bytes → value gives back as they were

Of a serde of the user's nothing is known, so nothing is relied on.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from penstock.serde import primitives
from penstock.serde.avro import avro_of_text
from penstock.serde.avro_schema import has_one_form
from penstock.serde.base import Serde
from penstock.serde.foreign_key import CombinedKeySerde, SubscriptionResponseWrapperSerde, SubscriptionWrapperSerde
from penstock.serde.json_schema import json_schema_of_text, json_schema_of_type
from penstock.serde.protobuf import protobuf
from penstock.serde.typed_json import json_of
from penstock.serde.windowed import SessionWindowedSerde, WindowedSerde

_CANONICAL = (primitives.string, primitives.bytes_, primitives.int32, primitives.int64, primitives.boolean)
_STABLE = (*_CANONICAL, primitives.float32, primitives.float64, primitives.uuid, primitives.json)
_KEPT: dict[Serde[Any], frozenset[type]] = {
    primitives.string: frozenset({str}),
    primitives.bytes_: frozenset({bytes}),
    primitives.int32: frozenset({int}),
    primitives.int64: frozenset({int}),
    primitives.float64: frozenset({float}),
    primitives.json: frozenset({int, str}),
}
#: no float: a whole number in its place is written as one, and comes back as a float
_PLAIN = frozenset({int, str, bytes, bool, NoneType})


def is_canonical(serde: Serde[Any]) -> bool:
    """Whether the bytes that the serde reads are those that it would write.

    >>> from penstock.serde import Serdes
    >>> is_canonical(Serdes.string), is_canonical(Serdes.json)
    (True, False)
    """
    return serde in _CANONICAL


def is_stable(serde: Serde[Any]) -> bool:
    """Whether bytes that the serde has written are those that it writes again, once they were read.

    >>> from penstock.serde import Serdes
    >>> is_stable(Serdes.json), is_stable(Serdes.pickle)
    (True, False)
    """
    if isinstance(serde, WindowedSerde | SessionWindowedSerde):
        return is_stable(serde.inner)
    if isinstance(serde, SubscriptionWrapperSerde | SubscriptionResponseWrapperSerde | CombinedKeySerde):
        return all(map(is_stable, serde.__reduce__()[1]))
    return serde in _STABLE or bool(kept_classes(serde)) or _is_stable_by_schema(*serde.__reduce__())


def _is_stable_by_schema(made_by: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a serde with a schema is stable. One that reads several schemas is not: it writes but one of them."""
    if made_by is protobuf or made_by is json_schema_of_text:
        return True
    if made_by is json_schema_of_type:
        return _is_kept(arguments[0])
    if made_by is not avro_of_text:
        return False
    text, value_type, writer, single_object, _ = arguments
    bare = writer is None and not single_object
    return bare and has_one_form(text) and (value_type is None or _is_kept(value_type))


def kept_classes(serde: Serde[Any]) -> frozenset[type]:
    """Return the classes whose values the serde gives back as they were.

    >>> from penstock.serde import Serdes
    >>> class Total(msgspec.Struct):
    ...     count: int
    ...     names: list[str]
    >>> kept_classes(Serdes.int64), kept_classes(Serdes.json_of(Total)) == {Total}, kept_classes(Serdes.pickle)
    (frozenset({<class 'int'>}), True, frozenset())
    """
    found = _KEPT.get(serde)
    if found is not None:
        return found
    recipe = serde.__reduce__()
    if recipe[0] is json_of and isinstance(recipe[1][0], type) and _is_kept(recipe[1][0]):
        return frozenset({recipe[1][0]})
    return frozenset()


@lru_cache(maxsize=1024)
def _is_kept(type_: Any) -> bool:
    """Whether JSON read as this type is what was written of it; a type that refers to itself is not followed."""
    if type_ in _PLAIN:
        return True
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (list, Union, UnionType):
        return all(_is_kept(argument) for argument in arguments)
    if origin is dict:
        return arguments[0] is str and _is_kept(arguments[1])
    if not isinstance(type_, type):
        return False
    if hasattr(type_, "__post_init__"):
        return False
    if issubclass(type_, msgspec.Struct):
        names = type_.__struct_fields__
    elif is_dataclass(type_) and all(field.init for field in fields(type_)):
        names = tuple(field.name for field in fields(type_))
    else:
        return False
    hints = get_type_hints(type_)
    return all(hints[name] is not type_ and _is_kept(hints[name]) for name in names)
