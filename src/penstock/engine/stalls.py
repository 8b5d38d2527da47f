"""While an epoch is run again and again: why, since when, and for how long the broker did not answer in all."""

from __future__ import annotations

from typing import NamedTuple

from penstock.clock import stopwatch_us
from penstock.errors import BrokerError


class Stall(NamedTuple):
    """Why an epoch is run again and again, and since when. ``away``: the broker does not answer."""

    reason: str
    away: bool
    since_us: int


class Stalls:
    """The stall of the epoch at hand, and the time without a broker of those before."""

    def __init__(self) -> None:
        #: None: the epoch at hand is not run again
        self.now: Stall | None = None
        self.unavailable_us = 0

    def begin(self, error: BaseException) -> None:
        """Note that the epoch is run again after an error; one of the same kind goes on."""
        away = isinstance(error, BrokerError) and error.retriable
        if self.now is None or self.now.away != away:
            self.end()
            self.now = Stall(type(error).__name__, away, stopwatch_us())

    def end(self) -> None:
        """Note that the epoch was committed, or given up."""
        stall, self.now = self.now, None
        if stall is not None and stall.away:
            self.unavailable_us += stopwatch_us() - stall.since_us
