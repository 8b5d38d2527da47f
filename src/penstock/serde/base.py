"""`Serde`: two plain functions between a value and its bytes, and a way to travel to a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

T = TypeVar("T")

Recipe = tuple[Callable[..., Any], tuple[Any, ...]]


class Serde(Generic[T]):
    """A pair of functions: `serialize(value) -> bytes` and `deserialize(bytes) -> value`.

    `None` never reaches either function. Whoever calls them (a source, a sink, a store) takes `None` for Kafka's
    null in both directions, so neither function needs to test for it. On the hot path callers keep `serde.serialize`
    in a local variable and call that; make both functions as plain as possible.

    A function that cannot do its work raises whatever is natural (`struct.error`, `UnicodeDecodeError`, ...):
    the caller adds the node and the record's coordinates. It must never shorten or guess a value.

    A serde is immutable. It pickles with the standard `pickle` when its two functions do; the built-in ones always do.

    >>> celsius = Serde(lambda t: b"%.1f" % t, float, name="celsius")
    >>> celsius.serialize(21.5), celsius.deserialize(b"21.5")
    (b'21.5', 21.5)
    >>> celsius
    Serde(celsius)
    """

    __slots__ = ("_recipe", "deserialize", "name", "serialize")

    serialize: Callable[[T], bytes]
    deserialize: Callable[[bytes], T]
    name: str | None
    _recipe: Recipe | None

    def __init__(
        self,
        serialize: Callable[[T], bytes],
        deserialize: Callable[[bytes], T],
        name: str | None = None,
        *,
        _recipe: Recipe | None = None,
    ) -> None:
        if not callable(serialize) or not callable(deserialize):
            raise TypeError("Serde(serialize, deserialize): both must be callable")
        put = object.__setattr__
        put(self, "serialize", serialize)
        put(self, "deserialize", deserialize)
        put(self, "name", name)
        put(self, "_recipe", _recipe)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Serde is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Serde is immutable: cannot delete {name!r}")

    def __reduce__(self) -> Recipe:
        return self._recipe or (Serde, (self.serialize, self.deserialize, self.name))

    def __eq__(self, other: object) -> bool:
        return self.__reduce__() == other.__reduce__() if isinstance(other, Serde) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.__reduce__())

    def __repr__(self) -> str:
        if self.name is None:
            return f"Serde({_called(self.serialize)}, {_called(self.deserialize)})"
        return f"Serdes.{self.name}" if self._recipe else f"Serde({self.name})"


def _called(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)
