"""JSON with a type: the decoder checks and builds, msgspec does both in C."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from penstock.serde.base import Serde
from penstock.serde.finite import finite, holds_floats

T = TypeVar("T")


def json_of(type_: type[T]) -> Serde[T]:
    """Return the JSON serde of a dataclass, `msgspec.Struct`, `TypedDict` or any other type that msgspec knows.

    Reading checks the type and raises `msgspec.ValidationError` with the path of the wrong field. Writing does not
    check: it writes the value it is given. The serde pickles as the type, which workers import by its name; what ``__main__``
    defines goes to them by value.

    >>> import msgspec
    >>> class Order(msgspec.Struct):
    ...     id: int
    ...     paid: bool = False
    >>> orders = json_of(Order)
    >>> orders.serialize(Order(7))
    b'{"id":7,"paid":false}'
    >>> orders.deserialize(b'{"id":8}')
    Order(id=8, paid=False)
    >>> orders.deserialize(b'{"id":"eight"}')
    Traceback (most recent call last):
    msgspec.ValidationError: Expected `int`, got `str` - at `$.id`
    """
    decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(type_)
    name = f"json_of({getattr(type_, '__qualname__', type_)})"
    encode = finite(_encode) if holds_floats(type_) else _encode
    return Serde(encode, decoder.decode, name, _recipe=(json_of, (type_,)))


_encode: Any = msgspec.json.Encoder().encode
