"""The timestamp of each record and the time of its partition, filled in where the records are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.lane import ordering
from penstock.lane.ordering import UNTIMED, SourceRows
from penstock.lane.timeline import find_moves
from penstock.lane.worker import StepWorker
from penstock.protocol.raw_rows import PARTITIONS
from penstock.protocol.request import EpochRequest, offsets


def add_times(
    worker: StepWorker[Any], request: EpochRequest, batches: Iterable[pa.RecordBatch], moves: list[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Fill in, where the records are read, the timestamp of each and the partition time; add the moves of time to ``moves``."""
    sources = worker.sources
    before, marks = offsets(request.reached), offsets(request.marks)
    for batch in batches:
        rows = ordering.numbered(pa.Table.from_batches([batch]))
        rows = sources.extract_times(rows, request.topics, request.source_of, before)
        rows = sources.ask_marks(rows, request.topics, request.source_of)
        untimed = rows.reached == UNTIMED
        times = np.where(untimed, -1, rows.timestamp)
        told = rows.timestamp
        known = dict(before)
        rows, after = ordering.reach(rows._replace(timestamp=times), request.topics, before)
        before.update(after)
        rows, after = ordering.reach_marks(rows, request.topics, marks)
        marks.update(after)
        if worker.stage.plan.timed:
            moves.append(
                moves_of(rows, sources.watermarks(rows, request.topics, request.source_of), untimed, known, request)
            )
        times_of = [pa.array(told), batch["headers"], pa.array(np.where(untimed, UNTIMED, rows.reached))]
        kept = [batch[name] for name in ("shard", "place", "offset", "key", "value")]
        schema = ordering.TIMED_SCHEMA
        if rows.mark is not None:
            times_of.append(pa.array(rows.mark))
            schema = ordering.MARKED_SCHEMA
        yield pa.RecordBatch.from_arrays([*kept, *times_of], schema=schema)


def moves_of(
    rows: SourceRows, watermarks: Any, untimed: Any, known: ordering.Times, request: EpochRequest
) -> pa.RecordBatch:
    """Return the records of a batch that moved the time of their partition."""
    order = ordering.source_order(rows)
    if untimed.any():
        order = order[~untimed[order]]
    partition = (rows.topic * PARTITIONS + rows.partition)[order]
    moves = find_moves(partition, rows.offset[order], rows.reached[order], watermarks[order])
    # the first row of a partition in a batch has moved it only if it is further than those before
    before = _known_of(moves.partition, known, request)
    return moves.where((moves.reached > before) | (moves.watermark != moves.reached)).batch()


def _known_of(partitions: Any, known: ordering.Times, request: EpochRequest) -> Any:
    edges = ordering.starts_of(partitions)
    numbers = partitions[edges[:-1]].tolist()
    places = [(request.topics[number // PARTITIONS], number % PARTITIONS) for number in numbers]
    return np.repeat(np.array([known.get(place, -1) for place in places], dtype=np.int64), np.diff(edges))


def greatest_times(rows: SourceRows, column: Any, topics: Sequence[str]) -> ordering.Times:
    """Return how far each partition got, of rows whose times are filled in."""
    if not len(column):
        return {}
    place = rows.topic * PARTITIONS + rows.partition
    order = np.argsort(place, kind="stable")
    edges = ordering.starts_of(place[order])[:-1]
    greatest = np.maximum.reduceat(column[order], edges).tolist()
    places = (divmod(at, PARTITIONS) for at in place[order[edges]].tolist())
    return {(topics[topic], partition): time for (topic, partition), time in zip(places, greatest, strict=True)}
