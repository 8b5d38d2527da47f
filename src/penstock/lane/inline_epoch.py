"""An epoch of few records in one task: all steps, lane after lane, without an exchange.

What an exchange between lanes costs does not depend on the records, and for few of them it is nearly everything. So the driver sends
all raw rows of such an epoch to one worker; the rows that a step makes for a later one go to their lane inside of the
worker. Each lane runs as it does in a task of its own: the same rows in, the same rows out, numbered by lane. Where there is one step,
which needs nothing of other lanes, the rows are in a part for each lane, and several workers may share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.lane.record_times import add_times
from penstock.lane.run import run_step
from penstock.lane.worker import StepWorker
from penstock.plan.plan import Step
from penstock.protocol.channel import Part
from penstock.protocol.chunk import packed
from penstock.protocol.envelope import FAILURE, SCHEMA, SINK
from penstock.protocol.request import EpochRequest
from penstock.protocol.shuffle import split

Batches = list[pa.RecordBatch]
#: told before a step of the rows that earlier ones have made, whichever step they are for
Watcher: TypeAlias = Callable[[Step, Batches], None]


def run_inline_epoch(
    worker: StepWorker[Any], request: EpochRequest, parts: Iterable[Part], watcher: Watcher | None = None
) -> list[bytes]:
    """Run an inline epoch, or its part of some lanes; return what leaves it, in chunks.

    It is one batch: a batch costs the driver as much as many rows.
    """
    found: Batches = []
    for lane, rows in parts:
        if lane is None:
            found += run_all_steps(worker, request, rows, watcher)
        else:
            moves: Batches = []
            coming = _raw_rows(worker, request, rows, moves)
            found += run_step(worker, request, worker.stage.plan.steps[0].level, lane, coming, moves)
    return list(packed(pa.Table.from_batches(found, SCHEMA).combine_chunks().to_batches()))


def run_all_steps(
    worker: StepWorker[Any], request: EpochRequest, rows: bytes, watcher: Watcher | None = None
) -> Iterator[pa.RecordBatch]:
    """Run all steps of an epoch; yield what leaves the last one, and what earlier ones have made final."""
    moves: Batches = []
    going = list(_raw_rows(worker, request, rows, moves))
    for step in worker.stage.plan.steps:
        if watcher is not None and step.level:
            watcher(step, going)
        lanes = worker.stage.lanes if step.exchange else 1
        by_lane = split(going, "shard" if going and "shard" in going[0].schema.names else "route", lanes)
        going = []
        for lane, batches in enumerate(by_lane):
            for batch in run_step(worker, request, step.level, lane, batches, moves):
                if not len(batch):
                    continue
                # rows that are final never enter a step again, so a batch is of one sort
                kind = batch["kind"][0].as_py()
                if kind < SINK:
                    going.append(batch)
                    continue
                yield batch
                if kind == FAILURE:
                    return
    yield from going


def _raw_rows(worker: StepWorker[Any], request: EpochRequest, rows: bytes, moves: Batches) -> Iterator[pa.RecordBatch]:
    """Return the raw rows, with their times; fill ``moves``."""
    batches = pa.ipc.open_stream(rows) if rows else ()
    return add_times(worker, request, batches, moves)
