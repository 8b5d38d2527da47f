"""How long one call waits for a cluster that does not answer: until its deadline, with a pause before each new try."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from penstock.kafka_wire.errors import NoAnswer, Refused
from penstock.kafka_wire.settings import ProducerSettings

#: calls that wait are cut into slices, so that Ctrl-C and a shorter deadline are heard
SLICE_SECONDS = 1.0
#: the cluster is about to be done with the transaction before: it is asked again soon
CONCURRENT_TRANSACTIONS = 51
SOON_SECONDS = 0.002
#: tells whether a call that has waited so many seconds gives up; what it tells may change meanwhile
IsOver: TypeAlias = Callable[[float], bool]


def stopwatch_us() -> int:
    """Return microseconds of a clock that only goes forward: differences say how long something took."""
    return time.perf_counter_ns() // 1000


class Backoff:
    """One call's waiting: for as long as nothing goes on, ``most`` seconds if that is less than the deadline."""

    def __init__(self, is_over: IsOver, settings: ProducerSettings, most: float = math.inf) -> None:
        self._is_over = is_over
        self._most = most
        self._settings = settings
        self._since = stopwatch_us()
        self._pause = settings.backoff_seconds
        self._soon = min(SOON_SECONDS, settings.backoff_seconds)
        #: why the last try failed
        self.fault: Refused | OSError | None = None

    @property
    def seconds(self) -> float:
        """How long nothing has gone on."""
        return (stopwatch_us() - self._since) / 1e6

    def go_on(self) -> None:
        """Note that something went on: the waiting begins anew."""
        self._since = stopwatch_us()
        self._pause = self._settings.backoff_seconds

    def check(self) -> None:
        """Raise if the deadline is over."""
        if self.seconds >= self._most or self._is_over(self.seconds):
            raise self.fault or NoAnswer("the cluster does not answer")

    def pause(self, fault: Refused | OSError) -> None:
        """Wait a little before the next try, a little longer each time."""
        self.fault = fault
        self.check()
        if isinstance(fault, Refused) and fault.code == CONCURRENT_TRANSACTIONS:
            threading.Event().wait(self._soon)
            self._soon = min(self._soon * 2, self._settings.backoff_seconds)
            return
        threading.Event().wait(self._pause)
        self._pause = min(self._pause * 2, self._settings.longest_backoff_seconds)
