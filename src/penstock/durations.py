"""Durations are ``timedelta`` or int milliseconds everywhere; this is where they become milliseconds."""

from __future__ import annotations

from datetime import timedelta

from penstock.errors import TopologyError


def millis(value: timedelta | int, what: str, *, least: int | None = None) -> int:
    """Return a duration in milliseconds, or say which one is wrong.

    >>> millis(timedelta(seconds=2), "size")
    2000
    """
    if isinstance(value, timedelta):
        result = value // timedelta(milliseconds=1)
    elif isinstance(value, int) and not isinstance(value, bool):
        result = value
    else:
        raise TopologyError(f"{what} must be a timedelta or an int of milliseconds, but is {value!r}")
    if least is not None and result < least:
        raise TopologyError(f"{what} must be at least {least} ms, but is {result} ms")
    return result
