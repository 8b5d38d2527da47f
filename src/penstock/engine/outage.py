"""Failures that may pass, and how long they are borne: a broker that is away by time, everything else by tries."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.clock import Clock
from penstock.errors import BrokerError, EngineError, TopicError

logger = logging.getLogger("penstock.engine")

#: a broker that is away for longer than this is given up
LONGEST_OUTAGE_MS = 15 * 60_000
#: failures of another kind that an epoch may have
MOST_RUNS = 8
SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds

#: what may be tried again
Passing = BrokerError | EngineError


class Outage:
    """The failures of one thing that is tried until it works.

    >>> from penstock.clock import SystemClock
    >>> outage = Outage(SystemClock(), lambda seconds: print("pause", seconds))
    >>> for _ in range(3):
    ...     outage.bear("look for input", BrokerError("nobody there", retriable=True))
    pause 0.2
    pause 0.4
    pause 0.8
    >>> outage.bear("look for input", BrokerError("forbidden"))
    Traceback (most recent call last):
    penstock.errors.BrokerError: forbidden
    """

    def __init__(self, clock: Clock, pause: Callable[[float], None]) -> None:
        self._clock = clock
        self._pause = pause
        self._since: int | None = None
        self._runs = 1
        self._tries = 0

    def bear(self, doing: str, error: Passing, *, mended: bool = False) -> None:
        """Say that it is tried again, and wait a little; raise the error if it does not pass or has lasted too long.

        ``mended``: something was done about it, so that it may pass although it does not look like it.
        """
        if not mended and not passing(error):
            raise error
        if isinstance(error, BrokerError) and error.retriable:
            self._since = self._clock.now_ms() if self._since is None else self._since
            if self._clock.now_ms() - self._since >= LONGEST_OUTAGE_MS:
                raise error
        else:
            self._runs += 1
            if self._runs > MOST_RUNS:
                raise error
        logger.warning("%s: tried again: %s", doing, error)
        self._pause(min(SHORTEST_PAUSE * 2**self._tries, LONGEST_PAUSE))
        self._tries = min(self._tries + 1, 10)


def passing(error: Passing) -> bool:
    """Tell whether a second try may mend it, as far as the error itself says."""
    if isinstance(error, EngineError):
        return error.passing
    if isinstance(error, TopicError):  # known topics are there: a record has named one that is not
        return False
    return (error.retriable or error.abortable) and not error.fatal
