"""How long failures are retried: an unreachable broker by time, any other failure by the number of attempts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from penstock.clock import Clock
from penstock.errors import BrokerError, EngineError, SparkEnded
from penstock.protocol.request import Range

logger = logging.getLogger("penstock.engine")

#: how long an unreachable broker is waited for, unless ``task_timeout_ms`` says otherwise
LONGEST_RETRY_MS = 15 * 60_000
#: attempts of an epoch that fails for any other reason
MOST_RUNS = 8
SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds


class RetryPolicy:
    """Counts the failures of one operation that is retried until it succeeds.

    >>> from penstock.clock import SystemClock
    >>> policy = RetryPolicy(SystemClock(), lambda seconds: print("pause", seconds))
    >>> for _ in range(3):
    ...     policy.retry("look for input", BrokerError("nobody there", retriable=True))
    pause 0.2
    pause 0.4
    pause 0.8
    """

    def __init__(self, clock: Clock, pause: Callable[[float], None], outage_ms: int = LONGEST_RETRY_MS) -> None:
        self._retry_ms = outage_ms
        self._clock = clock
        self._pause = pause
        self._since: int | None = None
        self._runs = 1
        self._tries = 0

    def retry(self, doing: str, error: BaseException, ranges: Sequence[Range] = ()) -> None:
        """Log a failure and back off; raise the error if it has lasted too long.

        ``ranges``: what the epoch was to read. Where Spark fails again and again with the same records, they are named.
        """
        if self._is_over(error):
            raise _named(error, ranges)
        logger.warning("%s: tried again: %s", doing, error)
        self._pause(min(SHORTEST_PAUSE * 2**self._tries, LONGEST_PAUSE))
        self._tries = min(self._tries + 1, 10)

    def _is_over(self, error: BaseException) -> bool:
        if isinstance(error, BrokerError) and error.retriable:
            self._since = self._clock.now_ms() if self._since is None else self._since
            return self._clock.now_ms() - self._since >= self._retry_ms
        self._runs += 1
        return self._runs > MOST_RUNS


def _named(error: BaseException, ranges: Sequence[Range]) -> BaseException:
    if not ranges or not isinstance(error, EngineError) or isinstance(error, SparkEnded):
        return error
    named = ", ".join(f"{topic}-{partition} {start} to {end - 1}" for topic, partition, start, end in ranges[:20])
    last = EngineError(f"{error}. It was to read the offsets {named}", passing=False)
    last.__cause__ = error
    return last
