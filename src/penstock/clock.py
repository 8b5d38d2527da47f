"""Clock and SystemClock: the only caller of ``time.*``, so that tests move time by hand."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time in milliseconds."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000


class StillClock:
    """One moment of another clock: the wall-clock time of an epoch, as its driver read it.

    >>> StillClock(70).now_ms()
    70
    """

    __slots__ = ("_now",)

    def __init__(self, now_ms: int) -> None:
        self._now = now_ms

    def now_ms(self) -> int:
        """Return the moment."""
        return self._now


def stopwatch_us() -> int:
    """Return microseconds of a clock that only goes forward: differences say how long something took."""
    return time.perf_counter_ns() // 1000


def stopwatch_ns() -> int:
    """Return nanoseconds of the same clock."""
    return time.perf_counter_ns()


class MockClock:
    """A clock that moves only when told to.

    >>> clock = MockClock(5)
    >>> clock.advance(10)
    >>> clock.now_ms()
    15
    """

    def __init__(self, now_ms: int = 0) -> None:
        self._now = now_ms

    def now_ms(self) -> int:
        """Return the time this clock was set to."""
        return self._now

    def advance(self, ms: int) -> None:
        """Move the clock forward."""
        self._now += ms
