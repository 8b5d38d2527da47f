"""A step of an epoch in one task: rows in, in Arrow; nodes run, shard by shard; rows out, in Arrow.

    take in      own records apart from rows for later steps and rows already final, which pass
    order        by time, topic, partition, offset, and the position among siblings
    decode       by column
    run          wall-clock punctuators that are due, the records, the caches, what time makes due
    seal         pending writes to a file of the shard, changelog rows to the driver
    report       snapshots, drops, times reached

An exception does not leave the task as one: it goes to the driver as a FAILURE row, whole, and the epoch is not committed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.batch.batch import Batch
from penstock.batch.fallback import Undecodable
from penstock.clock import StillClock, stopwatch_us
from penstock.lane import ordering
from penstock.lane.activity import ACTIVITY
from penstock.lane.batches import envelope_batches, raw_batches
from penstock.lane.dead_letters import order_dead_letters
from penstock.lane.mixed import Mixed, Work
from penstock.lane.ordering import UNTIMED, ShortRun, SourceBatch, SourceRows
from penstock.lane.output import StepOutput
from penstock.lane.record_times import greatest_times, moves_of
from penstock.lane.task import Task
from penstock.lane.timeline import Moves, Timelines
from penstock.lane.worker import Worker
from penstock.lane.worker_log import WORKER_LOG
from penstock.operators.scheduled import FIRST_SHARD
from penstock.processor.node_meter import CALL_SECONDS, LATENESS, NoMeter, new_meter
from penstock.protocol.envelope import (
    CHANGES,
    COUNTED,
    FAILURE,
    NOTE,
    PENDING,
    batch_of,
    check,
    order_of,
)
from penstock.protocol.failure import pack_failure
from penstock.protocol.report import TaskReport, encode_report
from penstock.protocol.request import EpochRequest, offsets
from penstock.protocol.timing import known_due
from penstock.serde.registry.client import take_requests
from penstock.state import pending
from penstock.state.base import Sealed, ShardState
from penstock.state.changes import TableChanges
from penstock.state.memory import MemoryState
from penstock.state.overlay import OverlayState
from penstock.state.shards import lane_of

Batches = Iterable[pa.RecordBatch]
#: fewer records than these go one by one: a column is not worth its making
FEW = 4
#: rows of a batch that was given up which are tried by column again, and else go one by one
PART = 1024


def run_step(
    worker: Worker, request: EpochRequest, level: int, task: int, batches: Batches, moves: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run one step in one task; a failure is a row, too. ``moves``: of time, filled once all batches are there."""
    try:
        yield from StepRun(worker, request, level, task, moves).run(batches)
    except GeneratorExit:
        worker.calls.give_up()
        raise
    except Exception as error:
        worker.calls.give_up()
        yield from said(level, task)
        yield failed(level, task, error)


def failed(level: int, task: int, error: Exception) -> pa.RecordBatch:
    """Return the row of a failure."""
    return batch_of(FAILURE, order_of(level, task, 1), [[""], [0], [None], [pack_failure(error)], [0]])


def said(level: int, task: int) -> Iterator[pa.RecordBatch]:
    """Yield what a task that fails has logged, if it has."""
    if lines := WORKER_LOG.take():
        report = TaskReport(level, task, log=lines)
        yield batch_of(NOTE, order_of(level, task, 0), [[""], [task], [None], [encode_report(report)], [0]])


def restore_lane(worker: Worker, request: EpochRequest, lane: int) -> Iterator[pa.RecordBatch]:
    """Bring the shards of a lane to the last barrier, or as many rows nearer to it as the request allows; report what is left."""
    report = TaskReport(0, lane)
    ACTIVITY.begin(f"restoring lane {lane}")
    WORKER_LOG.begin(request.levels)
    worker.shards.take_restored()
    try:
        for shard in range(lane, worker.stage.shards, worker.stage.lanes):
            done, left = worker.shards.approach(shard, request)
            report.records += done
            report.left += sum(left.values())
            for store, offsets_left in left.items():
                report.left_by_store[store] = report.left_by_store.get(store, 0) + offsets_left
        worker.global_stores(request)
        report.restored_by_store = worker.shards.take_restored()
        report.log = WORKER_LOG.take()
        yield batch_of(NOTE, order_of(0, lane, 1), [[""], [lane], [None], [encode_report(report)], [0]])
    except Exception as error:
        yield from said(0, lane)
        yield failed(0, lane, error)


class StepRun:
    """One step in one task. ``task`` is the lane, or where there was no exchange the number of the reading task."""

    def __init__(
        self, worker: Worker, request: EpochRequest, level: int, task: int, moves: list[pa.RecordBatch]
    ) -> None:
        ACTIVITY.begin(f"epoch {request.epoch}, step {level}, lane {task}")
        WORKER_LOG.begin(request.levels, self)
        #: the task that runs, for log lines
        self._at: Task | None = None
        self._moves = moves
        self._worker = worker
        self._stage = worker.stage
        self._request = request
        self._level = level
        self._number = task
        self._step = worker.stage.step(level)
        self._sources = worker.sources
        #: objects of few records stay near, but what is kept or counted is so for all records of a batch at once
        self._in_windows = not self._step.stores and not worker.stage.plan.counting
        #: there is no order between partitions to keep; of records that are counted together the last one counts
        self._as_read = not self._step.exchange and not self._step.timed and not worker.stage.plan.counting
        #: rows need not wait for each other either, as all are of one topic, and nothing is held back
        self._as_they_come = self._as_read and self._in_windows and not self._step.waits and len(request.topics) == 1
        #: how far the partitions are, and their watermarks
        self._reached, self._marks = offsets(request.reached), offsets(request.marks)
        self._waking = self._waking_shards()
        self._timelines: Timelines | None = None
        self._tasks: dict[int, Task] = {}
        self._states: dict[int, ShardState] = {}
        self._handed: dict[int, dict[str, Sealed]] = {}
        #: shard → tables that earlier steps have changed, and whose changes this one follows
        self._changes: dict[int, dict[str, TableChanges]] = {}
        plan = worker.stage.plan
        self._follows = {store for name in self._step.nodes for store in plan.follows.get(name, ())}
        self._report = TaskReport(level, task)
        self._meter = new_meter()
        self._output = StepOutput(worker.stage, request, self._step, task)
        self._globals = worker.global_stores(request)
        self._report.dropped = worker.take_dropped()
        self._report.failures = worker.take_failures()
        self._dead_letters = worker.take_dead_letters(request)
        #: sources of which records have come that cannot be read
        self._undecodable: set[str] = set()
        self._since = stopwatch_us()

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield everything that leaves the step."""
        for rows in map(_together, batches) if self._as_they_come else (_together(*batches),):
            self._spent("exchange" if self._step.exchange else "read")
            if rows is not None:
                work = yield from self._raw(rows) if self._level == 0 else self._rekeyed(rows)
                self._spent("order")
                self._wake()
                for batch in work:
                    self._process(batch)
            if self._as_they_come:
                yield from self._leaving()
        self._wake()
        for shard in self._due_shards():
            self._task(shard)
        self._spent("operators")
        for shard, task in sorted(self._tasks.items()):
            self._at = task
            if self._step.exchange:
                task.finish()
            task.flush()
            yield from self._outgoing(shard, task)
        yield from self._output.leaving(self._dead_letters)
        yield from self._output.rest()
        self._spent("encode")
        self._report.resources = bool(self._worker.resources)
        self._report_work()
        yield self._output.note(self._report)

    def _report_work(self) -> None:
        meter = self._meter
        self._report.nodes = [(node, *work) for node, work in meter.work().items()]
        for node, number, calls in self._worker.calls.take_work():
            meter.count("async_retries_total", node, times=calls.retries)
            meter.spread(CALL_SECONDS, node).merge(calls.seconds)
            self._report.gauges.append(("async_in_flight", (node,), number, calls.most))
        self._report.events = [(*event, count) for event, count in meter.events.items() if count]
        self._report.events += [("registry_requests_total", asked, count) for asked, count in take_requests().items()]
        self._report.spread += [(*of, found.counts, found.total) for of, found in meter.spreads.items()]
        self._report.user = [(*metric,) for metric in meter.user.collected()]
        self._report.log = WORKER_LOG.take()

    def log_fields(self, frame: FrameType | None) -> dict[str, Any]:
        """Return what a line that is logged now is about."""
        return {"lane": self._number} | ({} if self._at is None else self._at.log_fields(frame))

    def _wake(self) -> None:
        """Do what the wall clock makes due, before the first record."""
        waking, self._waking = self._waking, []
        for shard in waking:
            self._task(shard).punctuation.punctuate()

    def _leaving(self) -> Iterator[pa.RecordBatch]:
        """Yield what has come of the rows so far: memory that was used is used again while it is near."""
        self._spent("operators")
        for task in self._tasks.values():
            yield from self._output.leaving(task.outputs)
            task.outputs.clear()
        self._spent("encode")

    # ---- coming in

    def _raw(self, table: pa.Table) -> Generator[pa.RecordBatch, None, Iterator[Work]]:
        """Split raw rows: those for sources of later steps pass on as records, the others are this step's work."""
        request, stage = self._request, self._stage
        self._report.records += len(table)
        self._report.size += table.nbytes
        rows = ordering.numbered(table)
        self._report.read += _counted(rows, request.topics)
        told = "reached" in table.column_names
        if not told:
            rows = self._sources.extract_times(rows, request.topics, request.source_of, self._reached)
            rows = self._sources.ask_marks(rows, request.topics, request.source_of)
        untimed = rows.reached == UNTIMED
        if untimed.any():
            bad, rows = rows.where(untimed), rows.where(~untimed)
            self._sources.refuse_untimed(bad, request.topics, request.source_of, self._task(self._first_shard()))
        if told:
            after, marks = greatest_times(rows, rows.reached, request.topics), {}
            if rows.mark is not None:
                marks = greatest_times(rows, rows.mark, request.topics)
        else:
            known = dict(self._reached)
            rows, after = ordering.reach(rows, request.topics, self._reached)
            rows, marks = ordering.reach_marks(rows, request.topics, self._marks)
            self._reached.update(after)
            self._marks.update(marks)
        self._report.reached += [(topic, partition, time) for (topic, partition), time in after.items()]
        self._report.marks += [(topic, partition, mark) for (topic, partition), mark in marks.items() if mark >= 0]
        if not isinstance(self._meter, NoMeter):
            self._lateness(rows)
        if not self._step.exchange:  # no state: one task runs them all
            rows = rows._replace(shard=np.zeros_like(rows.shard))
        if not told and stage.plan.timed:  # where the records are read: the moves go on to the lanes
            watermarks = self._sources.watermarks(rows, request.topics, request.source_of)
            self._moves.append(moves_of(rows, watermarks, np.zeros(len(watermarks), dtype=bool), known, request))
        own = [n for n, topic in enumerate(request.topics) if request.source_of[topic] in self._step.sources]
        mine = np.isin(rows.topic, own)
        if not mine.all():
            for batch in raw_batches(rows.where(~mine), request.topics, request.source_of):
                assert not isinstance(batch, Mixed)
                yield self._output.pass_on(batch)
            rows = rows.where(mine)
        return raw_batches(rows, request.topics, request.source_of, self._mixes, as_read=self._as_read)

    def _rekeyed(self, table: pa.Table) -> Generator[pa.RecordBatch, None, Iterator[Work]]:
        """Split envelope rows: own records are work, pending writes are read through, all others ride on."""
        check(table)
        kind = table["kind"]
        mine = pc.is_in(table["name"], value_set=pa.array(self._step.sources, pa.string()))
        own = pc.and_(pc.less_equal(kind, COUNTED), mine)
        waiting = pc.is_in(kind, value_set=pa.array([PENDING, CHANGES], pa.int8()))
        self._take_changes(table.filter(pc.equal(kind, CHANGES)))
        read = [store for store in self._step.stores if store not in self._follows]
        handed = pc.and_(pc.equal(kind, PENDING), pc.is_in(table["name"], value_set=pa.array(read, pa.string())))
        for row in table.filter(handed).select(["name", "partition", "value"]).to_pylist():
            for store, sealed in pending.unpack(row["value"]).items():
                _join(self._handed.setdefault(row["partition"], {}), store, sealed)
        last = self._level == self._stage.plan.steps[-1].level
        rides = pc.invert(pc.or_(own, waiting)) if last else pc.invert(own)
        riding = table.filter(rides)
        if len(riding):
            yield from riding.combine_chunks().to_batches()
        records = table.filter(own)
        self._report.records, self._report.size = len(records), records.nbytes
        return envelope_batches(records, self._request.topics, self._mixes)

    def _take_changes(self, table: pa.Table) -> None:
        for row in table.select(["name", "partition", "value"]).to_pylist():
            if row["name"] in self._follows:
                of_shard = self._changes.setdefault(row["partition"], {})
                of_shard.setdefault(row["name"], TableChanges()).join(TableChanges.unpack(row["value"]))

    def _lateness(self, rows: SourceRows) -> None:
        """Tell how far records are behind the time of their partition."""
        for number, topic in enumerate(self._request.topics):
            mine = rows if len(self._request.topics) == 1 else rows.where(rows.topic == number)
            if len(mine.timestamp):
                self._meter.spread(LATENESS, topic).add_all((mine.reached - mine.timestamp) / 1000)

    # ---- running

    def _mixes(self, shard: int, sources: Sequence[str]) -> bool:
        return self._task(shard).batches.takes(*sources)

    def _process(self, batch: Work) -> None:
        """Run the records of a batch: by column, if they and the nodes are such, else one by one."""
        task = self._task(batch.shard)
        if isinstance(batch, Mixed):
            if not self._process_together(batch, task):
                self._process_mixed_parts(batch, task)
            return
        if isinstance(batch, ShortRun):
            self._process_records(batch, task)
            return
        if batch.counted:
            task.batches.process(batch.source, self._sources.counted(batch))
            return
        for part in batch.windows() if self._in_windows else (batch,):
            if not self._process_batch(part, task):
                self._process_parts(part, task)

    def _process_parts(self, batch: SourceBatch, task: Task) -> None:
        """Run the records of a batch that was given up: few at a time by column, and one by one where that is given up, too."""
        for part in batch.windows(PART):
            if len(part) == len(batch) or not self._process_batch(part, task):
                self._process_records(part, task)

    def _process_mixed_parts(self, mixed: Mixed, task: Task) -> None:
        """Do so with rows of several sources."""
        for part in mixed.parts(PART):
            if len(part) == len(mixed) or not self._process_together(part, task):
                for batch in part.split():
                    self._process(batch)

    def _process_records(self, batch: SourceBatch | ShortRun, task: Task) -> None:
        self._spent("operators")
        records = self._sources.records(batch, task)
        self._spent("decode")
        task.process_all(batch.source, records)

    def _process_batch(self, batch: SourceBatch, task: Task) -> bool:
        if len(batch) < FEW or not task.batches.takes(batch.source):
            return False
        leaving = len(task.outputs)
        if not self._process_readable(batch, task):
            return False
        order_dead_letters(task.outputs, leaving, self._stage.config["dead_letter_topic"], batch.provenance)
        return True

    def _process_readable(self, batch: SourceBatch, task: Task) -> bool:
        """Run the records of a batch by column that can be read, and ask the policy about the others."""
        self._spent("operators")
        if batch.source not in self._undecodable:
            columns = self._sources.columns(batch, self._spent)
            self._spent("decode")
            with suppress(Undecodable):
                if columns is not None:
                    return task.batches.process(batch.source, columns)
            self._undecodable.add(batch.source)
        columns, others = self._sources.readable(batch)
        self._spent("decode")
        if len(columns) and not task.batches.process(batch.source, columns):
            return False
        self._sources.refuse_at(batch, others, task)
        return True

    def _process_together(self, mixed: Mixed, task: Task) -> bool:
        """Run records of several sources by column; False, and nothing has happened, if they have to go apart."""
        if not task.batches.takes(*(batch.source for batch in mixed.batches)):
            return False
        leaving = len(task.outputs)
        if not self._process_readable_together(mixed, task):
            return False
        order_dead_letters(task.outputs, leaving, self._stage.config["dead_letter_topic"], None)
        return True

    def _process_readable_together(self, mixed: Mixed, task: Task) -> bool:
        with suppress(Undecodable):
            parts = self._read_together(mixed, lambda batch: self._sources.columns(batch, self._spent))
            if len(parts) == len(mixed.batches):
                return task.batches.process_together(parts)
        others: list[tuple[SourceBatch, list[int]]] = []

        def readable(batch: SourceBatch) -> Batch | None:
            columns, bad = self._sources.readable(batch)
            others.append((batch, bad))
            return columns if len(columns) else None

        parts = self._read_together(mixed, readable)
        if parts and not (task.batches.takes(*parts) and task.batches.process_together(parts)):
            return False
        for batch, bad in others:
            self._sources.refuse_at(batch, bad, task)
        return True

    def _read_together(self, mixed: Mixed, read: Callable[[SourceBatch], Batch | None]) -> dict[str, Batch]:
        """Return records of several sources by column, with their places; without those of which there are none."""
        parts: dict[str, Batch] = {}
        self._spent("operators")
        for batch, places in zip(mixed.batches, mixed.places, strict=True):
            columns = read(batch)
            if columns is not None:
                columns.provenance.places = places
                parts[batch.source] = columns
        self._spent("decode")
        return parts

    def _own_shards(self) -> list[int]:
        return [s for s in range(self._stage.shards) if lane_of(s, self._stage.lanes) == self._number]

    def _waking_shards(self) -> list[int]:
        """Return the shards that may have work of the wall clock."""
        if self._step.scheduling:
            return self._own_shards()
        return [shard for shard in self._own_shards() if shard == FIRST_SHARD] if self._step.scheduled else []

    def _due_shards(self) -> list[int]:
        """Return the shards that have something to give once they are told of time, with or without a record."""
        shots = self._request.snapshots.get(self._level, {}) if self._step.exchange else {}
        return [shard for shard in self._own_shards() if shard in shots and self._is_due(shots[shard])]

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

    def _first_shard(self) -> int:
        return self._number if self._step.exchange and self._number < self._stage.shards else 0

    def _task(self, shard: int) -> Task:
        task = self._tasks.get(shard)
        if task is None:
            self._spent("operators")
            task = self._tasks[shard] = self._open(shard)
            self._spent("state")
        self._at = task
        return task

    def _open(self, shard: int) -> Task:
        stage, request = self._stage, self._request
        state: ShardState = MemoryState()
        if self._step.stores:
            state = self._states[shard] = self._worker.shards.open(shard, request)
            self._worker.shards.clear_pending(shard, request.token)
            if shard in self._handed:
                state = OverlayState(state, self._handed[shard])
        task = Task(
            stage.plan.topology,
            shard,
            state,
            application_id=stage.application_id,
            config=stage.config,
            clock=StillClock(request.now),
            nodes=self._step.nodes,
            global_stores=self._globals,
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
            changes=self._changes.get(shard, {}),
            cache_bytes=request.cache_bytes,
            meter=self._meter,
        )
        snapshot = request.snapshots.get(self._level, {}).get(shard)
        if snapshot is not None:
            task.resume(snapshot)
        for level, shots in request.snapshots.items():  # a store that steps share is as far as any of them brought it
            if level != self._level and shard in shots:
                task.resume_stores(shots[shard]["stores"])
        task.begin()
        for store in self._step.read_later:
            task.stores[store].keep_for_later()
        return task

    def _partitions(self, topic: str) -> int:
        internal = self._stage.plan.topology.internal_topics.get(topic)
        if internal is not None:
            return internal.partitions or self._stage.shards
        return self._worker.partitions(topic, self._request.partitions)

    # ---- going out

    def _outgoing(self, shard: int, task: Task) -> Iterator[pa.RecordBatch]:
        self._spent("operators")
        yield from self._output.leaving(task.outputs)
        self._spent("encode")
        if self._step.stores:
            yield from self._writes(shard, task)
            yield from self._output.changes(shard, task.followed.packed())
        for (node, reason), count in task.dropped.items():
            self._report.dropped.append((node, reason, count))
        self._report.failures += task.failures.take()
        for store, held in task.buffers():
            for metric, value in (
                ("suppress_buffer_records", held.records),
                ("suppress_buffer_bytes", held.size_bytes),
            ):
                self._report.gauges.append((metric, (store,), shard, value))
        self._report.fallbacks += [(*counter, count) for counter, count in task.batches.fallbacks.items()]
        self._report.commit_requested |= task.commit_requested
        if self._step.exchange:
            self._report.snapshots[shard] = task.snapshot()
        task.close()
        if shard in self._states:
            self._states[shard].release()
        self._spent("state")

    def _writes(self, shard: int, task: Task) -> Iterator[pa.RecordBatch]:
        """Keep the epoch's writes of a shard beside its state, and send its changelog rows."""
        sealed = {name: writes for name, writes in task.seal().items() if writes}
        if not sealed:
            return
        data = pending.pack(sealed)
        name = pending.file_name(self._request.token, self._level, self._worker.unique())
        self._worker.shards.keep_pending(shard, name, data)
        self._worker.written.add(shard)
        self._report.pending[shard] = name
        later = {store: sealed[store] for store in self._step.read_later if store in sealed}
        if later:
            yield self._output.pending(shard, later)
        specs = self._stage.plan.topology.stores
        for store, writes in sealed.items():
            rows = len(writes.writes) + sum(
                len(part) for name, part in writes.side.items() if name.startswith(f"{store}/")
            )
            self._meter.count("store_writes_total", store, times=rows)
            if writes.changelog and specs[store].logged and specs[store].source_topic is None:
                yield from self._output.changelog(store, shard, writes)

    def _spent(self, on: str) -> None:
        now = stopwatch_us()
        self._report.spent[on] = self._report.spent.get(on, 0) + now - self._since
        self._since = now


def _together(*batches: pa.RecordBatch) -> pa.Table | None:
    """Return batches as one table; None if there are none."""
    return pa.Table.from_batches(batches) if batches else None


def _counted(rows: SourceRows, topics: Sequence[str]) -> list[tuple[str, int, int, int]]:
    """Return how many rows there are of each partition, and the bytes of their keys and values."""
    if not len(rows.offset):
        return []
    width = int(rows.partition.max()) + 1
    places = rows.topic.astype(np.int64) * width + rows.partition
    counts = np.bincount(places)
    sizes = np.bincount(places, weights=_lengths(rows.table["key"]) + _lengths(rows.table["value"]))
    found = ((divmod(at, width), int(counts[at]), int(sizes[at])) for at in np.flatnonzero(counts).tolist())
    return [(topics[topic], partition, count, size) for (topic, partition), count, size in found]


def _lengths(column: Any) -> Any:
    return pc.fill_null(pc.binary_length(column), 0).to_numpy()


def _join(handed: dict[str, Sealed], store: str, sealed: Sealed) -> None:
    """Put a later step's writes of a store above those of an earlier one."""
    known = handed.setdefault(store, Sealed())
    known.drops += sealed.drops
    known.writes = [*known.writes, *sealed.writes]
    for part, rows in sealed.side.items():
        known.side[part] = [*known.side.get(part, ()), *rows]
