"""The tasks of a step: one for each shard that has work in it, opened when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import FrameType
from typing import Any

import pyarrow as pa

from penstock.clock import StillClock, stopwatch_us
from penstock.lane.task import Task
from penstock.lane.timeline import Moves, Timelines
from penstock.lane.worker import StepWorker
from penstock.operators.scheduled import FIRST_SHARD
from penstock.plan.plan import Step
from penstock.processor.node_meter import NodeMeter
from penstock.protocol.request import EpochRequest
from penstock.protocol.timing import known_due
from penstock.state.base import Sealed, ShardState
from penstock.state.changes import TableChanges
from penstock.state.memory import MemoryState
from penstock.state.overlay import OverlayState
from penstock.state.shards import lane_of


class PhaseTimer:
    """Tells on what the time of a step was spent. ``spent``: microseconds by phase, to which it adds."""

    def __init__(self, spent: dict[str, int]) -> None:
        self._spent = spent
        self._since = stopwatch_us()

    def charge(self, phase: str) -> None:
        """Charge a phase with the time since the last call."""
        now = stopwatch_us()
        self._spent[phase] = self._spent.get(phase, 0) + now - self._since
        self._since = now


class StepTasks:
    """The tasks of one step in one lane, or where there was no exchange of one reading task."""

    def __init__(
        self,
        worker: StepWorker[Any],
        request: EpochRequest,
        step: Step,
        number: int,
        moves: list[pa.RecordBatch],
        meter: NodeMeter,
        timer: PhaseTimer,
    ) -> None:
        """``moves``: of time, filled once all that comes to the step is there."""
        self._worker = worker
        self._stage = worker.stage
        self._request = request
        self._step = step
        self._number = number
        self._moves = moves
        self._meter = meter
        self._timer = timer
        self._timelines: Timelines | None = None
        self._tasks: dict[int, Task] = {}
        self._states: dict[int, ShardState] = {}
        #: the task that runs, for log lines
        self._at: Task | None = None
        #: shard → writes of earlier steps of the epoch that this one reads, by store
        self.handed: dict[int, dict[str, Sealed]] = {}
        #: shard → tables that earlier steps have changed, and whose changes this one follows
        self.changes: dict[int, dict[str, TableChanges]] = {}
        self._global_stores = worker.globals.stores(request)
        self._waking = self._may_wake()

    def of(self, shard: int) -> Task:
        """Return the task of a shard."""
        task = self._tasks.get(shard)
        if task is None:
            self._timer.charge("operators")
            task = self._tasks[shard] = self._open(shard)
            self._timer.charge("state")
        self._at = task
        return task

    def opened(self) -> Iterator[tuple[int, Task]]:
        """Yield the tasks that are open with their shards, in order."""
        for shard, task in sorted(self._tasks.items()):
            self._at = task
            yield shard, task

    def log_fields(self, frame: FrameType | None) -> dict[str, Any]:
        """Return what a line that is logged now is about."""
        return {"lane": self._number} | ({} if self._at is None else self._at.log_fields(frame))

    @property
    def first(self) -> Task:
        """The task that has to do with records of no shard."""
        return self.of(self._number if self._step.exchange and self._number < self._stage.shards else 0)

    # ---- which have work without a record

    def wake(self) -> None:
        """Do what the wall clock makes due; only the first call does."""
        waking, self._waking = self._waking, []
        for shard in waking:
            self.of(shard).punctuation.punctuate()

    def _may_wake(self) -> list[int]:
        """Return the shards that may have work of the wall clock."""
        if self._step.scheduling:
            return self._own_shards()
        return [shard for shard in self._own_shards() if shard == FIRST_SHARD] if self._step.scheduled else []

    def open_due(self) -> None:
        """Open the tasks that have something to give once they are told of time, with or without a record."""
        shots = self._request.snapshots.get(self._step.level, {}) if self._step.exchange else {}
        for shard in self._own_shards():
            if shard in shots and self._is_due(shots[shard]):
                self.of(shard)

    def _own_shards(self) -> list[int]:
        return [s for s in range(self._stage.shards) if lane_of(s, self._stage.lanes) == self._number]

    def _is_due(self, snapshot: Mapping[str, Any]) -> bool:
        """Whether something waits in a shard for a time that comes in this epoch."""
        timelines = self._times()
        return any(known < timelines.timeline(feed).end >= due for feed, (known, due) in known_due(snapshot))

    def _times(self) -> Timelines:
        """Return the times of the epoch; to be asked when all that comes to the step is there."""
        if self._timelines is None:
            request = self._request
            known = [(topic, partition) for topic, partition, _ in request.reached]
            moves = Moves.of(self._moves)
            self._timelines = Timelines(moves, request.topics, request.source_of, request.time_update.feeds, known)
        return self._timelines

    # ---- one task

    def _open(self, shard: int) -> Task:
        stage, request = self._stage, self._request
        task = Task(
            stage.plan.topology,
            shard,
            self._state(shard),
            application_id=stage.application_id,
            config=stage.config,
            clock=StillClock(request.now),
            nodes=self._step.nodes,
            global_stores=self._global_stores,
            views=lambda name: self._worker.view(name, request),
            partitions=self._partitions,
            for_one_epoch=True,
            calls=partial(self._worker.calls.caller, 0),  # a worker runs one lane at a time, any of them
            counted=() if request.cache_bytes == 0 else stage.counted_topics,
            timelines=self._times() if self._step.exchange else None,
            feeds=stage.feeds,
            resources=self._worker.resources,
            shards=stage.shards,
            scopes=stage.plan.scopes,
            batch_paths=stage.plan.batch_paths,
            follows=stage.plan.follows,
            changes=self.changes.get(shard, {}),
            cache_bytes=request.cache_bytes,
            meter=self._meter,
        )
        snapshot = request.snapshots.get(self._step.level, {}).get(shard)
        if snapshot is not None:
            task.resume(snapshot)
        for level, shots in request.snapshots.items():  # a store that steps share is as far as any of them brought it
            if level != self._step.level and shard in shots:
                task.resume_stores(shots[shard]["stores"])
        task.begin()
        for store in self._step.read_later:
            task.stores[store].keep_for_later()
        return task

    def _state(self, shard: int) -> ShardState:
        if not self._step.stores:
            return MemoryState()
        state = self._states[shard] = self._worker.shards.open(shard, self._request)
        self._worker.shards.clear_pending(shard, self._request.token)
        return OverlayState(state, self.handed[shard]) if shard in self.handed else state

    def release(self, shard: int) -> None:
        """Release the read views of a shard."""
        if shard in self._states:
            self._states[shard].release()

    def _partitions(self, topic: str) -> int:
        internal = self._stage.plan.topology.internal_topics.get(topic)
        if internal is not None:
            return internal.partitions or self._stage.shards
        return self._worker.partitions(topic, self._request.partitions)
