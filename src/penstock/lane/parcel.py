"""Parcels: envelope rows on their way to the driver, thousands in one cell.

Spark takes every row that leaves Python apart and puts it together again before the driver gets it. To it a parcel is one row with
one value: the bytes of an Arrow stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from penstock.lane.envelope import SCHEMA

#: a parcel is closed once it holds as many bytes
PARCEL_BYTES = 1 << 26
PARCEL_SCHEMA = pa.schema([pa.field("parcel", pa.binary())])


def packed(batches: Iterable[pa.RecordBatch], parcels: Iterable[bytes] = ()) -> Iterator[pa.RecordBatch]:
    """Yield the rows in parcels; a batch is never cut. ``parcels``: some that are made already, if only when all rows are known.

    >>> from penstock.lane.envelope import NOTE, batch_of
    >>> note = batch_of(NOTE, pa.array([1]), [[""], [0], [None], [b"all is well"], [0]])
    >>> parcels = pa.Table.from_batches(packed([note, note]))
    >>> len(parcels), unpacked(parcels)["value"].to_pylist()
    (1, [b'all is well', b'all is well'])
    """
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        gathered.append(batch)
        size += batch.nbytes
        if size >= PARCEL_BYTES:
            yield _row(parcel_of(gathered))
            gathered, size = [], 0
    if gathered:
        yield _row(parcel_of(gathered))
    for parcel in parcels:
        yield _row(parcel)


def unpacked(parcels: pa.Table) -> pa.Table:
    """Return the rows of parcels, in order."""
    return unpacked_bytes(value.as_buffer() for chunk in parcels["parcel"].chunks for value in chunk)


def unpacked_bytes(parcels: Iterable[Any]) -> pa.Table:
    """Return the rows of parcels that are bytes or buffers, in order."""
    streams = [pa.ipc.open_stream(parcel) for parcel in parcels]
    return pa.concat_tables([SCHEMA.empty_table(), *(stream.read_all() for stream in streams)])


def parcel_of(batches: list[pa.RecordBatch]) -> bytes:
    """Return rows as the bytes of an Arrow stream."""
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=batches[0].schema))
    return stream.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _row(parcel: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([parcel], pa.binary())], schema=PARCEL_SCHEMA)
