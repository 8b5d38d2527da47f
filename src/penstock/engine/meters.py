"""What is measured of epochs, beside `Totals`: distributions, and counts by kind. Written by the loop, read by any thread."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence

from penstock.engine.history import CommittedEpoch

#: upper bounds, in seconds, records and bytes
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
RECORDS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
BYTES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
#: steps that are not part of the commit
RUNNING = ("run lanes",)


class Distribution:
    """How often values were up to each bound, how many there were, and their sum.

    >>> found = Distribution((1, 10))
    >>> for value in (1, 4, 50):
    ...     found.add(value)
    >>> found.cumulative(), found.total
    ([1, 2, 3], 55.0)
    """

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[int]:
        """Return how many values were up to each bound; the last number is that of all."""
        found, sum_ = [], 0
        for count in tuple(self._counts):
            sum_ += count
            found.append(sum_)
        return found


class Meters:
    """Distributions and counts since the start."""

    def __init__(self) -> None:
        self.epochs: Counter[str] = Counter()
        self.retries: Counter[str] = Counter()
        self.consumed_bytes = 0
        self.produced_bytes: Counter[str] = Counter()
        self.changelog_rows: Counter[str] = Counter()
        self.durations: defaultdict[str, Distribution] = defaultdict(lambda: Distribution(SECONDS))
        self.steps: defaultdict[str, Distribution] = defaultdict(lambda: Distribution(SECONDS))
        self.commits = Distribution(SECONDS)
        self.records = Distribution(RECORDS)
        self.bytes = Distribution(BYTES)

    def count(self, epoch: CommittedEpoch) -> None:
        """Add a committed epoch."""
        steps = {step: us / 1e6 for step, us in epoch.steps.items() if not step.startswith("lane: ")}
        self.epochs[epoch.kind] += 1
        self.consumed_bytes += epoch.size
        self.durations[epoch.kind].add(epoch.duration_us / 1e6)
        for step, seconds in steps.items():
            self.steps[step].add(seconds)
        self.commits.add(sum(seconds for step, seconds in steps.items() if step not in RUNNING))
        if epoch.partitions:
            self.records.add(epoch.records)
            self.bytes.add(epoch.size)
