"""Schedules: when a scheduled source is due. An interval, or a cron expression; both are times of UTC that need no memory.

The times of an interval are its multiples since 1970: every quarter of an hour is at :00, :15, :30 and :45, whenever the
application was started, so a restart does not shift them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from penstock.cron import Cron
from penstock.durations import millis
from penstock.errors import TopologyError


class Schedule(Protocol):
    """Times in milliseconds, for ever. Its text says which, for people."""

    def after(self, time: int) -> int:
        """Return the first time that is later than ``time``."""
        ...

    def latest(self, time: int) -> int:
        """Return the last time that is not later than ``time``."""
        ...


@dataclass(frozen=True, slots=True)
class Interval:
    """The multiples of so many milliseconds.

    >>> Interval(250).after(1000), Interval(250).latest(1249), str(Interval(90_000))
    (1250, 1000, 'every 1 min 30 s')
    """

    every: int

    def __str__(self) -> str:
        return f"every {_said(self.every)}"

    def after(self, time: int) -> int:
        """Return the first time that is later than ``time``."""
        return (time // self.every + 1) * self.every

    def latest(self, time: int) -> int:
        """Return the last time that is not later than ``time``."""
        return time // self.every * self.every


def _said(milliseconds: int) -> str:
    """Return a duration as people say it."""
    parts = []
    for unit, size in ("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts)


def as_schedule(every_or_cron: Any) -> Schedule:
    """Return what the user gave as a schedule: a duration, or a cron expression.

    >>> as_schedule(timedelta(seconds=2)), as_schedule("0 6 * * *")
    (Interval(every=2000), Cron(text='0 6 * * *'))
    """
    if isinstance(every_or_cron, str):
        return Cron(every_or_cron)
    if isinstance(every_or_cron, timedelta | int) and not isinstance(every_or_cron, bool):
        return Interval(millis(every_or_cron, "the interval of scheduled()", least=1))
    raise TopologyError(
        "scheduled() takes an interval (a timedelta, or milliseconds) or a cron expression such as '*/5 * * * *', but got "
        f"{every_or_cron!r}"
    )
