"""The transaction of an epoch, from begin to end; and how a failed one is ended, so that the next begins as if it had
never been.

``abort`` ends a transaction that the producer can end. ``settle`` ends one that it cannot: ``init_transactions``
aborts what was open or, if its commit was under way, completes it, and the last epoch record tells which.

INVARIANT: another instance is never fenced off. One that has taken over is recognised by its epochs and by its fence:
this one then stops. The cluster fences a producer whose transaction has timed out as well; only the age of the
transaction tells that this is no sign of another instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.engine.record import read_last
from penstock.engine.work import EpochContext, Work
from penstock.errors import FencedError

#: the client's default
TRANSACTION_MS = 60_000


class TransactionRecovery:
    """Knows how long the transaction of an epoch is open, and ends it where that failed."""

    def __init__(self, context: EpochContext) -> None:
        self._context = context
        self._transaction_ms = transaction_ms(context.config["kafka"])
        self._since: int | None = None

    def begin(self) -> None:
        """Note that a transaction is about to begin."""
        self._since = self._context.clock.now_ms()

    def end(self) -> None:
        """Note that it has ended."""
        self._since = None

    @property
    def age(self) -> float:
        """How long the transaction is open, in parts of its timeout; 0 if none is."""
        return 0.0 if self._since is None else (self._context.clock.now_ms() - self._since) / self._transaction_ms

    def abort(self) -> None:
        """Abort the transaction, if one is open."""
        if self._since is not None:
            self._context.producer.abort()
            self.end()

    def settle(self, work: Work) -> bool:
        """End a transaction whose outcome is not known; return whether it was committed."""
        if self._context.exactly_once:
            self._is_committed(work)  # an instance that has gone on meanwhile must not be fenced
        self._context.producer.init()
        self.end()
        # at least once, rows may come twice: to run again is always right
        return self._context.exactly_once and self._is_committed(work)

    def _is_committed(self, work: Work) -> bool:
        """Return whether the last epoch record is that of this run. Epochs are numbered without gaps."""
        record = read_last(self._context.log, work.application_id)
        epoch = 0 if record is None else record.epoch
        if epoch == work.committed.epoch:
            return False
        if record is not None and record.token == work.request.token:
            return True
        raise FencedError(
            f"another instance with the same application_id has taken over while the cluster was away: epoch {epoch} is committed, "
            f"and this one knows of {work.committed.epoch}. Only one instance runs at a time: this one stops and has committed nothing",
            fatal=True,
        )


def transaction_ms(kafka: Mapping[str, Any]) -> int:
    """Return the transaction timeout in milliseconds, after which the cluster aborts an open transaction.

    >>> transaction_ms({"producer.transaction.timeout.ms": "90000"}), transaction_ms({})
    (90000, 60000)
    """
    name = "transaction.timeout.ms"
    return int(kafka.get(f"producer.{name}", kafka.get(name, TRANSACTION_MS)))
