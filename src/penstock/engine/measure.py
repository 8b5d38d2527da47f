"""How many records an epoch takes of a backlog: many, because each epoch costs something, and writes a row for each key that it meets;
but not more than fit, and not more than are done soon, so that a barrier is never far away.

Two things bound it. What epochs have cost so far tells how many records fit and are done soon. And an epoch that could not be done (a
worker was lost, the transaction became too old, memory or bytes were too few) is made smaller by halves until one can: the ceiling. It
rises again while epochs are done, quickly up to half of what was too much, then slowly, as TCP does after a loss; beyond it quickly
again, and step by step: what was too much once may be so for good.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.lane.orders import READING, Report

#: of an epoch while nothing is known of the records
FIRST_RECORDS = 50_000
#: of the work of an epoch, in each lane, and of its commit
MOST_US = 5_000_000
#: the least that an epoch takes, however slow its records are
LEAST_RECORDS = 100
#: what the end of a transaction costs, whatever is in it
COMMIT_US = 100_000
#: by which part of itself the ceiling rises near what was too much
SLOWLY = 16


def cost_of(reports: Iterable[Report]) -> tuple[int, int, int]:
    """Return how many records an epoch has read, their bytes as they were read, and the microseconds that all lanes have worked on them."""
    reports = list(reports)
    read = [report for report in reports if report.level == READING] or [each for each in reports if each.level == 0]
    records, size = sum(report.records for report in read), sum(report.size for report in read)
    spent = (report.spent for report in reports)
    return (
        records,
        size,
        sum(us for phases in spent for phase, us in phases.items() if phase not in ("read", "exchange")),
    )


class Measure:
    """Learns from epochs what the next one may take.

    >>> measure = Measure(1_000_000, most_bytes=1 << 28, lanes=2)
    >>> measure.records
    50000
    >>> measure.learn([Report(0, 0, records=30_000, size=3_000_000), Report(0, 1, records=20_000, size=2_000_000)])
    >>> measure.records
    1000000
    >>> measure.learn([Report(0, 0, records=50_000, size=500_000_000)])
    >>> measure.records
    26843
    >>> measure.learn([Report(0, 0, records=50_000, size=5_000_000, spent={"operators": 50_000_000})])
    >>> measure.records
    10000
    >>> measure.fail(10_000)
    >>> measure.records
    5000
    """

    def __init__(self, most_records: int, most_bytes: int, lanes: int, *, transaction_ms: int = 60_000) -> None:
        self._most_records = most_records
        self._most_bytes = most_bytes
        self._lanes = lanes
        #: of the commit: a transaction must end well before the cluster gives up on it
        self._commit_us = min(MOST_US, transaction_ms * 1000 // 3)
        self._estimate = FIRST_RECORDS
        #: not more than this, while something was too much; and how much that was
        self._ceiling: int | None = None
        self._too_much = 0

    @property
    def records(self) -> int:
        """What an epoch may take."""
        found = min(self._estimate, self._most_records)
        return found if self._ceiling is None else min(found, self._ceiling)

    def learn(self, reports: Iterable[Report], commit_us: int = 0) -> None:
        """Update the estimate from a finished epoch. ``commit_us``: how long it took to write its rows and to commit them."""
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
        """Make the next epoch smaller than one that took ``records``. ``read``, ``size``: of some of them, how many and their bytes."""
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
