"""What leaves a step, as batches of the envelope: rows for sinks, records for later steps, changelog rows, notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.batch.batch import Batch
from penstock.lane.ordering import ShortRun, SourceBatch
from penstock.lane.siblings import FIRST_ROW, Siblings
from penstock.lane.sink import Row, SinkBatch
from penstock.log.partitioner import partition_for
from penstock.plan.plan import Step
from penstock.protocol.envelope import (
    CHANGELOG,
    CHANGES,
    COUNTED,
    NOTE,
    PENDING,
    RECORD,
    SINK,
    batch_of,
    named,
    order_of,
    pack_headers,
    pack_place,
    pack_places,
)
from penstock.protocol.report import TaskReport, encode_report
from penstock.protocol.request import EpochRequest, Stage
from penstock.record import Headers, Origin
from penstock.state import pending
from penstock.state.base import Sealed
from penstock.state.batch_delta import ChangelogColumns
from penstock.state.shards import shard_of, shards_of
from penstock.topology.node import SinkNode

#: rows that are worth a batch: fewer of several shards wait for each other, a batch costs as much as a hundred of them
MANY = 1000


class StepOutput:
    """Makes batches of what one task of a step gives out, in order. Few rows wait until ``rest`` is asked for."""

    def __init__(self, stage: Stage, request: EpochRequest, step: Step, task: int) -> None:
        self._stage = stage
        self._step = step
        self._with_places = stage.keeps_raw or request.places
        self._number = task
        self._topic_number = {topic: number for number, topic in enumerate(request.topics)}
        self._emitted = 0
        self._siblings = Siblings()
        #: how many sinks of the step lead to each sub-topology
        self._leads_to = Counter(
            stage.plan.subtopology_of[stage.plan.source_of(str(node.topic))]
            for name in step.nodes
            if isinstance(node := stage.plan.topology.nodes[name], SinkNode) and node.internal
        )
        #: rows for sinks, and of changelogs, that wait: (store, shard, its rows)
        self._sinking: list[Row] = []
        self._logged: list[tuple[str, int, Collection[Any]]] = []

    # ---- rows of tasks

    def leaving(self, outputs: Iterable[Row | SinkBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that have left a task."""
        index = FIRST_ROW  # of a record among all that the task gave out: its order among siblings
        self._siblings = Siblings()
        for rows in _runs_of(outputs):
            if isinstance(rows, SinkBatch):
                if rows.sink.internal:
                    yield self._record_columns(rows, index)
                else:
                    yield from self._waiting_sinks()  # those of a topic stay in order
                    yield self._sink_columns(rows)
                index += len(rows.batch)
                continue
            records = [(at, row) for at, row in enumerate(rows, index) if row.internal]
            index += len(rows)
            if records:
                yield self._records(records)
                rows = [row for row in rows if not row.internal]
            self._sinking += rows
            if len(self._sinking) >= MANY:
                yield from self._waiting_sinks()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that wait."""
        yield from self._waiting_sinks()
        yield from self._waiting_changelogs()

    def _records(self, records: list[tuple[int, Row]]) -> pa.RecordBatch:
        plan, shards, raw = self._stage.plan, self._stage.shards, self._stage.keeps_raw
        sources = {topic: plan.source_of(topic) for topic in {row.topic for _, row in records}}
        names = [sources[row.topic] for _, row in records]
        goes = [
            0 if name in plan.one_shard else shard_of(row.key, shards, max(row.origin.partition_index, 0))
            for name, (_, row) in zip(names, records, strict=True)
        ]
        if plan.by_partition:
            goes = [
                shard if name not in plan.by_partition or name in plan.one_shard else self._partition(row) % shards
                for shard, name, (_, row) in zip(goes, names, records, strict=True)
            ]
        if plan.staying:
            goes = [
                shard if name not in plan.staying or name in plan.one_shard else self._home(row)
                for shard, name, (_, row) in zip(goes, names, records, strict=True)
            ]
        number = self._topic_number
        places = [
            pack_place(
                row.origin,
                self._siblings.placed(
                    index,
                    row.origin,
                    plan.subtopology_of[name],
                    carried=name in plan.carried,
                    returning=name in plan.returning,
                ),
                number.get(row.origin.topic or "", 0),
                raw,
            )
            for name, (index, row) in zip(names, records, strict=True)
        ]
        columns: list[Any] = [names, goes, [r.key for _, r in records], [r.value for _, r in records]]
        times, headers = [r.timestamp for _, r in records], [pack_headers(r.headers) for _, r in records]
        return batch_of(RECORD, pa.array(goes, pa.int64()), [*columns, times, headers, places])

    def _partition(self, row: Row) -> int:
        """Return the partition of a repartition topic that a row was sent to: that of its key, if its partitioner left it open."""
        if row.partition is not None:
            return row.partition
        if row.key is None:
            return max(row.origin.partition_index, 0)
        internal = self._stage.plan.topology.internal_topics[row.topic]
        return partition_for(row.key, internal.partitions or self._stage.shards)

    def _home(self, row: Row) -> int:
        """Return the shard that a row stays in: that of its task, or where all shards run in one, of its source record."""
        if self._step.exchange:
            assert row.partition is not None
            return row.partition
        return shard_of(row.origin.key, self._stage.shards, max(row.origin.partition_index, 0))

    def _waiting_sinks(self) -> Iterator[pa.RecordBatch]:
        rows, self._sinking = self._sinking, []
        if rows:
            yield self._sinks(rows)

    def _sinks(self, rows: list[Row]) -> pa.RecordBatch:
        topics, partitions, keys, values, times, headers, _, origins = zip(*rows, strict=True)
        places = [-1 if partition is None else partition for partition in partitions]
        packed = [pack_headers(h) for h in headers] if any(headers) else [None] * len(rows)
        columns: list[Any] = [topics, places, keys, values, times, packed]
        if self._with_places:  # a row that its topic refuses is told of with its source record
            columns.append([self._came_from(origin) for origin in origins])
        return batch_of(SINK, self._order(len(rows)), columns)

    # ---- the same by column

    def _sink_columns(self, leaving: SinkBatch) -> pa.RecordBatch:
        columns, count = leaving.batch, len(leaving.batch)
        arrays: list[Any] = [
            named(leaving.sink.topic, count),
            pa.repeat(pa.scalar(-1, pa.int32()), count) if leaving.partitions is None else leaving.partitions,
            leaving.keys,
            leaving.values,
            pa.array(columns.timestamps),
            _packed_headers(columns.headers, count),
        ]
        if self._with_places:
            arrays.append([self._came_from(columns.origin(at)) for at in range(count)])
        return batch_of(SINK, self._order(count), arrays)

    def _record_columns(self, leaving: SinkBatch, index: int) -> pa.RecordBatch:
        """Return records for a later step; of those that it only counts, one for each key."""
        plan, columns = self._stage.plan, leaving.batch
        source = plan.source_of(str(leaving.sink.topic))
        subtopology = plan.subtopology_of[source]
        alone, returning = self._leads_to[subtopology] == 1, source in plan.returning
        subs = self._siblings.positions(index, columns, subtopology, alone=alone, returning=returning)
        keys, values, kind = leaving.keys, leaving.values, RECORD
        if source in plan.counting and values is None:
            keys, values, columns, subs = _counted(keys, columns, subs)
            kind = COUNTED
        goes = self._goes(source, leaving, keys, columns)
        arrays: list[Any] = [
            named(source, len(columns)),
            pa.array(goes, pa.int32()),
            keys,
            values,
            pa.array(columns.timestamps),
            _packed_headers(columns.headers, len(columns)),
            self._places(columns, subs),
        ]
        return batch_of(kind, pa.array(goes, pa.int64()), arrays)

    def _goes(self, source: str, leaving: SinkBatch, keys: pa.Array, columns: Batch) -> Any:
        """Return the shards that records go to."""
        plan, shards = self._stage.plan, self._stage.shards
        if source in plan.one_shard:
            return np.zeros(len(columns), dtype=np.int64)
        if source in plan.staying:
            if self._step.exchange:
                return np.full(len(columns), leaving.shard, dtype=np.int64)
            keys = pa.array([columns.origin(at).key for at in range(len(columns))], pa.binary())
        # without a key it stays with its source partition
        return _shards_of(keys, shards, lambda: np.maximum(columns.of_source(columns.provenance.indexes()), 0))

    def _places(self, columns: Batch, subs: Any) -> Any:
        """Return where records came from, each with its position among siblings."""
        numbers = None if self._stage.keeps_raw else columns.provenance.arrays
        if numbers is not None:
            return pack_places({name: columns.of_source(column) for name, column in numbers.items()}, subs)
        number, raw = self._topic_number, self._stage.keeps_raw
        origins = [columns.origin(at) for at in range(len(columns))]
        return [
            pack_place(origin, (*origin.sub, sub), number.get(origin.topic or "", 0), raw)
            for origin, sub in zip(origins, subs.tolist(), strict=True)
        ]

    def _came_from(self, origin: Origin) -> bytes | None:
        raw = self._stage.keeps_raw
        return None if origin.topic is None else pack_place(origin, (), self._topic_number[origin.topic], raw)

    # ---- the rest

    def pass_on(self, batch: SourceBatch | ShortRun) -> pa.RecordBatch:
        """Return raw rows of a source of a later step as records for it."""
        one = batch.source in self._stage.plan.one_shard
        if isinstance(batch, SourceBatch) and not self._stage.keeps_raw:
            numbers = batch.provenance.arrays
            if numbers is not None:
                return self._pass_columns(batch, numbers, one)
        shards, origins = self._stage.shards, batch.origins
        goes = [0 if one else shard_of(key, shards, o.partition) for key, o in zip(batch.keys, origins, strict=True)]
        raw = self._stage.keeps_raw
        places = [pack_place(o, (), self._topic_number[str(o.topic)], raw) for o in origins]
        columns: list[Any] = [[batch.source] * len(goes), goes, batch.keys, batch.values, batch.timestamps]
        headers = [pack_headers(h) for h in batch.headers]
        return batch_of(RECORD, pa.array(goes, pa.int64()), [*columns, headers, places])

    def _pass_columns(self, batch: SourceBatch, numbers: Mapping[str, Any], one: bool) -> pa.RecordBatch:
        count = len(batch)
        shards = np.zeros(count, dtype=np.int64)
        if not one:
            shards = _shards_of(batch.key, self._stage.shards, lambda: numbers["partition"])
        arrays: list[Any] = [
            named(batch.source, count),
            pa.array(shards, pa.int32()),
            batch.key,
            batch.value,
            pa.array(batch.times),
            _packed_headers(batch.some_headers, count),
            pack_places(numbers),
        ]
        return batch_of(RECORD, pa.array(shards, pa.int64()), arrays)

    def pending(self, shard: int, sealed: dict[str, Sealed]) -> pa.RecordBatch:
        """Return writes of an epoch for the later steps that read them: a row for each store, these steps are not the same."""
        count, packed = len(sealed), [pending.pack({store: writes}) for store, writes in sealed.items()]
        columns: list[Any] = [list(sealed), [shard] * count, [None] * count, packed, [0] * count]
        return batch_of(PENDING, pa.array([shard] * count, pa.int64()), columns)

    def changes(self, shard: int, packed: Mapping[str, bytes]) -> Iterator[pa.RecordBatch]:
        """Yield the changes of tables for the later steps that follow them."""
        if packed:
            count = len(packed)
            columns: list[Any] = [list(packed), [shard] * count, [None] * count, list(packed.values()), [0] * count]
            yield batch_of(CHANGES, pa.array([shard] * count, pa.int64()), columns)

    def changelog(self, store: str, shard: int, writes: Sealed) -> Iterator[pa.RecordBatch]:
        """Yield the changelog rows of an epoch."""
        if isinstance(writes.changelog, ChangelogColumns):
            count = len(writes.changelog)
            names, rows, stamps = writes.changelog.names, writes.changelog.values, pa.array(writes.changelog.times)
            where = named(store, count), pa.repeat(pa.scalar(shard, pa.int32()), count)
            yield batch_of(CHANGELOG, self._order(count), [*where, names, rows, stamps])
            return
        self._logged.append((store, shard, writes.changelog))
        if sum(len(rows) for _, _, rows in self._logged) >= MANY:
            yield from self._waiting_changelogs()

    def _waiting_changelogs(self) -> Iterator[pa.RecordBatch]:
        logged, self._logged = self._logged, []
        if not logged:
            return
        stores, shards = ([part[n] for part in logged for _ in part[2]] for n in (0, 1))
        keys, values, times, headers = zip(*chain.from_iterable(rows for _, _, rows in logged), strict=True)
        packed = [pack_headers(h) for h in headers] if any(headers) else [None] * len(keys)
        yield batch_of(CHANGELOG, self._order(len(keys)), [stores, shards, keys, values, times, packed])

    def note(self, report: TaskReport) -> pa.RecordBatch:
        """Return what the task tells the driver."""
        return batch_of(NOTE, self._order(1), [[""], [self._number], [None], [encode_report(report)], [0]])

    def _order(self, count: int) -> pa.Array:
        """Return the place in the epoch of the next rows: level, task, position."""
        before, self._emitted = self._emitted, self._emitted + count
        return order_of(self._step.level, self._number, count, before)


def _runs_of(outputs: Iterable[Row | SinkBatch]) -> Iterator[list[Row] | SinkBatch]:
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


def _shards_of(keys: pa.Array, shards: int, otherwise: Callable[[], Any]) -> Any:
    """Return the shards of keys; ``otherwise`` gives the numbers that count where there is no key."""
    encoded = keys.dictionary_encode()
    of_key = shards_of(encoded.dictionary.to_pylist() or [b""], shards)
    found = of_key[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    if encoded.null_count:
        found = np.where(keys.is_null().to_numpy(zero_copy_only=False), otherwise() % shards, found)
    return found


def _packed_headers(rows: Sequence[Headers] | None, count: int) -> Any:
    if rows is None:
        return pa.nulls(count, pa.binary())
    return [pack_headers(headers) for headers in rows]


def _counted(keys: pa.Array, columns: Batch, subs: Any) -> tuple[pa.Array, pa.Array, Batch, Any]:
    """Return one record for each key: its last, with the greatest time of all, and for a value how many they are."""
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy()
    counts = np.bincount(codes, minlength=len(encoded.dictionary))
    times = np.full(len(counts), -1, dtype=np.int64)
    np.maximum.at(times, codes, columns.timestamps)
    last = np.zeros(len(counts), dtype=np.int64)
    last[codes] = np.arange(len(codes))  # of several the last one stays
    order = np.argsort(last)
    last = last[order]
    picked = columns.at(last, times[order])
    data = pa.py_buffer(counts[order].astype(">i8").tobytes())
    values = pa.Array.from_buffers(pa.binary(8), len(order), [None, data]).cast(pa.binary())
    return encoded.dictionary.take(pa.array(order)), values, picked, subs[last]
