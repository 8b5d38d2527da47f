"""Windows: pure arithmetic of timestamps. Bounds, defaults and edge rules are Kafka Streams'."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from penstock.durations import millis
from penstock.errors import TopologyError
from penstock.strict import strict_init

#: Java's Long.MAX_VALUE: the end of a window without an end
FOREVER = 2**63 - 1


class Windows(ABC):
    """Windows of one size, known from a timestamp alone; [start, end). Subclass it for windows of your own.

    A subclass says ``size`` and ``grace`` (milliseconds; attributes will do) and ``starts_for``. It is pickled with the topology.

    >>> class DaysFromSix(Windows):
    ...     size, grace = 86_400_000, 0
    ...     def starts_for(self, timestamp):
    ...         start = (timestamp - 21_600_000) // self.size * self.size + 21_600_000  # a day begins at six
    ...         return (start,) if start >= 0 else ()
    >>> DaysFromSix().starts_for(100_000_000)
    (21600000,)
    """

    __slots__ = ()

    @property
    @abstractmethod
    def size(self) -> int:
        """Length of a window."""

    @property
    @abstractmethod
    def grace(self) -> int:
        """How long after its end a window takes late records."""

    @abstractmethod
    def starts_for(self, timestamp: int) -> Iterable[int]:
        """Return the starts of the windows that hold this timestamp, in the order their results are to be forwarded."""

    @property
    def retention(self) -> int:
        """The least time a store must keep a window."""
        return min(self.size + self.grace, FOREVER)


@strict_init
@dataclass(frozen=True, slots=True, init=False)
class TimeWindows(Windows):
    """Tumbling windows of ``size``, or hopping ones with ``advance``; aligned to the epoch; [start, end).

    >>> TimeWindows(10, advance=5).starts_for(12)
    (5, 10)
    """

    size: int
    advance: int
    grace: int

    def __init__(
        self, size: timedelta | int, advance: timedelta | int | None = None, grace: timedelta | int = 0
    ) -> None:
        size_ms = millis(size, "size", least=1)
        advance_ms = size_ms if advance is None else millis(advance, "advance", least=1)
        if advance_ms > size_ms:
            raise TopologyError(
                f"advance ({advance_ms} ms) must not be larger than size ({size_ms} ms): windows would have gaps"
            )
        object.__setattr__(self, "size", size_ms)
        object.__setattr__(self, "advance", advance_ms)
        object.__setattr__(self, "grace", millis(grace, "grace", least=0))

    def starts_for(self, timestamp: int) -> tuple[int, ...]:
        """Return the starts of the windows that hold this timestamp, oldest first."""
        advance = self.advance
        first = max(0, timestamp - self.size + advance) // advance * advance
        return tuple(range(first, timestamp + 1, advance))


@strict_init
@dataclass(frozen=True, slots=True, init=False)
class SlidingWindows:
    """Windows of two records at most ``difference`` apart; aligned to the records; [start, end], both inclusive."""

    difference: int
    grace: int

    def __init__(self, difference: timedelta | int, grace: timedelta | int = 0) -> None:
        object.__setattr__(self, "difference", millis(difference, "difference", least=0))
        object.__setattr__(self, "grace", millis(grace, "grace", least=0))

    @property
    def retention(self) -> int:
        """The least time a store must keep a window: a window may be looked up from two differences later."""
        return 2 * self.difference + self.grace


@strict_init
@dataclass(frozen=True, slots=True, init=False)
class SessionWindows:
    """Sessions of one key that end after ``gap`` without a record; [start, end], both inclusive; merged at distance <= gap."""

    gap: int
    grace: int

    def __init__(self, gap: timedelta | int, grace: timedelta | int = 0) -> None:
        object.__setattr__(self, "gap", millis(gap, "gap", least=1))
        object.__setattr__(self, "grace", millis(grace, "grace", least=0))

    @property
    def retention(self) -> int:
        """The least time a store must keep a session."""
        return self.gap + self.grace


@strict_init
@dataclass(frozen=True, slots=True, init=False)
class UnlimitedWindows(Windows):
    """One window without an end, from ``start``; earlier records are in no window."""

    start: int

    def __init__(self, start: int = 0) -> None:
        if start < 0:
            raise TopologyError(f"start must not be negative, but is {start}")
        object.__setattr__(self, "start", start)

    @property
    def size(self) -> int:
        """As long as time goes."""
        return FOREVER

    @property
    def grace(self) -> int:
        """None is needed: the window never closes."""
        return 0

    def starts_for(self, timestamp: int) -> tuple[int, ...]:
        """Return the one window's start, or nothing before it."""
        return (self.start,) if timestamp >= self.start else ()


@strict_init
@dataclass(frozen=True, slots=True, init=False)
class JoinWindows:
    """Two records join if other.timestamp is in [timestamp − before, timestamp + after].

    ``before`` and ``after`` default to ``difference``; one may be negative as long as their sum is not.
    """

    before: int
    after: int
    grace: int

    def __init__(
        self,
        difference: timedelta | int,
        before: timedelta | int | None = None,
        after: timedelta | int | None = None,
        grace: timedelta | int = 0,
    ) -> None:
        difference_ms = millis(difference, "difference", least=0)
        before_ms = difference_ms if before is None else millis(before, "before")
        after_ms = difference_ms if after is None else millis(after, "after")
        if before_ms + after_ms < 0:
            raise TopologyError(
                f"before + after must not be negative: the window [−{before_ms}, +{after_ms}] ends before it starts"
            )
        object.__setattr__(self, "before", before_ms)
        object.__setattr__(self, "after", after_ms)
        object.__setattr__(self, "grace", millis(grace, "grace", least=0))

    @property
    def size(self) -> int:
        """Length of the window."""
        return self.before + self.after

    @property
    def retention(self) -> int:
        """The time the join's stores keep a record."""
        return self.size + self.grace
