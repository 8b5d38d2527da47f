"""On the way to a step: rows in chunks with an address, so that Spark moves a few cells and not every row.

Rows for a later step go to their lane. Rows that are final go along with any of them, unopened, until they leave the last step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from penstock.protocol.chunk import Wrap, chunk_of, opened_chunk
from penstock.protocol.envelope import SINK

#: a chunk is closed once it holds as many bytes
CHUNK_BYTES = 1 << 22
#: the first byte of a chunk tells whether its rows go to a lane, are final, or are moves of time
GOING, FINAL, MOVES = b"\0", b"\1", b"\2"


def partitioned(
    batches: Iterable[pa.RecordBatch], lanes: int, final: Iterable[bytes] = (), wrap: Wrap = chunk_of
) -> Iterator[tuple[int, bytes]]:
    """Yield rows in chunks, each with its lane: raw rows, or those of the envelope. ``final``: chunks that were final before.

    >>> from penstock.protocol.envelope import NOTE, RECORD, batch_of
    >>> records = batch_of(RECORD, pa.array([0, 1, 3]), [["in"] * 3, [0, 1, 3], [None] * 3, [b"a", b"b", b"c"], [0] * 3])
    >>> note = batch_of(NOTE, pa.array([1]), [[""], [0], [None], [b"all is well"], [0]])
    >>> chunks = list(partitioned([records, note], 2))
    >>> [(lane, chunk[:1] == FINAL) for lane, chunk in chunks]
    [(0, False), (1, False), (0, True)]
    >>> rides = []
    >>> rows = opened([chunk for _, chunk in chunks[1:]], rides, [])
    >>> [batch["value"].to_pylist() for batch in rows], len(rides)
    ([[b'b', b'c']], 1)
    """
    waiting: dict[int, list[pa.RecordBatch]] = {}
    sizes: dict[int, int] = {}
    for batch in batches:
        for lane, rows in _by_lane(batch, lanes):
            waiting.setdefault(lane, []).append(rows)
            sizes[lane] = sizes.get(lane, 0) + rows.nbytes
            if sizes[lane] >= CHUNK_BYTES:
                yield _addressed(lane, wrap(waiting.pop(lane)))
                del sizes[lane]
    for lane, together in waiting.items():
        yield _addressed(lane, wrap(together))
    for chunk in final:
        yield _addressed(_FINAL, chunk)


def moves_to_all(moves: list[pa.RecordBatch], lanes: int, wrap: Wrap = chunk_of) -> Iterator[tuple[int, bytes]]:
    """Yield the moves of time in a chunk for each lane; to be called when all rows have gone."""
    if any(len(batch) for batch in moves):
        chunk = MOVES + wrap(moves)
        for lane in range(lanes):
            yield lane, chunk


def opened(chunks: Iterable[bytes], final: list[bytes], moves: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the chunks of a lane; those that are final are put aside, unopened, and so are moves of time."""
    for chunk in chunks:
        if chunk[:1] == FINAL:
            final.append(chunk[1:])
        elif chunk[:1] == MOVES:
            moves += opened_chunk(memoryview(chunk)[1:]).to_batches()
        else:
            yield from opened_chunk(memoryview(chunk)[1:]).to_batches()


#: stands for the lane of rows that are final
_FINAL = -1


def _by_lane(batch: pa.RecordBatch, lanes: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not len(batch):
        return
    raw = "shard" in batch.schema.names
    if not raw:
        going = batch["kind"].to_numpy() < SINK
        if not going.all():
            yield _FINAL, batch if not going.any() else batch.filter(pa.array(~going))
            if not going.any():
                return
            batch = batch.filter(pa.array(going))
    yield from _split(batch, "shard" if raw else "route", lanes)


def split(batches: list[pa.RecordBatch], column: str, lanes: int) -> list[list[pa.RecordBatch]]:
    """Return the rows of each lane, in order. ``column``: of the shard, or of a number that tells the lane as it does.

    >>> rows = pa.RecordBatch.from_pydict({"shard": [0, 1, 2, 3]})
    >>> [[batch["shard"].to_pylist() for batch in lane] for lane in split([rows], "shard", 3)]
    [[[0, 3]], [[1]], [[2]]]
    """
    if lanes == 1:
        return [batches]
    by_lane: list[list[pa.RecordBatch]] = [[] for _ in range(lanes)]
    for batch in batches:
        for lane, mine in _split(batch, column, lanes):
            by_lane[lane].append(mine)
    return by_lane


def _split(batch: pa.RecordBatch, column: str, lanes: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    lane_of_row = batch[column].to_numpy() % lanes
    for lane in np.unique(lane_of_row).tolist():
        mine = lane_of_row == lane
        yield lane, batch if mine.all() else batch.filter(pa.array(mine))


def _addressed(lane: int, chunk: bytes) -> tuple[int, bytes]:
    return (0, FINAL + chunk) if lane == _FINAL else (lane, GOING + chunk)
