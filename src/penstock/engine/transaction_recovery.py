"""What a failed run of an epoch has left behind, and how the next one begins as if it had never been.

    nothing open          nothing to do
    a transaction         aborted
    a lost producer       takes over from itself: what it had open is aborted or, if its commit was under way, committed;
                          the last epoch's record then tells which

A producer is lost when it cannot come back by an abort: its client is stuck or says that it is done for, the abort itself failed,
nobody knows whether the commit was done, or the transaction was open for so long that the cluster gave up on it.

INVARIANT: nobody is robbed. An instance that has taken over is found by its epochs and by its fence: this one then stops. The cluster
fences a producer whose transaction is too old, too; only then, by the time that it was open, this is no sign of another instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.clock import Clock
from penstock.engine.commit import Work
from penstock.engine.record import read_last
from penstock.engine.retry_policy import Passing, passing
from penstock.errors import BrokerError, FencedError
from penstock.log.base import Log, Producer

#: what the loop does when it calls ``settle``
SETTLE = "settle"
#: the client's own, unless it is told otherwise
TRANSACTION_MS = 60_000


class TransactionRecovery:
    """Knows what is open. To be told when a transaction begins and ends, and of every failure."""

    def __init__(self, log: Log, producer: Producer, clock: Clock, config: Mapping[str, Any]) -> None:
        self._log = log
        self._producer = producer
        self._clock = clock
        self._exactly_once = config["processing_guarantee"] == "exactly_once"
        self._transaction_ms = transaction_ms(config["kafka"])
        self._since: int | None = None
        self._lost = False

    def begin(self) -> None:
        """Be told that a transaction is about to begin."""
        self._since = self._clock.now_ms()

    def end(self) -> None:
        """Be told that it was committed."""
        self._since = None

    def judge(self, doing: str, error: Passing) -> bool:
        """Be told of a failure; tell whether a second run may mend it."""
        if isinstance(error, BrokerError) and self._since is not None:
            self._lost |= self._loses(doing, error)
        if doing == SETTLE and isinstance(error, FencedError):
            return False
        return self._lost or passing(error)

    def is_slow(self) -> bool:
        """Whether a transaction is open for so long that a smaller one would be better: it must end before the cluster gives up on it."""
        return self._since is not None and 2 * (self._clock.now_ms() - self._since) >= self._transaction_ms

    def settle(self, work: Work) -> bool:
        """Come back from a failed run; tell whether it was committed after all. A ``FencedError`` is the last word."""
        if self._since is not None and not self._lost:
            try:
                self._producer.abort()
            except BrokerError as error:
                if isinstance(error, FencedError) and not self._is_too_old():
                    raise
                self._lost = True
        committed = self._lost and self._take_over(work)
        self._since, self._lost = None, False
        return committed

    def leave(self, doing: str, error: BaseException) -> None:
        """Abort what is open, if that can be done: readers of the topics would wait for its end until it times out."""
        since, self._since = self._since, None
        unsure = isinstance(error, BrokerError) and (error.fatal or (doing == "commit" and not error.abortable))
        if since is not None and not self._lost and not unsure:
            self._producer.abort()

    def _loses(self, doing: str, error: BrokerError) -> bool:
        if isinstance(error, FencedError):
            return self._is_too_old()
        if error.fatal:
            return "AUTHORIZATION" not in (error.code or "")
        return doing == "commit" and error.retriable and not error.abortable

    def _is_too_old(self) -> bool:
        return self._since is not None and self._clock.now_ms() - self._since >= self._transaction_ms

    def _take_over(self, work: Work) -> bool:
        if not self._exactly_once:  # rows may come twice: to run again is always right
            self._producer.init()
            return False
        self._is_committed(work)  # an instance that goes on meanwhile is not to be fenced
        self._producer.init()
        return self._is_committed(work)

    def _is_committed(self, work: Work) -> bool:
        """Tell what the last barrier is: the one before this epoch, or this run's own. Epochs are numbered without gaps."""
        record = read_last(self._log, work.application_id)
        epoch = 0 if record is None else record.epoch
        if epoch == work.committed.epoch:
            return False
        if record is not None and record.token == work.orders.token:
            return True
        raise FencedError(
            f"another instance with the same application_id has taken over while the cluster was away: epoch {epoch} is committed, "
            f"and this one knows of {work.committed.epoch}. Only one instance runs at a time: this one stops and has committed nothing",
            fatal=True,
        )


def transaction_ms(kafka: Mapping[str, Any]) -> int:
    """Return after how many milliseconds the cluster gives up on an open transaction.

    >>> transaction_ms({"producer.transaction.timeout.ms": "90000"}), transaction_ms({})
    (90000, 60000)
    """
    name = "transaction.timeout.ms"
    return int(kafka.get(f"producer.{name}", kafka.get(name, TRANSACTION_MS)))
