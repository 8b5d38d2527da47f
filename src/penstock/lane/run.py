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

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.clock import StillClock, SystemClock, stopwatch_us
from penstock.lane import inbox
from penstock.lane.envelope import (
    CHANGELOG,
    FAILURE,
    NOTE,
    PENDING,
    RECORD,
    SINK,
    batch_of,
    check,
    order_of,
    pack_headers,
    pack_place,
)
from penstock.lane.failure import pack_failure
from penstock.lane.inbox import JUDGE, Batch, Rows
from penstock.lane.orders import Orders, Report, encode_report, offsets
from penstock.lane.reading import Sources
from penstock.lane.sink import Row, SinkColumns
from penstock.lane.task import Task
from penstock.lane.timing import is_due
from penstock.lane.worker import Worker
from penstock.operators.scheduled import FIRST_SHARD
from penstock.processor.punctuation import PunctuationType
from penstock.record import Headers, Origin
from penstock.state import pending
from penstock.state.base import Sealed, ShardState
from penstock.state.memory import MemoryState
from penstock.state.overlay import OverlayState
from penstock.state.shards import lane_of, shard_of

Batches = Iterable[pa.RecordBatch]
#: fewer records than these go one by one: a column is not worth its making
FEW = 4


def run_step(worker: Worker, orders: Orders, level: int, task: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Run one step in one task; a failure is a row, too."""
    try:
        yield from StepRun(worker, orders, level, task).run(batches)
    except GeneratorExit:
        worker.calls.give_up()
        raise
    except Exception as error:
        worker.calls.give_up()
        yield batch_of(FAILURE, order_of(level, task, 1), [[""], [0], [None], [pack_failure(error)], [0]])


def tell_times(worker: Worker, orders: Orders, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Fill in, where the records are read, the timestamp of each and the time that its partition had reached."""
    sources = Sources(worker.stage.sources, SystemClock(), worker.stage.config)
    before, marks = offsets(orders.reached), offsets(orders.marks)
    for batch in batches:
        rows = inbox.numbered(pa.Table.from_batches([batch]))
        rows = sources.extract_times(rows, orders.topics, orders.source_of, before)
        rows = sources.ask_marks(rows, orders.topics, orders.source_of)
        judged = rows.reached == JUDGE
        times = np.where(judged, -1, rows.timestamp)
        rows, after = inbox.reach(rows._replace(timestamp=times), orders.topics, before, by_shard=False)
        before.update(after)
        rows, after = inbox.reach_marks(rows, orders.topics, marks)
        marks.update(after)
        told = [pa.array(rows.timestamp), batch["headers"], pa.array(np.where(judged, JUDGE, rows.reached))]
        kept = [batch[name] for name in ("shard", "place", "offset", "key", "value")]
        schema = inbox.TOLD_SCHEMA
        if rows.mark is not None:
            told.append(pa.array(rows.mark))
            schema = inbox.MARKED_SCHEMA
        yield pa.RecordBatch.from_arrays([*kept, *told], schema=schema)


def restore_lane(worker: Worker, orders: Orders, lane: int) -> Iterator[pa.RecordBatch]:
    """Bring the shards of a lane to the last barrier, or as many rows nearer to it as the orders allow; report what is left."""
    report = Report(0, lane)
    try:
        for shard in range(lane, worker.stage.shards, worker.stage.lanes):
            done, left = worker.shards.approach(shard, orders)
            report.records += done
            report.left += left
        worker.global_stores(orders)
        yield batch_of(NOTE, order_of(0, lane, 1), [[""], [lane], [None], [encode_report(report)], [0]])
    except Exception as error:
        yield batch_of(FAILURE, order_of(0, lane, 1), [[""], [0], [None], [pack_failure(error)], [0]])


class StepRun:
    """One step in one task. ``task`` is the lane, or where there was no exchange the number of the reading task."""

    def __init__(self, worker: Worker, orders: Orders, level: int, task: int) -> None:
        self._worker = worker
        self._stage = worker.stage
        self._orders = orders
        self._level = level
        self._number = task
        self._step = worker.stage.step(level)
        self._sources = worker.sources
        self._tasks: dict[int, Task] = {}
        self._states: dict[int, ShardState] = {}
        self._handed: dict[int, dict[str, Sealed]] = {}
        self._report = Report(level, task)
        self._topic_number = {topic: number for number, topic in enumerate(orders.topics)}
        self._emitted = 0
        self._globals = worker.global_stores(orders)
        self._report.dropped = worker.take_dropped()
        self._since = stopwatch_us()

    def run(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """Yield everything that leaves the step."""
        incoming = pa.Table.from_batches(list(batches)) if (batches := list(batches)) else None
        self._spent("read")
        if incoming is None:
            work: Iterable[Batch] = ()
        elif self._level == 0:
            work = yield from self._raw(incoming)
        else:
            work = yield from self._rekeyed(incoming)
        self._spent("order")
        for shard in self._waking_shards():
            self._task(shard).punctuate(PunctuationType.WALL_CLOCK_TIME)
        for batch in work:
            self._process(batch)
        for shard in self._due_shards():
            self._task(shard)
        self._spent("operators")
        for shard, task in sorted(self._tasks.items()):
            task.flush()
            if self._step.exchange:
                task.tell(self._orders.told)
                task.flush()
            yield from self._outgoing(shard, task)
        yield self._note()

    # ---- coming in

    def _raw(self, table: pa.Table) -> Generator[pa.RecordBatch, None, Iterator[Batch]]:
        """Split raw rows: those for sources of later steps pass on as records, the others are this step's work."""
        orders, stage = self._orders, self._stage
        self._report.records, self._report.size = len(table), table.nbytes
        rows = inbox.numbered(table)
        told = "reached" in table.column_names
        if not told:
            rows = self._sources.extract_times(rows, orders.topics, orders.source_of, offsets(orders.reached))
            rows = self._sources.ask_marks(rows, orders.topics, orders.source_of)
        judged = rows.reached == JUDGE
        if judged.any():
            bad, rows = rows.where(judged), rows.where(~judged)
            self._sources.judge(bad, orders.topics, orders.source_of, self._task(self._first_shard()))
        if told:
            after, marks = _greatest(rows, rows.reached, orders.topics), {}
            if rows.mark is not None:
                marks = _greatest(rows, rows.mark, orders.topics)
        else:
            rows, after = inbox.reach(rows, orders.topics, offsets(orders.reached), by_shard=self._step.exchange)
            rows, marks = inbox.reach_marks(rows, orders.topics, offsets(orders.marks))
        self._report.reached = [(topic, partition, time) for (topic, partition), time in after.items()]
        self._report.marks = [(topic, partition, mark) for (topic, partition), mark in marks.items() if mark >= 0]
        if not self._step.exchange:  # no state: one task runs them all
            rows = rows._replace(shard=np.zeros_like(rows.shard))
        floors = None
        if any(step.timed for step in stage.plan.steps):
            floors = self._sources.floors(rows, orders.topics, orders.source_of, stage.shards > 1)
        own = [n for n, topic in enumerate(orders.topics) if orders.source_of[topic] in self._step.sources]
        mine = np.isin(rows.topic, own)
        if not mine.all():
            theirs = None if floors is None else floors[~mine]
            for batch in inbox.raw_batches(rows.where(~mine), orders.topics, orders.source_of, theirs):
                yield self._pass_on(batch)
            rows, floors = rows.where(mine), None if floors is None else floors[mine]
        return inbox.raw_batches(rows, orders.topics, orders.source_of, floors)

    def _rekeyed(self, table: pa.Table) -> Generator[pa.RecordBatch, None, list[Batch]]:
        """Split envelope rows: own records are work, pending writes are read through, all others ride on."""
        check(table)
        kind = table["kind"]
        mine = pc.is_in(table["name"], value_set=pa.array(self._step.sources, pa.string()))
        own = pc.and_(pc.equal(kind, RECORD), mine)
        handed = pc.and_(
            pc.equal(kind, PENDING), pc.is_in(table["name"], value_set=pa.array(self._step.stores, pa.string()))
        )
        for row in table.filter(handed).select(["name", "partition", "value"]).to_pylist():
            for store, sealed in pending.unpack(row["value"]).items():
                _join(self._handed.setdefault(row["partition"], {}), store, sealed)
        last = self._level == self._stage.plan.steps[-1].level
        rides = pc.invert(pc.or_(own, handed)) if last else pc.invert(own)
        riding = table.filter(rides)
        if len(riding):
            yield from riding.combine_chunks().to_batches()
        records = table.filter(own)
        self._report.records, self._report.size = len(records), records.nbytes
        return list(inbox.envelope_batches(records, self._orders.topics))

    def _pass_on(self, batch: Batch) -> pa.RecordBatch:
        """Return raw rows of a source of a later step as records for it."""
        shards, one = self._stage.shards, batch.source in self._stage.plan.one_shard
        goes = [
            0 if one else shard_of(key, shards, o.partition) for key, o in zip(batch.keys, batch.origins, strict=True)
        ]
        raw = self._stage.keeps_raw
        places = [pack_place(o, (), self._topic_number[str(o.topic)], raw) for o in batch.origins]
        columns: list[Any] = [[batch.source] * len(goes), goes, batch.keys, batch.values, batch.timestamps]
        headers = [pack_headers(h) for h in batch.headers]
        return batch_of(RECORD, pa.array(goes, pa.int64()), [*columns, headers, places])

    # ---- running

    def _process(self, batch: Batch) -> None:
        """Run the records of a batch: by column, if they and the nodes are such, else one by one."""
        task = self._task(batch.shard)
        if len(batch) >= FEW and task.takes_columns(batch.source):
            columns = self._sources.columns(batch)
            if columns is not None and task.process_columns(batch.source, columns):
                return
        for window in batch.windows():
            task.process_all(batch.source, self._sources.records(window, task))

    def _own_shards(self) -> list[int]:
        return [s for s in range(self._stage.shards) if lane_of(s, self._stage.lanes) == self._number]

    def _waking_shards(self) -> list[int]:
        """Return the shards that may have work of the wall clock."""
        if self._step.scheduling:
            return self._own_shards()
        return [shard for shard in self._own_shards() if shard == FIRST_SHARD] if self._step.scheduled else []

    def _due_shards(self) -> list[int]:
        """Return the shards that have something to give once they are told of time, with or without a record."""
        shots = self._orders.snapshots.get(self._level, {}) if self._step.exchange else {}
        return [shard for shard in self._own_shards() if shard in shots and is_due(self._orders.told, shots[shard])]

    def _first_shard(self) -> int:
        return self._number if self._step.exchange and self._number < self._stage.shards else 0

    def _task(self, shard: int) -> Task:
        task = self._tasks.get(shard)
        if task is None:
            task = self._tasks[shard] = self._open(shard)
        return task

    def _open(self, shard: int) -> Task:
        stage, orders = self._stage, self._orders
        state: ShardState = MemoryState()
        if self._step.stores:
            state = self._states[shard] = self._worker.shards.open(shard, orders)
            self._worker.shards.clear_pending(shard, orders.token)
            if shard in self._handed:
                state = OverlayState(state, self._handed[shard])
        task = Task(
            stage.plan.topology,
            shard,
            state,
            application_id=stage.application_id,
            config=stage.config,
            clock=StillClock(orders.now),
            nodes=self._step.nodes,
            global_stores=self._globals,
            views=lambda name: self._worker.view(name, orders),
            partitions=self._partitions,
            for_one_epoch=True,
            calls=partial(self._worker.calls.caller, 0),  # a worker runs one lane at a time, any of them
        )
        snapshot = orders.snapshots.get(self._level, {}).get(shard)
        if snapshot is not None:
            task.resume(snapshot)
        for level, shots in orders.snapshots.items():  # a store that steps share is as far as any of them brought it
            if level != self._level and shard in shots:
                task.resume_stores(shots[shard]["stores"])
        task.meet(orders.told)
        return task

    def _partitions(self, topic: str) -> int:
        internal = self._stage.plan.topology.internal_topics.get(topic)
        if internal is not None:
            return internal.partitions or self._stage.shards
        return self._worker.partitions(topic, self._orders.partitions)

    # ---- going out

    def _outgoing(self, shard: int, task: Task) -> Iterator[pa.RecordBatch]:
        self._spent("operators")
        index = 0
        for leaving in _runs_of(task.outputs):
            yield from self._leaving(leaving, index)
            index += len(leaving.columns) if isinstance(leaving, SinkColumns) else len(leaving)
        self._spent("encode")
        if self._step.stores:
            yield from self._writes(shard, task)
        for (node, reason), count in task.dropped.items():
            self._report.dropped.append((node, reason, count))
        self._report.commit_requested |= task.commit_requested
        if self._step.exchange:
            self._report.snapshots[shard] = task.snapshot()
        task.close()
        if shard in self._states:
            self._states[shard].release()
        self._spent("seal")

    def _leaving(self, leaving: list[Row] | SinkColumns, index: int) -> Iterator[pa.RecordBatch]:
        """Yield what leaves a task; ``index``: how many records have left it before."""
        if isinstance(leaving, SinkColumns):
            yield self._record_columns(leaving, index) if leaving.sink.internal else self._sink_columns(leaving)
            return
        records = [(at, row) for at, row in enumerate(leaving, index) if row.internal]
        if records:
            yield self._records(records)
            leaving = [row for row in leaving if not row.internal]
        if leaving:
            yield self._sinks(leaving)

    def _records(self, records: list[tuple[int, Row]]) -> pa.RecordBatch:
        plan, shards, raw = self._stage.plan, self._stage.shards, self._stage.keeps_raw
        sources = {topic: plan.source_of(topic) for topic in {row.topic for _, row in records}}
        names = [sources[row.topic] for _, row in records]
        goes = [
            0 if name in plan.one_shard else shard_of(row.key, shards, max(row.origin.partition_index, 0))
            for name, (_, row) in zip(names, records, strict=True)
        ]
        if plan.staying:
            goes = [
                shard if name not in plan.staying or name in plan.one_shard else self._home(row)
                for shard, name, (_, row) in zip(goes, names, records, strict=True)
            ]
        number = self._topic_number
        places = [
            pack_place(row.origin, (*row.origin.sub, index), number.get(row.origin.topic or "", 0), raw)
            for index, row in records
        ]
        columns: list[Any] = [names, goes, [r.key for _, r in records], [r.value for _, r in records]]
        times, headers = [r.timestamp for _, r in records], [pack_headers(r.headers) for _, r in records]
        return batch_of(RECORD, pa.array(goes, pa.int64()), [*columns, times, headers, places])

    def _home(self, row: Row) -> int:
        """Return the shard that a row stays in: that of its task, or where all shards run in one, of its source record."""
        if self._step.exchange:
            assert row.partition is not None
            return row.partition
        return shard_of(row.origin.key, self._stage.shards, max(row.origin.partition_index, 0))

    def _sinks(self, rows: list[Row]) -> pa.RecordBatch:
        topics, partitions, keys, values, times, headers, _, origins = zip(*rows, strict=True)
        places = [-1 if partition is None else partition for partition in partitions]
        packed = [pack_headers(h) for h in headers] if any(headers) else [None] * len(rows)
        columns: list[Any] = [topics, places, keys, values, times, packed]
        if self._stage.keeps_raw:  # a row that its topic refuses is told of with its source record
            columns.append([self._came_from(origin) for origin in origins])
        return batch_of(SINK, self._order(len(rows)), columns)

    def _sink_columns(self, leaving: SinkColumns) -> pa.RecordBatch:
        columns, count = leaving.columns, len(leaving.columns)
        arrays: list[Any] = [
            pa.repeat(pa.scalar(leaving.sink.topic, pa.string()), count),
            pa.repeat(pa.scalar(-1, pa.int32()), count),
            leaving.keys,
            leaving.values,
            pa.array(columns.timestamps),
            pa.nulls(count, pa.binary()) if columns.headers is None else [pack_headers(h) for h in columns.headers],
        ]
        if self._stage.keeps_raw:
            arrays.append([self._came_from(columns.origin(at)) for at in range(count)])
        return batch_of(SINK, self._order(count), arrays)

    def _record_columns(self, leaving: SinkColumns, index: int) -> pa.RecordBatch:
        """Return records for a later step."""
        columns, sink = leaving.columns, leaving.sink
        origins = [columns.origin(at) for at in range(len(columns))]
        rows = zip(leaving.keys.to_pylist(), leaving.values.to_pylist(), columns.timestamps.tolist(), strict=True)
        headers: Iterable[Headers] = repeat(()) if columns.headers is None else columns.headers
        home = leaving.shard if sink.stays else None
        records = [
            (at, Row(str(sink.topic), home, key, value, time, head, True, origin))
            for at, ((key, value, time), head, origin) in enumerate(zip(rows, headers, origins, strict=False), index)
        ]
        return self._records(records)

    def _came_from(self, origin: Origin) -> bytes | None:
        return None if origin.topic is None else pack_place(origin, (), self._topic_number[origin.topic], True)

    def _writes(self, shard: int, task: Task) -> Iterator[pa.RecordBatch]:
        """Keep the epoch's writes of a shard beside its state, and send its changelog rows."""
        sealed = {name: writes for name, writes in task.seal().items() if writes}
        if not sealed:
            return
        data = pending.pack(sealed)
        name = pending.file_name(self._orders.token, self._level, self._worker.unique())
        self._worker.shards.keep_pending(shard, name, data)
        self._report.pending[shard] = name
        later = [store for store in self._step.read_later if store in sealed]
        if later:  # a row for each: the steps that read them are not the same
            count, packed = len(later), [pending.pack({store: sealed[store]}) for store in later]
            columns: list[Any] = [later, [shard] * count, [None] * count, packed, [0] * count]
            yield batch_of(PENDING, pa.array([shard] * count, pa.int64()), columns)
        specs = self._stage.plan.topology.stores
        for store, writes in sealed.items():
            if writes.changelog and specs[store].logged and specs[store].source_topic is None:
                yield self._changelog(store, shard, writes)

    def _changelog(self, store: str, shard: int, writes: Sealed) -> pa.RecordBatch:
        keys, values, times, headers = zip(*writes.changelog, strict=True)
        count = len(keys)
        packed = [pack_headers(h) for h in headers] if any(headers) else [None] * count
        return batch_of(CHANGELOG, self._order(count), [[store] * count, [shard] * count, keys, values, times, packed])

    def _note(self) -> pa.RecordBatch:
        data = encode_report(self._report)
        return batch_of(NOTE, self._order(1), [[""], [self._number], [None], [data], [0]])

    def _order(self, count: int) -> pa.Array:
        """Return the place in the epoch of the next rows: level, task, position."""
        before, self._emitted = self._emitted, self._emitted + count
        return pc.add(order_of(self._level, self._number, count), pa.scalar(before, pa.int64()))

    def _spent(self, on: str) -> None:
        now = stopwatch_us()
        self._report.spent[on] = self._report.spent.get(on, 0) + now - self._since
        self._since = now


def _runs_of(outputs: Iterable[Row | SinkColumns]) -> Iterator[list[Row] | SinkColumns]:
    """Return what leaves a task in order, single rows that follow each other together."""
    rows: list[Row] = []
    for leaving in outputs:
        if isinstance(leaving, Row):
            rows.append(leaving)
            continue
        if rows:
            yield rows
            rows = []
        yield leaving
    if rows:
        yield rows


def _greatest(rows: Rows, column: Any, topics: Sequence[str]) -> inbox.Times:
    """Return how far each partition got, of rows whose times were told."""
    times: inbox.Times = {}
    for topic, partition in np.unique(np.stack([rows.topic, rows.partition]), axis=1).T.tolist():
        mine = (rows.topic == topic) & (rows.partition == partition)
        times[topics[topic], partition] = int(column[mine].max())
    return times


def _join(handed: dict[str, Sealed], store: str, sealed: Sealed) -> None:
    """Put a later step's writes of a store above those of an earlier one."""
    known = handed.setdefault(store, Sealed())
    known.drops += sealed.drops
    known.writes += sealed.writes
    for part, rows in sealed.side.items():
        known.side.setdefault(part, []).extend(rows)
