"""What a task does because time has come: punctuators, timers and schedules; and the place in the order of what that gives out."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.clock import stopwatch_ns
from penstock.errors import TopologyError
from penstock.lane.task_time import PUNCTUATED, WOKEN, released_at
from penstock.processor.node_meter import PUNCTUATION_SECONDS
from penstock.processor.punctuation import ONCE, Cancellable, PunctuationQueue, PunctuationType
from penstock.processor.timers import Stoppable
from penstock.record import NO_ORIGIN, Origin
from penstock.schedule import Schedule
from penstock.state.spec import StoreKind
from penstock.topology.node import ProcessorNode

if TYPE_CHECKING:
    from penstock.lane.task import Task


class TaskPunctuation:
    """The work of one task that no record asks for."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.wall_clock = PunctuationQueue(PunctuationType.WALL_CLOCK_TIME)
        #: whether punctuations may be registered no more
        self.sealed = False
        #: what was at hand before each row that time gives out at the moment: (record, its place)
        self._at_hand: list[tuple[Origin, Origin | None]] = []

    def schedule(
        self, node: str, every: int, punctuation: PunctuationType, f: Callable[[int], None], start: int | None
    ) -> Stoppable:
        """Register a punctuation of a node. In the runtime ``init`` alone may do it: a task is made anew for every epoch."""
        if self.sealed and every != ONCE:
            raise TopologyError(
                f"node {node} calls schedule() outside of init: a processor object lives for one epoch, so the punctuation would be "
                "lost with it\n  remedy:   schedule it in init(), and keep in a store whether it has anything to do; or set timers, "
                "which are state: stores=[Stores.timers(name)] and context.timers"
            )
        if punctuation is PunctuationType.STREAM_TIME:
            return self._task.time.queue_of(node).schedule(node, every, f, start, self._task.time.now_of(node))
        return self.wall_clock.schedule(node, every, f, start, self._task.clock.now_ms())

    def schedule_at(self, node: str, schedule: Schedule, f: Callable[[int], None]) -> Cancellable:
        """Register what a source does at the times of a schedule."""
        return self.wall_clock.schedule_at(node, schedule, f, self._task.clock.now_ms())

    @property
    def due(self) -> int | None:
        """When the next punctuation by the wall clock is due, or None."""
        return self.wall_clock.due

    def punctuate(self) -> bool:
        """Run what is due by the wall clock; True if something ran."""
        return self.wall_clock.punctuate(
            self._task.clock.now_ms(), lambda node, f, time: self.run_punctuator(node, f, time, NO_ORIGIN)
        )

    def run_punctuator(self, node: str, f: Callable[[int], None], timestamp: int, origin: Origin) -> None:
        """Call a punctuator or timer. Its rows come behind those of the record that moved time, of several shards in their order."""
        task = self._task
        sub = (WOKEN, task.shard) if origin.topic is None else (PUNCTUATED, self._numbers[node], task.shard)
        task.placed = origin._replace(key=None, value=None, headers=(), sub=sub)
        task.origin = NO_ORIGIN._replace(timestamp=timestamp)
        clock, began = "wall_clock" if origin.topic is None else "stream", stopwatch_ns()
        task.meter.count("punctuations_total", node, clock)
        try:
            task.meter.timed(node, f, timestamp)
            task.forward_at_once()
        except Exception as error:
            task.errors.handle_timed(node, timestamp, error)
        finally:
            task.meter.spread(PUNCTUATION_SECONDS, node, clock).add((stopwatch_ns() - began) / 1e9)
            task.placed = None

    def run_timed(self, node: str, f: Callable[[int], None], now: int, origin: Origin) -> None:
        """Let a node give out what is due at a move of time."""
        self._task.origin = origin
        try:
            self._task.meter.timed(node, f, now)
            self._task.forward_at_once()
        except Exception as error:
            self._task.errors.handle_timed(node, now, error)

    def release(self, node: str, time: int, key: bytes) -> None:
        """Give what the node forwards next its place in the order: it leaves because time has come, and was due then.

        Invariant: whoever calls this calls ``released`` when the row has gone.
        """
        task = self._task
        due = time + task.time.clock(self._clock_of(node)).hold
        self._at_hand.append((task.origin, task.placed))
        task.time.cap()
        task.placed = task.origin = released_at(task.origin, self._release_numbers[node], due, key)

    def _clock_of(self, node: str) -> str:
        """Return the clock that a node goes by: its own, or that of both sides of a join."""
        found = self._task.topology.nodes[node]
        assert isinstance(found, ProcessorNode)
        return found.operator.shared_clock or node

    def released(self) -> None:
        """The row has gone: the record at hand is that of before. What it has changed in a cache leaves with it, at its time."""
        task = self._task
        task.forward_at_once()
        task.time.uncap()
        task.origin, task.placed = self._at_hand.pop()
        if self._at_hand:  # the row was given out while another one is on its way
            task.time.cap()

    @cached_property
    def _release_numbers(self) -> dict[str, int]:
        """Return the numbers of nodes, the two sides of a join with that of the first: either may give out the unmatched rows of both."""
        numbers, specs = dict(self._numbers), self._task.topology.stores
        shared: dict[str, int] = {}
        for node in self._task.topology.nodes:
            for store in self._task.topology.stores_of(node):
                if specs[store].kind is StoreKind.OUTER_JOIN:
                    numbers[node] = shared.setdefault(store, numbers[node])
        return numbers

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {node: number for number, node in enumerate(self._task.topology.nodes)}
