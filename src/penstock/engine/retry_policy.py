"""Which failures are retried, and for how long: an unreachable broker by time, any other failure by the number of attempts."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.clock import Clock
from penstock.errors import BrokerError, EngineError, TopicError

logger = logging.getLogger("penstock.engine")

#: how long an unreachable broker is waited for
LONGEST_OUTAGE_MS = 15 * 60_000
#: attempts of an epoch that fails for any other reason
MOST_RUNS = 8
SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds

#: errors that may be retriable
Passing = BrokerError | EngineError


class RetryPolicy:
    """Counts the failures of one operation that is retried until it succeeds.

    >>> from penstock.clock import SystemClock
    >>> policy = RetryPolicy(SystemClock(), lambda seconds: print("pause", seconds))
    >>> for _ in range(3):
    ...     policy.retry("look for input", BrokerError("nobody there", retriable=True))
    pause 0.2
    pause 0.4
    pause 0.8
    >>> policy.retry("look for input", BrokerError("forbidden"))
    Traceback (most recent call last):
    penstock.errors.BrokerError: forbidden
    """

    def __init__(self, clock: Clock, pause: Callable[[float], None]) -> None:
        self._clock = clock
        self._pause = pause
        self._since: int | None = None
        self._runs = 1
        self._tries = 0

    def retry(self, doing: str, error: Passing, *, mended: bool = False) -> None:
        """Log a failure and back off; raise the error if it is not retriable or has lasted too long.

        ``mended``: its cause was dealt with, so it is retried although the error itself is not retriable.
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
    """Return whether the error itself is retriable."""
    if isinstance(error, EngineError):
        return error.passing
    if isinstance(error, TopicError):  # known topics are there: a record has named one that is not
        return False
    return (error.retriable or error.abortable) and not error.fatal
