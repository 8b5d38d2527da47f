"""Protobuf: messages of a generated class, bytes by Google's package."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import DeserializationError, SerializationError, TopologyError
from penstock.serde.base import Serde
from penstock.serde.extras import need

if TYPE_CHECKING:
    from google.protobuf.message import Message

    M = TypeVar("M", bound=Message)
else:
    M = TypeVar("M")

_ASKED = "Serdes.protobuf"


def protobuf(message: type[M]) -> Serde[M]:
    """Return the serde of a message class that protoc has generated.

    Values are messages of exactly that class. Fields that the class does not know are kept and written again, so records of a newer schema
    pass through an older program. Map entries are written in the order of their keys: equal messages have equal bytes.
    The serde pickles as the class, so the generated module must be importable by the workers.

    >>> from google.protobuf.wrappers_pb2 import StringValue
    >>> names = protobuf(StringValue)
    >>> names.serialize(StringValue(value="ann")), names.deserialize(b"\\n\\x03bob").value, names
    (b'\\n\\x03ann', 'bob', Serdes.protobuf(google.protobuf.StringValue))
    >>> names.serialize("ann")
    Traceback (most recent call last):
    penstock.errors.SerializationError: Serdes.protobuf(google.protobuf.StringValue): the value is 'ann' (str), not such a message
    """
    base = need("google.protobuf.message", extra="protobuf", asked=_ASKED)
    if not (isinstance(message, type) and issubclass(message, base.Message) and message is not base.Message):
        raise TopologyError(
            f"{_ASKED}: {message!r} is not a message class: give one of a module that protoc has generated (orders_pb2.Order)"
        )
    name = f"protobuf({message.DESCRIPTOR.full_name})"
    serialize, deserialize = _writing(message, name), _reading(message, name, base.DecodeError)
    return Serde(serialize, deserialize, name, _recipe=(protobuf, (message,)))


def is_message(value: Any) -> bool:
    """Whether a value is a message; the package need not be installed for that."""
    return hasattr(type(value), "DESCRIPTOR") and hasattr(type(value), "SerializeToString")


def shown_message(value: Any) -> Any:
    """Return a message as JSON has it, for people to read; any other object as text.

    >>> from google.protobuf.struct_pb2 import Struct
    >>> shown_message(Struct(fields={})), shown_message(1j)
    ({}, '1j')
    """
    if not is_message(value):
        return str(value)
    return need("google.protobuf.json_format", extra="protobuf", asked=_ASKED).MessageToDict(value)


def _writing(message: type[M], name: str) -> Callable[[M], bytes]:
    def serialize(value: M) -> bytes:
        if value.__class__ is not message:
            raise SerializationError(f"Serdes.{name}: the value is {_shown(value)}, not such a message")
        if not value.IsInitialized():
            missing = _missing(value)
            raise SerializationError(f"Serdes.{name}: required fields have no value: {missing}")
        return value.SerializeToString(deterministic=True)

    return serialize


def _reading(message: type[M], name: str, wrong: type[Exception]) -> Callable[[bytes], M]:
    read = message.FromString

    def deserialize(data: bytes) -> M:
        try:
            value = read(data)
        except wrong as error:
            raise DeserializationError(f"the bytes are no message of Serdes.{name}: {error}") from error
        if not value.IsInitialized():
            missing = _missing(value)
            raise DeserializationError(
                f"the bytes are no message of Serdes.{name}: required fields are missing: {missing}"
            )
        return value

    return deserialize


def _missing(value: Any) -> str:
    return ", ".join(value.FindInitializationErrors())


def _shown(value: Any) -> str:
    shown = repr(value)
    return f"{shown[:77] + '...' if len(shown) > 80 else shown} ({type(value).__name__})"
