"""An epoch of few records in one task: all steps, lane after lane, without an exchange.

What an exchange between lanes costs does not depend on the records, and for few of them it is nearly everything. So the driver sends
all raw rows of such an epoch to one worker, in a letter; the rows that a step makes for a later one go to their lane inside of the
worker. Each lane runs as it does in a task of its own: the same rows in, the same rows out, numbered by lane.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.lane.envelope import FAILURE, SINK
from penstock.lane.inbox import numbers
from penstock.lane.orders import Orders
from penstock.lane.run import run_step, tell_times
from penstock.lane.worker import Worker

Batches = list[pa.RecordBatch]


def run_letter(worker: Worker, orders: Orders, letter: bytes) -> Iterator[pa.RecordBatch]:
    """Run all steps of an epoch; yield what leaves the last one, and what earlier ones have made final."""
    going = list(_raw_rows(worker, orders, letter))
    for step in worker.stage.plan.steps:
        lanes = worker.stage.lanes if step.exchange else 1
        by_lane = split(going, "shard" if going and "shard" in going[0].schema.names else "route", lanes)
        going = []
        for lane, batches in enumerate(by_lane):
            for batch in run_step(worker, orders, step.level, lane, batches):
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


def _raw_rows(worker: Worker, orders: Orders, letter: bytes) -> Iterator[pa.RecordBatch]:
    """Return the rows of a letter, with their times if the first step needs them."""
    if not letter:
        return iter(())
    batches = pa.ipc.open_stream(letter)
    first = worker.stage.plan.steps[0]
    if first.timed and first.exchange and worker.stage.shards > 1:
        return tell_times(worker, orders, batches)
    return iter(batches)


def split(batches: Batches, column: str, lanes: int) -> list[Batches]:
    """Return the rows of each lane, in order. ``column``: of the shard, or of a number that tells the lane as it does.

    >>> rows = pa.RecordBatch.from_pydict({"shard": [0, 1, 2, 3]})
    >>> [[batch["shard"].to_pylist() for batch in lane] for lane in split([rows], "shard", 3)]
    [[[0, 3]], [[1]], [[2]]]
    """
    if lanes == 1:
        return [batches]
    by_lane: list[Batches] = [[] for _ in range(lanes)]
    for batch in batches:
        lane_of_row = numbers(batch[column]) % lanes
        for lane in sorted(set(lane_of_row.tolist())):
            mine = lane_of_row == lane
            by_lane[lane].append(batch if mine.all() else batch.filter(pa.array(mine)))
    return by_lane
