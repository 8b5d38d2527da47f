"""How far event time has come: what each record of a source says about it, and what happens to records that it has left behind.

A *watermark* is a time of which a source partition says: nothing older is to be expected. Clocks are made of them: the clock of an
operator is the least of the greatest watermarks of its source partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Any

from penstock.durations import millis
from penstock.errors import TopologyError, describe_function


class LatePolicy(Enum):
    """What windows and joins do with a late record of a source: one that comes after the end of its window.

    ``accept``: Kafka's way, and the default: taken within the grace of the window, then dropped and counted. ``drop``: no grace is
    granted. ``dead_letter``: taken within the grace; after it, the source record goes to the dead-letter topic, with headers that
    say which window it missed and by how much.

    >>> LatePolicy.dead_letter.name
    'dead_letter'
    """

    accept = "accept"
    drop = "drop"
    dead_letter = "dead_letter"


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """What a record says about the event time of its source partition; running maximum, partition by partition.

    >>> WatermarkStrategy.bounded(timedelta(seconds=5)).of("k", "v", 12_000)
    7000
    >>> WatermarkStrategy.monotonic().idle_after(30_000).idle
    30000

    ``idle_after``: a partition that is read to its end and brings nothing for so long is not waited for. Where it was given for all
    sources of a clock and all of them are quiet, time goes on with the wall clock: the windows of a quiet application close when
    their time has passed.
    """

    lag: int = 0
    function: Callable[[Any, Any, int], int | None] | None = None
    idle: int | None = None

    @classmethod
    def monotonic(cls) -> WatermarkStrategy:
        """Each record says its timestamp: what comes later with an older one is late. The default, and Kafka's way."""
        return cls()

    @classmethod
    def bounded(cls, out_of_orderness: timedelta | int) -> WatermarkStrategy:
        """Records may be this much out of order: time stays so far behind the newest of them."""
        return cls(lag=millis(out_of_orderness, "out_of_orderness", least=0))

    @classmethod
    def custom(cls, f: Callable[[Any, Any, int], int | None]) -> WatermarkStrategy:
        """``f(key, value, timestamp)`` says the watermark, in milliseconds; None: the record says nothing about time."""
        if not callable(f):
            raise TopologyError(
                f"WatermarkStrategy.custom() needs a function of (key, value, timestamp), but got {f!r}"
            )
        return cls(function=f)

    def idle_after(self, duration: timedelta | int) -> WatermarkStrategy:
        """Return the same strategy, with a time of its own after which a quiet partition is not waited for."""
        return replace(self, idle=millis(duration, "idle_after", least=1))

    def of(self, key: Any, value: Any, timestamp: int) -> int | None:
        """Return the watermark of a record, never less than 0; None if it says nothing."""
        if self.function is None:
            return max(timestamp - self.lag, 0)
        found = self.function(key, value, timestamp)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int):
            raise TypeError(
                f"the watermark strategy {describe_function(self.function)} returned {found!r}: "
                "must be milliseconds, or None"
            )
        return max(found, 0)
