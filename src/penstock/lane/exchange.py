"""On the way to a step: rows in parcels with an address, so that Spark moves a few cells and not every row.

Rows for a later step go to their lane. Rows that are final go along with any of them, unopened, until they leave the last step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from penstock.lane.envelope import PENDING
from penstock.lane.parcel import parcel_of

#: a parcel is closed once it holds as many bytes
PARCEL_BYTES = 1 << 22
ADDRESSED_SCHEMA = pa.schema(
    [pa.field("lane", pa.int32()), pa.field("final", pa.bool_()), pa.field("parcel", pa.binary())]
)


def addressed(batches: Iterable[pa.RecordBatch], lanes: int, final: Iterable[bytes] = ()) -> Iterator[pa.RecordBatch]:
    """Yield rows in parcels, each for a lane: raw rows, or those of the envelope. ``final``: parcels that were final before.

    >>> from penstock.lane.envelope import NOTE, RECORD, batch_of
    >>> records = batch_of(RECORD, pa.array([0, 1, 3]), [["in"] * 3, [0, 1, 3], [None] * 3, [b"a", b"b", b"c"], [0] * 3])
    >>> note = batch_of(NOTE, pa.array([1]), [[""], [0], [None], [b"all is well"], [0]])
    >>> parcels = list(addressed([records, note], 2))
    >>> [(p["lane"][0].as_py(), p["final"][0].as_py()) for p in parcels]
    [(0, False), (1, False), (0, True)]
    >>> rides = []
    >>> rows = opened([parcels[1], parcels[2]], rides)
    >>> [batch["value"].to_pylist() for batch in rows], len(rides)
    ([[b'b', b'c']], 1)
    """
    waiting: dict[int, list[pa.RecordBatch]] = {}
    sizes: dict[int, int] = {}
    for batch in batches:
        for lane, rows in _by_lane(batch, lanes):
            waiting.setdefault(lane, []).append(rows)
            sizes[lane] = sizes.get(lane, 0) + rows.nbytes
            if sizes[lane] >= PARCEL_BYTES:
                yield _addressed(lane, parcel_of(waiting.pop(lane)))
                del sizes[lane]
    for lane, together in waiting.items():
        yield _addressed(lane, parcel_of(together))
    for parcel in final:
        yield _addressed(_FINAL, parcel)


def opened(batches: Iterable[pa.RecordBatch], final: list[bytes]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the parcels of a lane; those that are final are put aside, unopened."""
    for batch in batches:
        for is_final, parcel in zip(batch["final"].to_pylist(), batch["parcel"].to_pylist(), strict=True):
            if is_final:
                final.append(parcel)
            else:
                yield from pa.ipc.open_stream(parcel)


#: stands for the lane of rows that are final
_FINAL = -1


def _by_lane(batch: pa.RecordBatch, lanes: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not len(batch):
        return
    raw = "shard" in batch.schema.names
    if not raw:
        going = batch["kind"].to_numpy() <= PENDING
        if not going.all():
            yield _FINAL, batch if not going.any() else batch.filter(pa.array(~going))
            if not going.any():
                return
            batch = batch.filter(pa.array(going))
    lane = batch["shard" if raw else "route"].to_numpy() % lanes
    for number in np.unique(lane).tolist():
        mine = lane == number
        yield number, batch if mine.all() else batch.filter(pa.array(mine))


def _addressed(lane: int, parcel: bytes) -> pa.RecordBatch:
    final = lane == _FINAL
    columns = [pa.array([0 if final else lane], pa.int32()), pa.array([final]), pa.array([parcel], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=ADDRESSED_SCHEMA)
