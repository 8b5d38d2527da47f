"""Time as a task tells it to one node: by partition the greatest timestamp that was piped, and of these the least."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.lane.task_time import released_at
from penstock.record import NO_ORIGIN, Origin
from penstock.state.cache import CacheBudget
from penstock.state.event_time import EventTime


class PipedTime:
    """The time of a harness that pipes records: a mixin of what operators may ask their task about time.

    All nodes and stores have the same clock, for the same records feed them.
    """

    origin: Origin

    def __init__(self) -> None:
        self.origin = NO_ORIGIN
        self.clock = EventTime()
        self.cache = CacheBudget()
        self.times: dict[int, int] = {}
        self._calls: list[tuple[Callable[[int], None], Callable[[], int | None]]] = []
        self._at_hand: list[Any] = []

    def go_on(self, before: PipedTime) -> None:
        """Take over how far time had come."""
        self.times = before.times
        self.clock.reach(before.clock.now)

    def keep_time(self, stores: Iterable[Any]) -> None:
        """Let stores whose rows expire go along."""
        self._stores = [store for store in stores if store.keeps_time]
        for store in self._stores:
            store.keep_time(self.clock)

    def come_to(self, origin: Origin) -> None:
        """Come to a record as a task does: what is due leaves, the stores come to the time before it, then it moves time itself."""
        self._run_due()
        for store in self._stores:
            store.reach()
        index = origin.partition_index
        self.times[index] = max(self.times.get(index, -1), origin.timestamp)
        self.clock.reach(min(self.times.values()))
        self.origin = origin

    def pass_time(self, time: int, partition: int = 0) -> None:
        """Let a record move time that this shard does not have."""
        self.come_to(Origin("in", partition, 1000 + time, time, None, None, (), partition, time))
        self._run_due()

    def _run_due(self) -> None:
        for run, due in self._calls:
            first = due()
            if first is not None and first <= self.clock.now:
                run(self.clock.now)

    # ---- what operators ask

    def event_time(self, shared: str | None = None) -> EventTime:
        return self.clock

    def clock_of(self, node: str) -> EventTime:
        return self.clock

    def on_time(
        self,
        f: Callable[[int], None],
        due: Callable[[], int | None],
        shared: str | None = None,
        *,
        in_batches: bool = False,
    ) -> None:
        self._calls.append((f, due))

    def release(self, time: int, key: bytes) -> None:
        self._at_hand.append(self.origin)
        self.origin = released_at(self.origin, 0, time, key)

    def released(self) -> None:
        self.origin = self._at_hand.pop()
