"""When an epoch has work: input waits, event time is due, or a wall-clock punctuation, timer or schedule is."""

from __future__ import annotations

from collections.abc import Container, Mapping

from penstock.clock import Clock
from penstock.engine.committed_state import CommittedState
from penstock.engine.offsets import Input
from penstock.log.base import TopicPartition
from penstock.protocol.request import Range
from penstock.protocol.timing import PartitionTime, TimeUpdate, Timing

#: milliseconds between two looks for input, if there was none: at first, and at last
SHORTEST_LOOK_MS, LONGEST_LOOK_MS = 10, 100


class DueWork:
    """Decides whether an epoch without input is run, and how long the loop rests.

    ``waking``: level → the shards that may have work of the wall clock.
    """

    def __init__(
        self, source: Input, timing: Timing, waking: Mapping[int, Container[int]], clock: Clock, interval_ms: int
    ) -> None:
        self._input = source
        self._timing = timing
        self._waking = waking
        self._clock = clock
        self._interval_ms = interval_ms
        self._first = True
        #: wall-clock time of the last barrier that input was part of
        self._read_at = 0

    def time_update(self, committed: CommittedState, ranges: list[Range]) -> TimeUpdate:
        """Return the time update of an epoch that reads these ranges now."""
        waiting = self._waiting()
        waiting.update((r.topic, r.partition) for r in ranges)
        return self._timing.time_update(committed.observed, self._input.source_of, waiting, self._clock.now_ms())

    def partition_times(self, committed: CommittedState) -> list[PartitionTime]:
        """Return how far each source partition has come: by any thread."""
        return self._timing.partition_times(
            committed.observed, self._input.source_of, self._waiting(), self._clock.now_ms()
        )

    def _waiting(self) -> set[TopicPartition]:
        return {partition for partition, count in self._input.lags().items() if count}

    def is_due(self, committed: CommittedState) -> bool:
        """Whether there is work without input; a node that schedules must have run once."""
        if committed.is_due(self.time_update(committed, [])):
            return True
        if not self._waking:
            return False
        due = committed.due(self._waking)
        return self._first or (due is not None and due <= self._clock.now_ms())

    def idle_ms(self, committed: CommittedState, *, paused: bool) -> int:
        """Return how long to rest before the next look: until something is due, but not so long that input waits."""
        look = look_ms(self._clock.now_ms() - self._read_at, self._interval_ms)
        due = None if paused or not self._waking else committed.due(self._waking)
        return look if due is None else max(1, min(look, due - self._clock.now_ms()))

    def ran(self, ranges: list[Range]) -> None:
        """Note a committed epoch."""
        self._first = False
        if ranges:
            self._read_at = self._clock.now_ms()


def look_ms(quiet_ms: int, interval_ms: int) -> int:
    """Return how long to wait before the next look for input, when there was none for so long: a tenth of that.

    So a record waits little where records are frequent, and looks cost little where they are rare.

    >>> [look_ms(quiet, 100) for quiet in (0, 300, 5000)]
    [10, 30, 100]
    """
    return max(SHORTEST_LOOK_MS, min(interval_ms, LONGEST_LOOK_MS, quiet_ms // 10))
