"""Runs: thousands of rows in key order as one value of LMDB, for stores that are written in bulk.

::

    run       rows (4 bytes)  deleted (4)  bytes of keys (4)  bytes of values (4)
              { end of key (4) } of each row   { end of value (4) } of each row   [ bit: is deleted ] of each row, if one is   keys   values

Numbers are as the machine has them: a run never leaves it. Ends count from the first key, or value, on. Bits are eight to a byte, the
lowest first. Keys ascend, each comes once.

A map that is written in bulk is a few runs, newest first, below the rows that LMDB has of it one by one. A run is written in the time of a
copy, where a row of LMDB costs half a microsecond to find and another half to write; and it is a value like any other, so that a
transaction, a read view and another process see all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.state.native import loops

#: keys and values of rows
Part: TypeAlias = tuple[pa.Array, pa.Array]

#: a run is merged into the one below if that has at most so many times its rows. So each has more rows than all above it: there are few to
#: look through, and a row is written few times in its life
RATIO = 1
#: bytes from which on a run is not merged any more; its numbers hold four times as many
MOST_BYTES = 1 << 30


def pack(names: pa.Array, values: pa.Array) -> bytes:
    """Return rows, their keys ascending, as a run; a null value is deleted.

    >>> run = pack(pa.array([b"a", b"b"]), pa.array([b"1", None]))
    >>> size_of(run), loops.find([run], b"a"), loops.find([run], b"b"), loops.find([run], b"c")
    (2, b'1', None, None)
    """
    count, deleted = len(names), b""
    key_ends, keys = _parts(names)
    value_ends, held = _parts(values)
    if values.null_count:
        gone = values.is_null().to_numpy(zero_copy_only=False)
        deleted = np.packbits(gone, bitorder="little").tobytes()
    head = np.array([count, values.null_count, len(keys), len(held)], dtype=np.uint32)
    return b"".join([head.tobytes(), key_ends, value_ends, deleted, keys, held])


def _parts(column: pa.Array) -> tuple[bytes, memoryview]:
    """Return where rows end, and their bytes; a null has none."""
    wide = column.cast(pa.large_binary())
    _, offsets, data = wide.buffers()
    edges = (
        np.frombuffer(offsets, dtype=np.int64)[wide.offset : wide.offset + len(wide) + 1] if len(wide) else np.zeros(1)
    )
    begin, end = int(edges[0]), int(edges[-1])
    if end - begin > MOST_BYTES:
        raise OverflowError("the rows are too many for one run")
    held = memoryview(b"") if data is None else memoryview(data)[begin:end]
    return (edges[1:] - begin).astype(np.uint32).tobytes(), held


def size_of(run: Any) -> int:
    """Return how many rows a run has, deleted ones among them."""
    return int.from_bytes(run[:4], _ORDER)


def has_deleted(run: Any) -> bool:
    """Whether some of its rows are deleted."""
    return any(run[4:8])


def find_column(runs: Sequence[Any], names: pa.Array) -> pa.Array:
    """Return the newest value of each key, null where there is none.

    >>> newer, older = pack(pa.array([b"b"]), pa.array([b"2"])), pack(pa.array([b"a", b"b"]), pa.array([b"1", b"1"]))
    >>> find_column([newer, older], pa.array([b"a", b"b", b"c"])).to_pylist()
    [b'1', b'2', None]
    """
    _, offsets, data = names.buffers()
    found = loops.find_many(runs, len(names), offsets, data, names.offset)
    return pa.Array.from_buffers(pa.binary(), len(names), list(map(pa.py_buffer, found)))


def how_many_to_merge(rows: int, older: Iterable[tuple[int, int]]) -> int:
    """Return how many of the older runs, (rows, bytes) of each, newest first, a new one of so many rows takes in.

    >>> how_many_to_merge(10, [(5, 100), (30, 600), (500, 9000)]), how_many_to_merge(10, [(30, 600)])
    (2, 0)
    """
    taken = bytes_taken = 0
    for size, length in older:
        bytes_taken += length
        if size > RATIO * rows or bytes_taken > MOST_BYTES:
            break
        taken += 1
        rows += size
    return taken


_ORDER: Any = "little" if np.little_endian else "big"
