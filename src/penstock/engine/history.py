"""What an application has done lately, for those who watch it: its last epochs, its last failures, its step now.

Written by the loop's thread and read by others. INVARIANT: what is in a ring is not changed any more, so that a copy
of the ring is all that a reader needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from penstock.engine.work import Work
from penstock.masking import scrubbed
from penstock.protocol.report import cost_of
from penstock.protocol.request import Range

#: epochs and failures that are kept
MOST_EPOCHS, MOST_FAILURES = 1_000, 100
#: ranges of one epoch that are kept: an application may read thousands of partitions
MOST_RANGES = 64


class StepNow(NamedTuple):
    """What the loop is at: the step, its epoch, and when it began, by the stopwatch."""

    step: str
    epoch: int
    since_us: int


class Stall(NamedTuple):
    """Why an epoch is run again and again, and since when. ``away``: the broker does not answer."""

    reason: str
    away: bool
    since_us: int


@dataclass(frozen=True, slots=True)
class CommittedEpoch:
    """A committed epoch. Times of its steps and of the phases of its lanes are in microseconds."""

    epoch: int
    #: inline, spark, or tick: without input
    kind: str
    #: wall-clock time, in milliseconds
    committed_at: int
    records: int
    size: int
    #: sink topic → rows
    written: Mapping[str, int]
    #: partitions that were read, and what was read of the first of them
    partitions: int
    ranges: tuple[Range, ...]
    steps: Mapping[str, int]

    @property
    def duration_us(self) -> int:
        """How long it took in the driver, from the run of the lanes to the commit."""
        return sum(us for step, us in self.steps.items() if not step.startswith("lane: "))

    def data(self) -> dict[str, Any]:
        """Return it as plain data."""
        ranges = [r._asdict() for r in self.ranges]
        return asdict(self) | {"ranges": ranges, "duration_us": self.duration_us}


@dataclass(frozen=True, slots=True)
class EpochFailure:
    """An attempt of an epoch that failed and was run again."""

    at: int
    epoch: int
    step: str
    error: str
    message: str


class History:
    """The last epochs and failures."""

    def __init__(self) -> None:
        self.epochs: deque[CommittedEpoch] = deque(maxlen=MOST_EPOCHS)
        self.failures: deque[EpochFailure] = deque(maxlen=MOST_FAILURES)

    def committed(self, work: Work, inline: bool, profile: Mapping[str, int], now: int) -> CommittedEpoch:
        """Add a committed epoch. ``profile``: microseconds by phase of the lanes and by step."""
        records, size, _ = cost_of(work.reports)
        epoch = CommittedEpoch(
            work.request.epoch,
            ("inline" if inline else "spark") if work.ranges else "tick",
            now,
            records,
            size,
            dict(work.written),
            len(work.ranges),
            tuple(work.ranges[:MOST_RANGES]),
            dict(profile),
        )
        self.epochs.append(epoch)
        return epoch

    def failed(self, now: int, epoch: int, step: str, error: BaseException) -> None:
        """Add an attempt that failed."""
        self.failures.append(EpochFailure(now, epoch, step, type(error).__name__, scrubbed(str(error))[:2_000]))
