"""Epochs that are held open: what waits is run as one by the code that runs it in production.

``lane.inline_epoch`` orders, decodes and processes the records, by batch where it can, in sixteen shards or as many as there are;
``engine.committed_state`` goes from barrier to barrier. What Kafka and the disk do in production is done here in memory:

    records that wait ──raw rows, request──▶ lane.inline_epoch ──envelope──▶ topics, changelogs, states of the shards
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.committed_state import CommittedState
from penstock.engine.executor.inline_epochs import parts_of
from penstock.lane.inline_epoch import run_inline_epoch
from penstock.lane.source import Raw
from penstock.log.rows import RangeRows
from penstock.plan.plan import Step
from penstock.processor.node_meter import NodeWork
from penstock.processor.punctuation import merged_snapshots
from penstock.processor.user_metrics import UserMetric
from penstock.protocol.chunk import unpacked
from penstock.protocol.envelope import (
    CHANGELOG,
    COUNTED,
    FAILURE,
    NOTE,
    RECORD,
    SINK,
    EnvelopeRow,
    rows_of,
    unpack_headers,
)
from penstock.protocol.raw_rows import raw_batch
from penstock.protocol.report import TaskReport, decode_report
from penstock.protocol.request import EpochRequest, decode_request, encode_request
from penstock.protocol.timing import TimeUpdate
from penstock.protocol.worker_log import levels_set
from penstock.state.cache import budget_of_shard
from penstock.testing.application import TestedApplication
from penstock.testing.driver_worker import DriverWorker


class OpenEpochs:
    """Runs what waits as one epoch when it is committed."""

    def __init__(self, application: TestedApplication, committed: CommittedState | None = None) -> None:
        """``committed``: the barrier to go on from; None: there was none yet."""
        self._application = application
        self._worker = DriverWorker(application)
        #: records that are not part of a barrier yet
        self.waiting: list[Raw] = []
        self._wall_clock_moved = False
        #: rows between the steps of the epoch under way
        self._between: list[EnvelopeRow] = []
        #: stores that a test has written to since the last barrier
        self._written: dict[tuple[str, int], Any] = {}
        stage = application.stage
        self._committed = committed or CommittedState(application.id, "", stage.lanes, application.no_requests)
        if committed is None and any(step.scheduling or step.scheduled for step in stage.plan.steps):
            self._run_epoch()  # as in production: what schedules must have run once

    def pipe(self, raw: Raw) -> None:
        """Let a record wait."""
        self.waiting.append(raw)

    def advance(self) -> None:
        """Note that the wall clock has moved."""
        self._wall_clock_moved = True

    def commit(self) -> None:
        """Run what waits, and what it writes to topics that are read again, until nothing is due."""
        while self.waiting or self._wall_clock_moved or self._committed.is_due(self._time_update([])):
            self._run_epoch()

    def committed(self) -> CommittedState:
        """Return all that is known at the barrier, for whoever goes on from it."""
        self._settle()
        return self._committed

    def dropped(self) -> Counter[tuple[str, str]]:
        """Nothing: what an epoch has dropped is counted at its barrier."""
        return Counter()

    def close(self) -> None:
        """End the calls; processors have ended with their epoch."""
        self._worker.calls.close()

    # ---- stores

    def catch_up(self) -> None:
        """Do nothing: a store is opened at the time of the barrier."""

    def stores(self, name: str) -> list[Any]:
        """Return a store of every shard, at the last barrier."""
        self._settle()
        return self._worker.stores_at(name, self._at_barrier())

    def store_of(self, name: str, shard: int) -> Any:
        """Return the store of a shard, to be written to; what is written is there at once, as if it were part of the barrier."""
        if (name, shard) not in self._written:
            spec = self._application.topology.stores[name]
            self._written[name, shard] = self._worker.store_at(spec, shard, self._at_barrier())
        return self._written[name, shard]

    def snapshots(self) -> Mapping[int, Mapping[int, Any]]:
        """Return what tasks know at the barrier, by level and shard."""
        return self._committed.snapshots

    def _at_barrier(self) -> EpochRequest:
        return self._committed.request("", source_of={}, partitions={}, global_ends={})

    def _settle(self) -> None:
        """Bring what a test has written into the shards."""
        if not self._written:
            return
        snapshots = {level: dict(shots) for level, shots in self._committed.snapshots.items()}
        for (name, shard), store in self._written.items():
            sealed = store.seal()
            store.apply(sealed)
            self._application.write_changelogs(shard, {name: sealed})
            for step in (step for step in self._application.plan.steps if name in step.stores):
                shot = snapshots.setdefault(step.level, {}).get(shard) or _nothing()
                snapshots[step.level][shard] = {**shot, "stores": {**shot["stores"], name: store.snapshot()}}
        self._written.clear()
        self._committed = replace(self._committed, snapshots=snapshots)

    # ---- an epoch

    def _run_epoch(self) -> None:
        arrived, self.waiting, self._wall_clock_moved = self.waiting, [], False
        self._settle()
        application = self._application
        for raw in arrived:
            if raw.topic in application.globals.topics:
                application.globals.apply(raw)
        request = self._request([raw for raw in arrived if application.source_of(raw.topic) is not None])
        self._between, self._worker.failure = [], None
        self._worker.shards.forget()
        rows = self._run(request, arrived)
        if any(row.kind == FAILURE for row in rows):
            assert self._worker.failure is not None
            raise self._worker.failure
        reports = [decode_report(row.value or b"") for row in rows if row.kind == NOTE]
        self._publish(rows)
        self._worker.shards.apply()
        self._count(reports)
        self._committed = self._committed.after(
            request.token, reports, {}, {}, now=request.now, time_update=request.time_update
        )
        application.epoch = self._committed.epoch

    def _time_update(self, arrived: list[Raw]) -> TimeUpdate:
        application = self._application
        waiting = {(raw.topic, raw.partition) for raw in arrived}
        sources = self._source_of(arrived)
        return application.timing.time_update(self._committed.observed, sources, waiting, application.clock.now_ms())

    def _source_of(self, arrived: list[Raw]) -> dict[str, str]:
        sources = self._application.stage.sources.values()
        known = {topic for source in sources if not source.internal for topic in source.topics}
        known |= {topic for topic, _ in self._committed.reached} | {raw.topic for raw in arrived}
        return self._application.sources_of(sorted(known))

    def _request(self, arrived: list[Raw]) -> EpochRequest:
        """Return the request of the next epoch, as it comes out of the message that it travels in."""
        config, shards = self._application.config, len(self._application.states)
        request = self._committed.request(
            f"{self._committed.epoch + 1}.test",
            source_of=self._source_of(arrived),
            partitions={},
            global_ends={},
            now=self._application.clock.now_ms(),
            time_update=self._time_update(arrived),
            cache_bytes=budget_of_shard(config["cache_max_bytes"], shards),
            levels=levels_set(),
        )
        return decode_request(encode_request(request))

    def _run(self, request: EpochRequest, arrived: list[Raw]) -> list[EnvelopeRow]:
        """Return what left the lanes, in the order of the epoch: by level, then task, then position."""
        stage = self._application.stage
        if not stage.plan.steps:  # there are global tables alone
            self._write_dead_letters()
            return []
        rows = list(self._raw_rows(request, [raw for raw in arrived if raw.topic in request.source_of]))
        chunks = run_inline_epoch(self._worker, request, parts_of(stage, rows), self._watch)
        found = [row for batch in unpacked(chunks).to_batches() for row in rows_of(batch)]
        return sorted(found, key=lambda row: row.route)

    def _raw_rows(self, request: EpochRequest, arrived: list[Raw]) -> Iterator[pa.RecordBatch]:
        """Yield the records as raw rows, those of all partitions in order of the time that their partition had reached."""
        places: dict[tuple[str, int], list[Raw]] = {}
        for raw in arrived:
            places.setdefault((raw.topic, raw.partition), []).append(raw)
        batches: list[pa.RecordBatch] = []
        order: list[tuple[int, int]] = []
        for place, raws in sorted(places.items()):
            batches.append(raw_batch(_columns(*place, raws), request.topics, self._application.stage))
            reached = self._committed.reached.get(place, -1)
            for raw in raws:
                reached = max(reached, raw.timestamp)
                order.append((reached, len(order)))
        if batches:
            yield pa.concat_batches(batches).take(pa.array([at for _, at in sorted(order)]))

    def _watch(self, step: Step, going: list[pa.RecordBatch]) -> None:
        """Keep the rows that come to a step by a topic between the steps."""
        for batch in going:
            self._between += [row for row in rows_of(batch) if row.name in step.sources and row.kind <= COUNTED]

    # ---- what comes of it

    def _write_dead_letters(self) -> None:
        for row in self._application.globals.take_dead_letters():
            self._application.write(row.topic, row.partition, row.key, row.value, row.timestamp, row.headers)

    def _publish(self, rows: list[EnvelopeRow]) -> None:
        application = self._application
        for row in self._between:
            self._show_between(row)
        for row in rows:
            headers = unpack_headers(row.headers)
            if row.kind == SINK:
                partition = None if row.partition < 0 else row.partition
                raw = application.write(row.name, partition, row.key, row.value, row.timestamp, headers)
                if application.is_input(raw.topic):  # it is read again, in the next epoch
                    self.waiting.append(raw)
            elif row.kind == CHANGELOG:
                topic = application.full_name(f"{row.name}-changelog")
                application.show(topic, row.key, row.value, row.timestamp, headers, row.partition)

    def _show_between(self, row: EnvelopeRow) -> None:
        """Show a row of a repartition topic; of those that are only counted, one for each, without its value."""
        application, source = self._application, self._application.stage.sources[row.name]
        if not source.internal or source.topics[0] not in application.topology.internal_topics:
            return  # it did not leave its sub-topology
        topic, headers = application.full_name(source.topics[0]), unpack_headers(row.headers)
        times, value = (1, row.value) if row.kind == RECORD else (int.from_bytes(row.value or b""), None)
        for _ in range(times):
            application.show(topic, row.key, value, row.timestamp, headers, row.partition)

    def _count(self, reports: list[TaskReport]) -> None:
        application = self._application
        for report in reports:
            for node, reason, count in report.dropped:
                application.dropped[node, reason] += count
            for node, *work in report.nodes:
                application.meter.add(node, NodeWork(*work))
            for metric in report.user:
                application.meter.user.add(UserMetric(*metric))


def _columns(topic: str, partition: int, raws: list[Raw]) -> RangeRows:
    """Return records of a partition by column."""
    _, _, offsets, keys, values, times, headers, _ = zip(*raws, strict=True)
    return RangeRows(
        topic,
        partition,
        np.array(offsets, dtype=np.int64),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        np.array(times, dtype=np.int64),
        list(headers) if any(headers) else None,
    )


def _nothing() -> dict[str, Any]:
    """Return the snapshot of a task that has done nothing yet."""
    queues = {kind: merged_snapshots([]) for kind in ("stream_time", "wall_clock_time")}
    return {"punctuations": queues, "due": {}, "stores": {}}
