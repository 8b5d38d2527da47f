"""What is measured of epochs, beside `Totals`: distributions, and counts by kind. Written by the loop, read by any thread."""

from __future__ import annotations

from collections import Counter, defaultdict

from penstock.distribution import SECONDS, Distribution
from penstock.engine.history import CommittedEpoch

#: upper bounds, in records and bytes
RECORDS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
BYTES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
#: steps that are not part of the commit
RUNNING = ("run lanes",)


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
