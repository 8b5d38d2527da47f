"""How many records an epoch takes of a backlog: many, because each epoch has a fixed cost and writes a row for each
key it updates, but no more than fit into memory and are done soon, so that a barrier is never far away.

There are two bounds. The *estimate* follows from the cost of the epochs so far. The *ceiling* is set when an epoch
could not be run (a worker was lost, the transaction timed out, memory or bytes were exceeded): half of what failed,
again and again until an epoch succeeds. It rises while epochs succeed, fast up to half of what failed and slowly from
there, as TCP does after a loss; beyond what failed fast again, but step by step: what failed once may fail for good.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.protocol.report import TaskReport, cost_of

#: records of the first epoch, before any cost is known
FIRST_RECORDS = 50_000
#: microseconds that an epoch may work in each lane, and that its commit may take
MOST_US = 5_000_000
#: records that an epoch takes at least, however slow they are
LEAST_RECORDS = 100
#: microseconds that the end of any transaction takes
COMMIT_US = 100_000
#: the fraction by which the ceiling rises near what failed
SLOWLY = 16


class EpochSizer:
    """Computes the size of the next epoch from the cost and the failures of earlier ones.

    >>> sizer = EpochSizer(1_000_000, most_bytes=1 << 28, lanes=2)
    >>> sizer.records
    50000
    >>> sizer.learn([TaskReport(0, 0, records=30_000, size=3_000_000), TaskReport(0, 1, records=20_000, size=2_000_000)])
    >>> sizer.records
    1000000
    >>> sizer.learn([TaskReport(0, 0, records=50_000, size=500_000_000)])
    >>> sizer.records
    26843
    >>> sizer.learn([TaskReport(0, 0, records=50_000, size=5_000_000, spent={"operators": 50_000_000})])
    >>> sizer.records
    10000
    >>> sizer.fail(10_000)
    >>> sizer.records
    5000
    """

    def __init__(self, most_records: int, most_bytes: int, lanes: int, *, transaction_ms: int = 60_000) -> None:
        self._most_records = most_records
        self._most_bytes = most_bytes
        self._lanes = lanes
        #: a transaction must end well before its timeout
        self._commit_us = min(MOST_US, transaction_ms * 1000 // 3)
        self._estimate = FIRST_RECORDS
        #: the ceiling, and the records that were too many
        self._ceiling: int | None = None
        self._too_much = 0

    @property
    def records(self) -> int:
        """Records that the next epoch may take."""
        found = min(self._estimate, self._most_records)
        return found if self._ceiling is None else min(found, self._ceiling)

    def learn(self, reports: Iterable[TaskReport], commit_us: int = 0) -> None:
        """Update the estimate from a committed epoch. ``commit_us``: the time of its transaction."""
        records, size, work = cost_of(reports)
        if not records:
            return
        fit = max(1, self._most_bytes * records // max(size, 1))
        commit_us = max(0, commit_us - COMMIT_US)
        done = MOST_US * records * self._lanes // max(work + commit_us * self._lanes, 1)
        committed = self._commit_us * records // max(commit_us, 1)
        self._estimate = min(fit, max(LEAST_RECORDS, min(done, committed)))
        self._rise(records)

    def fail(self, records: int, *, read: int = 0, size: int = 0) -> None:
        """Halve an epoch of ``records`` that failed. ``read``, ``size``: records and bytes that were read until then."""
        self._too_much = records
        self._ceiling = max(1, records // 2)
        if size:
            self._ceiling = max(1, min(self._ceiling, self._most_bytes * read // size))

    def _rise(self, records: int) -> None:
        if self._ceiling is None or records < self._ceiling // 2:
            return
        near = self._too_much // 2 <= self._ceiling < self._too_much
        self._ceiling += max(1, self._ceiling // SLOWLY) if near else self._ceiling
        if self._ceiling >= self._most_records:
            self._ceiling = None
