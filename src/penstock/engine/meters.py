"""What is measured of epochs, beside `Totals`: distributions, and counts by kind. Written by the loop, read by any thread."""

from __future__ import annotations

from collections import Counter, defaultdict

import pyarrow as pa

from penstock.distribution import SECONDS, Distribution
from penstock.engine.history import CommittedEpoch
from penstock.protocol.envelope import SINK

#: upper bounds, in records and bytes
RECORDS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
BYTES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
#: upper bounds in seconds of the time from a record's timestamp to its commit; rows of a batch that are measured
LATENCY = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0)
MOST_MEASURED = 1_000
#: steps that are not part of the commit
RUNNING = ("run lanes",)


class Meters:
    """Distributions and counts since the start."""

    def __init__(self) -> None:
        self.epochs: Counter[str] = Counter()
        self.retries: Counter[str] = Counter()
        self.produced_bytes: Counter[str] = Counter()
        self.changelog_rows: Counter[str] = Counter()
        self.durations: defaultdict[str, Distribution] = defaultdict(lambda: Distribution(SECONDS))
        self.steps: defaultdict[str, Distribution] = defaultdict(lambda: Distribution(SECONDS))
        self.commits = Distribution(SECONDS)
        self.records = Distribution(RECORDS)
        self.bytes = Distribution(BYTES)
        #: sink topic → time from the timestamps of rows to their commit, of some rows of each epoch
        self.latencies: defaultdict[str, Distribution] = defaultdict(lambda: Distribution(LATENCY))

    def add_latencies(self, rows: pa.Table | None, now: int) -> None:
        """Measure rows of sinks that were just committed, some of many."""
        for batch in () if rows is None else rows.to_batches():
            few = batch.take(pa.array(range(0, len(batch), -(-len(batch) // MOST_MEASURED)))) if len(batch) else batch
            names, sinks = few["name"], few["kind"].to_numpy() == SINK
            seconds = (now - few["timestamp"].to_numpy()) / 1000
            for number, topic in enumerate(names.dictionary.to_pylist()):
                mine = seconds[sinks & (names.indices.to_numpy(zero_copy_only=False) == number)]
                if len(mine):
                    self.latencies[topic].add_all(mine)

    def count(self, epoch: CommittedEpoch) -> None:
        """Add a committed epoch."""
        steps = {step: us / 1e6 for step, us in epoch.steps.items() if not step.startswith("lane: ")}
        self.epochs[epoch.kind] += 1
        self.durations[epoch.kind].add(epoch.duration_us / 1e6)
        for step, seconds in steps.items():
            self.steps[step].add(seconds)
        self.commits.add(sum(seconds for step, seconds in steps.items() if step not in RUNNING))
        if epoch.partitions:
            self.records.add(epoch.records)
            self.bytes.add(epoch.size)
