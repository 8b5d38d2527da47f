"""How many records an epoch takes of a backlog: many, because each epoch costs something, and writes a row for each key that it meets;
but not more than fit, and not more than are done soon, so that a barrier is never far away.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.lane.orders import Report

#: of an epoch while nothing is known of the records
FIRST_RECORDS = 50_000
#: of the work of an epoch, in each lane
MOST_US = 5_000_000
#: the least that an epoch takes, however large or slow its records are
LEAST_RECORDS = 100


def cost_of(reports: Iterable[Report]) -> tuple[int, int, int]:
    """Return how many records an epoch has read, their bytes, and the microseconds that all lanes have worked on them."""
    records = size = work = 0
    for report in reports:
        records += report.records if report.level == 0 else 0
        size += report.size if report.level == 0 else 0
        work += sum(spent for phase, spent in report.spent.items() if phase not in ("read", "exchange"))
    return records, size, work


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
    """

    def __init__(self, most_records: int, most_bytes: int, lanes: int) -> None:
        self._most_records = most_records
        self._most_bytes = most_bytes
        self._lanes = lanes
        #: what an epoch may take
        self.records = min(FIRST_RECORDS, most_records)

    def learn(self, reports: Iterable[Report]) -> None:
        """Be told of an epoch."""
        records, size, work = cost_of(reports)
        if records:
            fit = self._most_bytes * records // max(size, 1)
            done = MOST_US * records * self._lanes // max(work, 1)
            self.records = min(self._most_records, max(LEAST_RECORDS, min(fit, done)))
