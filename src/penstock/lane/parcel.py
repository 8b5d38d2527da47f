"""Parcels: envelope rows on their way to the driver, thousands in one cell.

Spark takes every row that leaves Python apart and puts it together again before the driver gets it. To it a parcel is one row with
one value: the bytes of an Arrow stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.lane.envelope import SCHEMA

#: a parcel is closed once it holds as many bytes
PARCEL_BYTES = 1 << 26
PARCEL_SCHEMA = pa.schema([pa.field("parcel", pa.binary())])


def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in parcels; a batch is never cut.

    >>> from penstock.lane.envelope import NOTE, batch_of
    >>> note = batch_of(NOTE, pa.array([1]), [[""], [0], [None], [b"all is well"], [0]])
    >>> parcels = pa.Table.from_batches(packed([note, note]))
    >>> len(parcels), unpacked(parcels)["value"].to_pylist()
    (1, [b'all is well', b'all is well'])
    """
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        gathered.append(batch)
        if sum(one.nbytes for one in gathered) >= PARCEL_BYTES:
            yield _parcel(gathered)
            gathered = []
    if gathered:
        yield _parcel(gathered)


def unpacked(parcels: pa.Table) -> pa.Table:
    """Return the rows of parcels, in order."""
    streams = [pa.ipc.open_stream(value.as_buffer()) for chunk in parcels["parcel"].chunks for value in chunk]
    return pa.concat_tables([SCHEMA.empty_table(), *(stream.read_all() for stream in streams)])


def _parcel(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, SCHEMA) as writer:
        for batch in batches:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=SCHEMA))
    return pa.RecordBatch.from_arrays([pa.array([stream.getvalue().to_pybytes()], pa.binary())], schema=PARCEL_SCHEMA)
