"""What becomes of an application that an error ends: it shuts down, or starts again from its last barrier in the same process.

As Kafka's ``StreamsUncaughtExceptionHandler``: REPLACE_THREAD is ``restart``. Not asked about: another instance that has
taken over, and what fails before the application has run at all.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from penstock.errors import FencedError, describe_function
from penstock.setting_checks import UNCAUGHT

logger = logging.getLogger("penstock.engine")

#: seconds before a restart; twice as long each time, until an epoch was committed
SHORTEST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


class UncaughtErrors:
    """Decides about errors, one after the other. ``policy``: the setting ``on_uncaught_error``.

    >>> errors = UncaughtErrors("restart")
    >>> errors.restarts(ValueError("x"), ran=True), errors.restarts(FencedError("x"), ran=True)
    (True, False)
    >>> [errors.pause(committed) for committed in (False, False, True)]
    [1.0, 2.0, 1.0]
    """

    def __init__(self, policy: Any) -> None:
        self._policy = policy
        self._tries = 0
        #: how often the application was started again
        self.count = 0
        #: errors that ended the application, also those after which it was started again
        self.kinds: Counter[str] = Counter()

    def restarts(self, error: BaseException, *, ran: bool) -> bool:
        """Whether to start again. ``ran``: the application has been RUNNING."""
        if not ran or isinstance(error, FencedError) or not isinstance(error, Exception):
            return False
        if self._answer(error) != "restart":
            return False
        self.count += 1
        return True

    def pause(self, committed: bool) -> float:
        """Return how many seconds to wait. ``committed``: epochs were, since the last start."""
        self._tries = 0 if committed else self._tries
        seconds = min(SHORTEST_PAUSE * float(2**self._tries), LONGEST_PAUSE)
        self._tries = min(self._tries + 1, 10)
        return seconds

    def _answer(self, error: Exception) -> str:
        if not callable(self._policy):
            return str(self._policy)
        try:
            answer = self._policy(error)
        except Exception:
            logger.exception("on_uncaught_error (%s) has failed: shutdown", describe_function(self._policy))
            return "shutdown"
        if answer not in UNCAUGHT:
            said = f"must be one of {', '.join(UNCAUGHT)}"
            logger.error("on_uncaught_error (%s) returned %r: %s", describe_function(self._policy), answer, said)
        return str(answer)
