"""Objects that are one, in C. ``state.fold`` says what for."""

from typing import Any

def are_apart(items: list[Any], fixed: frozenset[type], /) -> bool: ...
