"""Chunks: rows on their way between tasks, and to the driver, thousands in one value: the bytes of an Arrow stream.

Spark would take every row that leaves Python apart, and put it together again. Where all tasks share a machine the stream is left in a
file (*staged*), and the chunk is its name: the bytes of the records are then not copied through the JVM, which would do so six times.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.protocol.envelope import SCHEMA

#: a chunk is closed once it holds as many bytes
CHUNK_BYTES = 1 << 23
#: how a chunk begins that is the name of a file; a stream begins with four bytes of ones
IN_FILE = b"file:"

#: makes a chunk of rows
Wrap: TypeAlias = Callable[[list[pa.RecordBatch]], bytes]


def chunk_of(batches: list[pa.RecordBatch]) -> bytes:
    """Return rows as the bytes of an Arrow stream."""
    stream = pa.BufferOutputStream()
    write_stream(stream, batches)
    return stream.getvalue().to_pybytes()  # type: ignore[no-any-return]


def opened_chunk(chunk: bytes | memoryview) -> pa.Table:
    """Return the rows of a chunk. Those in a file stay there: its pages are the memory of the rows.

    >>> opened_chunk(chunk_of([pa.RecordBatch.from_pydict({"a": [1, 2]})]))["a"].to_pylist()
    [1, 2]
    """
    if chunk[: len(IN_FILE)] != IN_FILE:
        return pa.ipc.open_stream(chunk).read_all()
    with pa.memory_map(os.fsdecode(bytes(chunk[len(IN_FILE) :]))) as file:
        return pa.ipc.open_stream(file).read_all()


def packed(batches: Iterable[pa.RecordBatch], wrap: Wrap = chunk_of) -> Iterator[bytes]:
    """Yield the rows in chunks; a batch is never cut.

    >>> from penstock.protocol.envelope import NOTE, batch_of
    >>> note = batch_of(NOTE, pa.array([1]), [[""], [0], [None], [b"all is well"], [0]])
    >>> chunks = list(packed([note, note]))
    >>> len(chunks), unpacked(chunks)["value"].to_pylist()
    (1, [b'all is well', b'all is well'])
    """
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        gathered.append(batch)
        size += batch.nbytes
        if size >= CHUNK_BYTES:
            yield wrap(gathered)
            gathered, size = [], 0
    if gathered:
        yield wrap(gathered)


def unpacked(chunks: Iterable[bytes]) -> pa.Table:
    """Return the rows of chunks, in order."""
    return pa.concat_tables([SCHEMA.empty_table(), *map(opened_chunk, chunks)])


def write_stream(sink: Any, batches: list[pa.RecordBatch]) -> None:
    """Write rows as an Arrow stream."""
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=batches[0].schema))
