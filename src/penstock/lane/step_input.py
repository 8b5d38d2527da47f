"""What comes to a step: its own records as work, in order; rows for later steps and rows already final, which pass."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.lane import ordering
from penstock.lane.batches import envelope_batches, raw_batches
from penstock.lane.decoding import Sources
from penstock.lane.mixed import Mixed, Work
from penstock.lane.ordering import UNTIMED, SourceRows
from penstock.lane.output import StepOutput
from penstock.lane.record_times import greatest_times
from penstock.lane.step_tasks import StepTasks
from penstock.plan.plan import Step
from penstock.processor.node_meter import LATENESS, NodeMeter, NoMeter
from penstock.protocol.envelope import CHANGES, COUNTED, PENDING, check
from penstock.protocol.report import TaskReport
from penstock.protocol.request import EpochRequest, Stage
from penstock.state import pending
from penstock.state.base import Sealed
from penstock.state.changes import TableChanges


class StepInput:
    """Splits the rows that come to a step. What passes is yielded; what is work is returned."""

    def __init__(
        self,
        stage: Stage,
        request: EpochRequest,
        step: Step,
        sources: Sources,
        tasks: StepTasks,
        output: StepOutput,
        report: TaskReport,
        meter: NodeMeter,
    ) -> None:
        self._stage = stage
        self._request = request
        self._step = step
        self._sources = sources
        self._tasks = tasks
        self._output = output
        self._report = report
        self._meter = meter
        self._follows = {store for name in step.nodes for store in stage.plan.follows.get(name, ())}
        #: there is no order between partitions to keep; of records that are counted together the last one counts
        self.as_read = not step.exchange and not step.timed and not stage.plan.counting

    def work(self, table: pa.Table) -> Generator[pa.RecordBatch, None, Iterator[Work]]:
        """Split rows: raw ones, or of later steps those of the envelope."""
        return (yield from self._rekeyed(table) if self._step.level else self._raw(table))

    def _raw(self, table: pa.Table) -> Generator[pa.RecordBatch, None, Iterator[Work]]:
        """Split raw rows: those for sources of later steps pass on as records, the others are this step's work."""
        request = self._request
        self._report.records += len(table)
        self._report.size += table.nbytes
        assert "reached" in table.column_names, "raw rows are given their times where they are read"
        rows = ordering.numbered(table)
        self._report.read += _counted(rows, request.topics)
        untimed = rows.reached == UNTIMED
        if untimed.any():
            bad, rows = rows.where(untimed), rows.where(~untimed)
            self._sources.refuse_untimed(bad, request.topics, request.source_of, self._tasks.first)
        reached = greatest_times(rows, rows.reached, request.topics)
        self._report.reached += [(topic, partition, time) for (topic, partition), time in reached.items()]
        if rows.mark is not None:
            marks = greatest_times(rows, rows.mark, request.topics)
            self._report.marks += [(topic, partition, mark) for (topic, partition), mark in marks.items() if mark >= 0]
        if not isinstance(self._meter, NoMeter):
            self._lateness(rows)
        if not self._step.exchange:  # no state: one task runs them all
            rows = rows._replace(shard=np.zeros_like(rows.shard))
        own = [n for n, topic in enumerate(request.topics) if request.source_of[topic] in self._step.sources]
        mine = np.isin(rows.topic, own)
        if not mine.all():
            for batch in raw_batches(rows.where(~mine), request.topics, request.source_of):
                assert not isinstance(batch, Mixed)
                yield self._output.pass_on(batch)
            rows = rows.where(mine)
        return raw_batches(rows, request.topics, request.source_of, self._mixes, as_read=self.as_read)

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
                _join(self._tasks.handed.setdefault(row["partition"], {}), store, sealed)
        last = self._step.level == self._stage.plan.steps[-1].level
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
                of_shard = self._tasks.changes.setdefault(row["partition"], {})
                of_shard.setdefault(row["name"], TableChanges()).join(TableChanges.unpack(row["value"]))

    def _mixes(self, shard: int, sources: Sequence[str]) -> bool:
        return self._tasks.of(shard).batches.takes(*sources)

    def _lateness(self, rows: SourceRows) -> None:
        """Tell how far records are behind the time of their partition."""
        for number, topic in enumerate(self._request.topics):
            mine = rows if len(self._request.topics) == 1 else rows.where(rows.topic == number)
            if len(mine.timestamp):
                self._meter.spread(LATENESS, topic).add_all((mine.reached - mine.timestamp) / 1000)


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
