"""The tasks of every shard, one record at a time, and their time: what runs while the test driver commits after every record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from penstock.engine.committed_state import CommittedState, merged
from penstock.errors import DeserializationError
from penstock.lane.async_calls import CallPool
from penstock.lane.sink import Row
from penstock.lane.source import Raw, SourceReader
from penstock.lane.task import Task
from penstock.lane.timeline import NO_MOVES, Timelines, find_moves
from penstock.plan.plan import Step
from penstock.protocol.raw_rows import PARTITIONS
from penstock.protocol.timing import ObservedTimes, Place, TimeUpdate, is_due
from penstock.record import Headers, Origin
from penstock.state.base import Sealed
from penstock.state.cache import budget_of_shard
from penstock.state.shards import lane_of, shard_of
from penstock.testing.application import TestedApplication


class Decoded(NamedTuple):
    """A record ready to be processed: where it goes and what it is."""

    source: str
    shard: int
    key: Any
    value: Any
    timestamp: int
    headers: Headers
    origin: Origin


class RecordTasks:
    """The tasks of every shard, run one after the other in this process.

    Invariant: what a shard computes depends only on the records of that shard and their order, never on the number of lanes.
    """

    def __init__(
        self, application: TestedApplication, view_of: Callable[[str], Any], *, keep_processors: bool = False
    ) -> None:
        """``view_of``: what a processor sees of a store that is not its own."""
        self._application = application
        self._view_of = view_of
        self._keep_processors = keep_processors
        plan, stage = application.plan, application.stage
        self._sources, self._steps = stage.sources, {step.level: step for step in plan.steps}
        self._readers = {name: SourceReader(node, application.clock) for name, node in stage.sources.items()}
        self._reached: dict[Place, int] = {}
        self._time_update = TimeUpdate()
        self._moves: list[tuple[Place, int, int, int]] = []
        self._made_times: Timelines | None = None
        self._started: set[tuple[int, int]] = set()
        self._marks: dict[Place, int] = {}
        self._new: set[Place] = set()
        self._observed = ObservedTimes()
        self._ahead: dict[tuple[str, int], int] = {}
        self._calls = CallPool()
        #: shards whose task has done something since the last barrier
        self._ran: set[int] = set()
        #: shard → snapshot of its task, which was closed at a barrier: a new one takes its place when there is work for it
        self._snapshots: dict[int, dict[str, Any]] = {}
        self.tasks = [self._open(shard) for shard in range(stage.shards)]
        self._in_order = sorted(range(stage.shards), key=lambda shard: (lane_of(shard, stage.lanes), shard))

    # ---- at a barrier

    def committed(self) -> CommittedState:
        """Return all that is known at the barrier, for whoever goes on from it."""
        shots = {task.shard: task.snapshot() for task in self.tasks}
        observed = self._observed
        return CommittedState(
            self._application.id,
            "",
            self._application.stage.lanes,
            self._application.no_requests,
            self._application.epoch,
            reached=observed.reached,
            snapshots={
                step.level: {shard: _of_step(step, shot) for shard, shot in shots.items()}
                for step in self._steps.values()
                if step.exchange
            },
            marks=observed.marks,
            arrived=observed.arrived,
            ahead=observed.ahead,
        )

    def resume(self, committed: CommittedState) -> None:
        """Go on from a barrier; to be called before the first record."""
        self._observed = committed.observed
        self._reached, self._marks = dict(committed.reached), dict(committed.marks)
        for task in self.tasks:
            shots = [shots[task.shard] for shots in committed.snapshots.values() if task.shard in shots]
            if shots:
                task.resume(merged(shots))

    # tasks

    def _open(self, shard: int) -> Task:
        application, stage = self._application, self._application.stage
        return Task(
            application.topology,
            shard,
            application.states[shard],
            global_stores=application.globals.stores,
            views=self._view_of,
            calls=partial(self._calls.caller, lane_of(shard, stage.lanes)),
            for_one_epoch=not self._keep_processors,
            shards=stage.shards,
            scopes=application.plan.scopes,
            follows=application.plan.follows,
            cache_bytes=budget_of_shard(application.config["cache_max_bytes"], stage.shards),
            meter=application.meter,
            **application.shared(),
        )

    def touch(self, shard: int) -> Task:
        """Return the task of a shard for work in this epoch: a new one, if it had worked in an epoch before.

        As in production: a task, and with it the user's processors, lives for one epoch.
        """
        task = self.tasks[shard]
        snapshot = self._snapshots.pop(shard, None)
        if snapshot is not None:
            old, task = task, self._open(shard)
            self.tasks[shard] = task
            task.resume(snapshot)
            task.outputs += old.outputs
            task.dropped = dict(Counter(old.dropped) + Counter(task.dropped))
        self._ran.add(shard)
        return task

    # reading

    def read(self, source: str, raw: Raw, partition_time: int) -> Decoded | None:
        """Decode a record, give it its place in time; None if it was dropped (and counted)."""
        try:
            key, value, timestamp = self._readers[source].read(raw, partition_time)
        except DeserializationError as error:
            self.touch(0).errors.refuse_input(source, raw, error)
            return None
        if timestamp < 0:
            self._application.dropped[source, "negative_timestamp"] += 1
            return None
        origin = raw.origin or self._origin(source, raw, key, value, timestamp)
        return Decoded(source, self._shard_of(source, raw, origin), key, value, timestamp, raw.headers, origin)

    def _shard_of(self, source: str, raw: Raw, origin: Origin) -> int:
        plan, shards = self._application.plan, self._application.stage.shards
        if source in plan.one_shard:
            return 0
        if source in plan.staying:
            return raw.partition
        if source in plan.by_partition:
            return raw.partition % shards
        return shard_of(raw.key, shards, max(origin.partition_index, 0))

    def _origin(self, source: str, raw: Raw, key: Any, value: Any, timestamp: int) -> Origin:
        place = (raw.topic, raw.partition)
        self._new.add(place)
        before = self._reached.get(place, -1)
        reached = self._reached[place] = max(before, timestamp)
        watermark, strategy = reached, self._sources[source].watermark
        if strategy is not None and strategy.function is not None:
            mark = self._readers[source].watermark(key, value, timestamp, raw)
            watermark = self._marks[place] = max(self._marks.get(place, -1), -1 if mark is None else mark)
        elif strategy is not None:
            watermark = max(reached - strategy.lag, 0)
        self._moves.append((place, raw.offset, reached, watermark))
        self._made_times = None
        return Origin(
            raw.topic, raw.partition, raw.offset, timestamp, raw.key, raw.value, raw.headers, raw.partition, reached
        )

    # running

    def process(self, record: Decoded) -> None:
        """Run one record in its shard, then the punctuators that its time makes due."""
        task = self.touch(record.shard)
        self._start(task, self._application.plan.level_of[record.source])
        task.process(record.source, record.key, record.value, record.timestamp, record.headers, record.origin)

    def punctuate_wall_clock(self) -> None:
        """Run the wall-clock punctuators that are due, shard by shard."""
        for task in self.tasks:
            due = task.punctuation.due
            if due is not None and due <= self._application.clock.now_ms():
                awake = self.touch(task.shard)
                awake.time.start(self._timelines(), nodes=())
                awake.punctuation.punctuate()

    # time

    def time_update(self, waiting: Container[Place] = ()) -> TimeUpdate:
        """Return what the tasks are told of time in an epoch that begins now; ``waiting``: partitions that it reads."""
        application = self._application
        sources = application.sources_of(topic for topic, _ in self._observed.reached)
        time_update = application.timing.time_update(self._observed, sources, waiting, application.clock.now_ms())
        self._ahead = {(group, index): time for group, index, time in time_update.ahead}
        return time_update

    def is_due(self, time_update: TimeUpdate) -> bool:
        """Whether an epoch without records would give something."""
        return any(is_due(time_update, {"due": task.time.due()}) for task in self.tasks)

    def begin(self, time_update: TimeUpdate) -> None:
        """Begin an epoch. Its records are to be read before the first one is run: they say how time goes on."""
        self._time_update, self._made_times = time_update, None
        self._started.clear()

    def catch_up(self) -> None:
        """Let the stores of all shards come to the time of the last barrier: whoever looks from outside sees what has expired."""
        self.begin(self.time_update())
        for task in self.tasks:
            task.time.start(self._timelines(), nodes=())
            task.time.reach_stores()

    def _timelines(self) -> Timelines:
        if self._made_times is None:
            topics = sorted({topic for topic, _ in self._reached})
            numbers = {topic: number for number, topic in enumerate(topics)}
            rows = sorted((numbers[t] * PARTITIONS + p, offset, *rest) for (t, p), offset, *rest in self._moves)
            columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
            source_of = self._application.sources_of(topics)
            moves = find_moves(*columns) if rows else NO_MOVES
            self._made_times = Timelines(moves, topics, source_of, self._time_update.feeds, self._reached)
        return self._made_times

    def _start(self, task: Task, level: int) -> None:
        if (level, task.shard) not in self._started:
            self._started.add((level, task.shard))
            task.time.start(self._timelines(), self._steps[level].nodes)
            task.begin()

    def finish_step(self, level: int) -> None:
        """Bring the tasks to the time at the end of the epoch, and let the nodes of a level give out what is due."""
        for shard in range(len(self.tasks)) if level in self._steps else ():
            if (level, shard) in self._started:
                self.tasks[shard].finish()
            elif self.tasks[shard].time.is_due(self._timelines(), self._steps[level].nodes):
                task = self.touch(shard)
                self._start(task, level)
                task.finish()

    def flush(self) -> None:
        """Let every cached store forward what changed, and all calls be answered."""
        try:
            for shard in sorted(self._ran):
                self.tasks[shard].flush()
        except BaseException:
            self._calls.give_up()
            raise

    def take_rows(self) -> list[Row]:
        """Return the rows that left the tasks since the last call, lane by lane."""
        rows: list[Row] = []
        for task in (self.tasks[shard] for shard in self._in_order):
            rows += task.take_rows()  # records go one by one here
        return rows + self._application.globals.take_dead_letters()

    def end_time(self) -> None:
        """Keep how far time has come: it begins there in the next epoch."""
        self._moves, self._made_times = [], None
        arrived = {**self._observed.arrived, **dict.fromkeys(self._new, self._application.clock.now_ms())}
        self._new.clear()
        self._observed = ObservedTimes(
            dict(self._reached), dict(self._marks), arrived, {**self._observed.ahead, **self._ahead}
        )

    def commit(self) -> None:
        """Seal what every shard has written, write it to the state, and its changelog rows to their topics."""
        started = {shard for _, shard in self._started}
        for shard in sorted(self._ran | started):
            task = self.tasks[shard]
            sealed = task.seal()
            self._application.write_changelogs(shard, sealed)
            self._end_epoch(task, sealed)
        self._ran.clear()

    def _end_epoch(self, task: Task, sealed: Mapping[str, Sealed]) -> None:
        """Write what a task has sealed; then it ends, and the user's processors with it, unless there are none or they are to be kept."""
        snapshot = None
        if task.init_calls and not self._keep_processors and (task.shard in self._ran or task.shard in self._snapshots):
            snapshot = task.snapshot()
        task.apply(sealed)
        task.commit_requested = False
        if snapshot is not None:
            self._snapshots[task.shard] = snapshot
            self._started -= {(level, task.shard) for level in self._steps}
            task.close()

    def close(self) -> None:
        """Close the user's processors; end the calls. What was dropped stays counted."""
        self._calls.close()
        for task in self.tasks:
            task.close()
            self._application.dropped.update(task.dropped)
            task.dropped.clear()


def _of_step(step: Step, shot: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a task of all nodes knows at a barrier without what is of other steps than one."""
    queues = {
        kind: {
            **queue,
            "scheduled": {node: count for node, count in queue["scheduled"].items() if node in step.nodes},
            "due": [row for row in queue["due"] if row[0] in step.nodes],
        }
        for kind, queue in shot["punctuations"].items()
    }
    stores = {name: numbers for name, numbers in shot["stores"].items() if name in step.stores}
    return {**shot, "punctuations": queues, "stores": stores}
