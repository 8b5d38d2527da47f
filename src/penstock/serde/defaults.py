"""Serdes that a program leaves open: which they are the settings say, once there is an application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.serde import primitives
from penstock.serde.base import Serde


class DefaultSerde(Serde[Any]):
    """Stands for the default serde of keys, or of values, until the settings are known (``topology/defaults.py``).

    By itself it is what that serde is where no setting says otherwise, and pickles and compares as that.

    >>> DEFAULT_KEY, DEFAULT_VALUE, DEFAULT_KEY == primitives.string
    (Serdes.string, Serdes.json, True)
    """

    __slots__ = ("part",)

    part: str

    def __init__(self, part: str, usual: Serde[Any]) -> None:
        super().__init__(usual.serialize, usual.deserialize, usual.name, _recipe=usual.__reduce__())
        object.__setattr__(self, "part", part)


#: the serdes of a source, a sink or a store that says nothing of its keys, or of its values; as types, what they usually are
DEFAULT_KEY: Serde[str] = DefaultSerde("key", primitives.string)
DEFAULT_VALUE: Serde[Any] = DefaultSerde("value", primitives.json)


def replaced(serde: Any, change: Callable[[Serde[Any]], Serde[Any] | None]) -> Any:
    """Return what ``change`` makes of a serde, or of those inside it where it gives None; else the serde itself.

    >>> from penstock.serde.windowed import WindowedSerde
    >>> replaced(WindowedSerde(DEFAULT_KEY, 5), lambda one: primitives.int64 if one is DEFAULT_KEY else None)
    Serdes.windowed(Serdes.int64, 5)
    """
    if not isinstance(serde, Serde):
        return serde
    changed = change(serde)
    if changed is not None:
        return changed
    make, arguments = serde.__reduce__()
    inside = tuple(replaced(argument, change) for argument in arguments)
    return serde if all(one is other for one, other in zip(inside, arguments, strict=True)) else make(*inside)
