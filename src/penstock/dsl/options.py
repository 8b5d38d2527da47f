"""Suppressed and Buffer: how long, and in how much room, the updates of a table are held back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

from penstock.durations import millis
from penstock.errors import TopologyError
from penstock.strict import strict_options

P = ParamSpec("P")
R = TypeVar("R")


class OfClassToo(Generic[P, R]):
    """A method that may be called of the class as well: then of an object made without arguments."""

    def __init__(self, function: Callable[Concatenate[Any, P], R]) -> None:
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __get__(self, instance: Any, owner: type) -> Callable[P, R]:
        return cast(Callable[P, R], MethodType(self.__wrapped__, owner() if instance is None else instance))


@strict_options
@dataclass(frozen=True, slots=True)
class Buffer:
    """Room for updates that wait. A bounded buffer lets the oldest go early when full, or stops the application.

    >>> Buffer.max_records(1000).max_bytes(1_000_000).shut_down_when_full()
    Buffer(records=1000, bytes=1000000, shut_down=True, logged=True)
    """

    records: int | None = None
    bytes: int | None = None
    #: when full: stop the application; else let the oldest updates go early
    shut_down: bool = False
    logged: bool = True

    @OfClassToo
    def max_records(self, count: int, *, max_bytes: int | None = None) -> Buffer:
        """Hold at most so many updates (and bytes) a shard."""
        return replace(self, records=_at_least_one(count, "max_records"), bytes=max_bytes or self.bytes)

    @OfClassToo
    def max_bytes(self, count: int, *, max_records: int | None = None) -> Buffer:
        """Hold at most so many bytes (and updates) a shard."""
        return replace(self, records=max_records or self.records, bytes=_at_least_one(count, "max_bytes"))

    @staticmethod
    def unbounded() -> Buffer:
        """Hold whatever comes."""
        return Buffer(shut_down=True)

    @property
    def bounded(self) -> bool:
        """Whether there is a limit."""
        return self.records is not None or self.bytes is not None

    def shut_down_when_full(self) -> Buffer:
        """Stop the application rather than let an update go early."""
        return replace(self, shut_down=True)

    def emit_early_when_full(self) -> Buffer:
        """Let the oldest updates go early."""
        return replace(self, shut_down=False)

    def without_log(self) -> Buffer:
        """Keep no changelog: what waits is lost with the lane."""
        return replace(self, logged=False)


@strict_options
@dataclass(frozen=True, slots=True)
class Suppressed:
    """What ``KTable.suppress`` takes. ``wait`` None: until the window closes.

    >>> Suppressed.until_time_limit(timedelta(seconds=5), Buffer.max_records(10)).wait
    5000
    """

    wait: int | None
    buffer: Buffer
    name: str | None = None

    @staticmethod
    def until_window_closes(buffer: Buffer | None = None, *, name: str | None = None) -> Suppressed:
        """Emit one result a window, when it is final."""
        buffer = Buffer.unbounded() if buffer is None else buffer
        if buffer.bounded and not buffer.shut_down:
            raise TopologyError(
                "until_window_closes() promises final results, so its buffer must not emit early: "
                "use Buffer.unbounded(), or add .shut_down_when_full()"
            )
        return Suppressed(None, buffer, name)

    @staticmethod
    def until_time_limit(wait: timedelta | int, buffer: Buffer | None = None, *, name: str | None = None) -> Suppressed:
        """Emit the newest of a row's updates once the first of them is ``wait`` old, or earlier if the buffer is full."""
        return Suppressed(millis(wait, "wait", least=0), Buffer.unbounded() if buffer is None else buffer, name)


def _at_least_one(count: int, what: str) -> int:
    if count < 1:
        raise TopologyError(f"{what} must be at least 1, but is {count}")
    return count
