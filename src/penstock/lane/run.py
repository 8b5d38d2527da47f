"""A step of an epoch in one task: rows in, in Arrow; nodes run, shard by shard; rows out, in Arrow.

    take in      own records apart from rows for later steps and rows already final (``step_input``)
    order        by time, topic, partition, offset, and the position among siblings (``batches``)
    decode, run  wall-clock punctuators that are due, the records (``step_batches``), the caches, what time makes due
    seal         pending writes to a file of the shard, changelog rows to the driver
    report       snapshots, drops, times reached

An exception does not leave the task as one: it goes to the driver as a FAILURE row, whole, and the epoch is not committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from penstock.lane.activity import ACTIVITY
from penstock.lane.output import StepOutput
from penstock.lane.step_batches import StepBatches
from penstock.lane.step_input import StepInput
from penstock.lane.step_tasks import PhaseTimer, StepTasks
from penstock.lane.task import Task
from penstock.lane.worker import StepWorker, Worker
from penstock.lane.worker_log import WORKER_LOG
from penstock.processor.node_meter import CALL_SECONDS, new_meter
from penstock.protocol.envelope import FAILURE, NOTE, batch_of, order_of
from penstock.protocol.failure import pack_failure
from penstock.protocol.report import TaskReport, encode_report
from penstock.protocol.request import EpochRequest
from penstock.serde.registry.client import take_requests
from penstock.state import pending

Batches = Iterable[pa.RecordBatch]


def run_step(
    worker: StepWorker[Any], request: EpochRequest, level: int, task: int, batches: Batches, moves: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run one step in one task; a failure is a row, too. ``moves``: of time, filled once all batches are there."""
    try:
        yield from StepRun(worker, request, level, task, moves).run(batches)
    except GeneratorExit:
        worker.calls.give_up()
        raise
    except Exception as error:
        worker.failure = error
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
        worker.globals.stores(request)
        report.restored_by_store = worker.shards.take_restored()
        report.log = WORKER_LOG.take()
        yield batch_of(NOTE, order_of(0, lane, 1), [[""], [lane], [None], [encode_report(report)], [0]])
    except Exception as error:
        yield from said(0, lane)
        yield failed(0, lane, error)


class StepRun:
    """One step in one task. ``number`` is the lane, or where there was no exchange the number of the reading task."""

    def __init__(
        self, worker: StepWorker[Any], request: EpochRequest, level: int, number: int, moves: list[pa.RecordBatch]
    ) -> None:
        ACTIVITY.begin(f"epoch {request.epoch}, step {level}, lane {number}")
        WORKER_LOG.begin(request.levels)
        self._worker = worker
        self._request = request
        stage, step = worker.stage, worker.stage.step(level)
        self._stage, self._step = stage, step
        self._report = TaskReport(level, number)
        self._meter = new_meter()
        self._timer = PhaseTimer(self._report.spent)
        self._output = StepOutput(stage, request, step, number)
        self._tasks = StepTasks(worker, request, step, number, moves, self._meter, self._timer)
        WORKER_LOG.begin(request.levels, self._tasks)
        self._report.dropped = worker.globals.take_dropped()
        self._report.failures = worker.globals.take_failures()
        self._dead_letters = worker.globals.take_dead_letters(request)
        self._input = StepInput(
            stage, request, step, worker.sources, self._tasks, self._output, self._report, self._meter
        )
        #: objects of few records stay near, but what is kept or counted is so for all records of a batch at once
        in_windows = not step.stores and not stage.plan.counting
        self._batches = StepBatches(
            worker.sources,
            self._tasks,
            self._timer,
            dead_letters=stage.config["dead_letter_topic"],
            in_windows=in_windows,
        )
        #: rows need not wait for each other, as all are of one topic, in no order with others, and nothing is held back
        self._as_they_come = self._input.as_read and in_windows and not step.waits and len(request.topics) == 1

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield everything that leaves the step."""
        for rows in map(_together, batches) if self._as_they_come else (_together(*batches),):
            self._timer.charge("exchange" if self._step.exchange else "read")
            if rows is not None:
                work = yield from self._input.work(rows)
                self._timer.charge("order")
                self._tasks.wake()
                for batch in work:
                    self._batches.process(batch)
            if self._as_they_come:
                yield from self._leaving()
        self._tasks.wake()
        self._tasks.open_due()
        self._timer.charge("operators")
        for shard, task in self._tasks.opened():
            if self._step.exchange:
                task.finish()
            task.flush()
            yield from self._outgoing(shard, task)
        yield from self._output.leaving(self._dead_letters)
        yield from self._output.rest()
        self._timer.charge("encode")
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

    def _leaving(self) -> Iterator[pa.RecordBatch]:
        """Yield what has come of the rows so far: memory that was used is used again while it is near."""
        self._timer.charge("operators")
        for _, task in self._tasks.opened():
            yield from self._output.leaving(task.outputs)
            task.outputs.clear()
        self._timer.charge("encode")

    def _outgoing(self, shard: int, task: Task) -> Iterator[pa.RecordBatch]:
        self._timer.charge("operators")
        yield from self._output.leaving(task.outputs)
        self._timer.charge("encode")
        if self._step.stores:
            yield from self._writes(shard, task)
            yield from self._output.changes(shard, task.followed.packed())
        self._report_task(shard, task)
        task.close()
        self._tasks.release(shard)
        self._timer.charge("state")

    def _report_task(self, shard: int, task: Task) -> None:
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

    def _writes(self, shard: int, task: Task) -> Iterator[pa.RecordBatch]:
        """Keep the epoch's writes of a shard beside its state, and send its changelog rows."""
        sealed = {name: writes for name, writes in task.seal().items() if writes}
        if not sealed:
            return
        name = pending.file_name(self._request.token, self._step.level, self._worker.unique())
        self._worker.shards.keep_pending(shard, name, pending.pack(sealed))
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


def _together(*batches: pa.RecordBatch) -> pa.Table | None:
    """Return batches as one table; None if there are none."""
    return pa.Table.from_batches(batches) if batches else None
