"""What `_sorted_runs.c` does, in plain words: the truth that the loops are held to, and what reads runs where these were not built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge as merge_sorted
from itertools import groupby, islice, pairwise
from operator import itemgetter
from struct import Struct
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.native.columns import array_of

#: key, value; None is deleted
Row: TypeAlias = tuple[bytes, bytes | None]

FORMAT = 1
_HEAD = Struct("=IIIII")
_EDGES = Struct("=II")


class RunReader:
    """The rows of one run. ``data`` is not copied; a row is made when it is asked for."""

    def __init__(self, data: Any) -> None:
        self._data = memoryview(data)
        form, self.rows, deleted, key_bytes, _ = _HEAD.unpack_from(self._data)
        if form != FORMAT:
            raise ValueError(f"a run has format {form}, this version reads format {FORMAT}")
        self._offsets = _HEAD.size, _HEAD.size + 4 * (self.rows + 1)
        marks = _HEAD.size + 8 * (self.rows + 1)
        self._marks = marks if deleted else None
        keys = marks + ((self.rows + 7) // 8 if deleted else 0)
        self._begin = keys, keys + key_bytes

    def key(self, row: int) -> bytes:
        """Return the key of a row."""
        return self._part(0, row)

    def value(self, row: int) -> bytes | None:
        """Return the value of a row, None if it is deleted."""
        if self._marks is not None and self._data[self._marks + row // 8] >> row % 8 & 1:
            return None
        return self._part(1, row)

    def _part(self, which: int, row: int) -> bytes:
        since, until = _EDGES.unpack_from(self._data, self._offsets[which] + 4 * row)
        begin = self._begin[which]
        return bytes(self._data[begin + since : begin + until])

    def first(self, key: bytes) -> int:
        """Return the first row whose key is not less."""
        low, high = 0, self.rows
        while low < high:
            middle = (low + high) // 2
            if self.key(middle) < key:
                low = middle + 1
            else:
                high = middle
        return low

    def between(self, lower: bytes | None, upper: bytes | None, backwards: bool = False) -> Iterator[Row]:
        """Iterate lower <= key < upper."""
        some = range(0 if lower is None else self.first(lower), self.rows if upper is None else self.first(upper))
        return ((self.key(row), self.value(row)) for row in (reversed(some) if backwards else some))


def _newest(
    runs: Sequence[Any], lower: bytes | None = None, upper: bytes | None = None, backwards: bool = False
) -> Iterator[Row]:
    """Iterate the newest row of each key."""
    each = (RunReader(run).between(lower, upper, backwards) for run in runs)
    together = merge_sorted(*each, key=itemgetter(0), reverse=backwards)  # stable: of equal keys the newest comes first
    return (next(same) for _, same in groupby(together, key=itemgetter(0)))


def find(runs: Sequence[Any], key: bytes) -> bytes | None:
    """Return the newest value of a key."""
    for run in map(RunReader, runs):
        row = run.first(key)
        if row < run.rows and run.key(row) == key:
            return run.value(row)
    return None


def find_many(runs: Sequence[Any], rows: int, offsets: Any, data: Any, first: int) -> tuple[bytes, bytes, bytes]:
    """Return the newest values of a column of keys, as the buffers of a column."""
    edges = np.frombuffer(offsets, dtype=np.int32)[first : first + rows + 1].tolist()
    held = b"" if data is None else bytes(data)
    found = [find(runs, held[begin:end]) for begin, end in pairwise(edges)]
    there = np.array([value is not None for value in found], dtype=bool)
    sizes = [0, *(0 if value is None else len(value) for value in found)]
    values = b"".join(value for value in found if value is not None)
    return np.packbits(there, bitorder="little").tobytes(), np.cumsum(sizes, dtype=np.int32).tobytes(), values


def rows(
    runs: Sequence[Any], lower: bytes | None, upper: bytes | None, backwards: bool, most: int
) -> list[tuple[bytes, bytes]]:
    """Return the first or last rows with lower <= key < upper."""
    found = ((key, value) for key, value in _newest(runs, lower, upper, backwards) if value is not None)
    return list(islice(found, most))


def count(runs: Sequence[Any]) -> int:
    """Return how many keys have a row."""
    return sum(value is not None for _, value in _newest(runs))


def merge(runs: Sequence[Any], keep_deleted: bool) -> bytes:
    """Return several runs as one."""
    return _packed([(key, value) for key, value in _newest(runs) if keep_deleted or value is not None])


def unpack(run: Any) -> list[Row]:
    """Return all rows of a run."""
    return list(RunReader(run).between(None, None))


def pack(rows: int, names: Any, values: Any, times: Any) -> bytes:
    """Return rows as a run. By column: it is done for all that a fold has written."""
    keys, held = array_of(rows, *names), array_of(rows, *values)
    if times is not None:
        held = stamped_rows(times, held)
    gone = held.is_null().to_numpy(zero_copy_only=False)
    marks = np.packbits(gone, bitorder="little").tobytes() if held.null_count else b""
    (key_edges, key_data), (value_edges, value_data) = _parts(keys), _parts(held)
    head = _HEAD.pack(FORMAT, rows, held.null_count, len(key_data), len(value_data))
    return b"".join([head, key_edges, value_edges, marks, key_data, value_data])


def stamped_rows(times: Any, values: pa.Array) -> pa.Array:
    """Return values as base rows have them: behind a timestamp of 8 bytes, big-endian."""
    packed = pa.py_buffer(np.array(times, ">i8").tobytes())
    stamps = pa.Array.from_buffers(pa.binary(8), len(times), [None, packed]).cast(values.type)
    return pc.binary_join_element_wise(stamps, values, pa.scalar(b"", values.type))


def _parts(column: pa.Array) -> tuple[bytes, memoryview]:
    """Return offsets, from zero on, and bytes; a null has none."""
    _, offsets, data = column.buffers()
    edges = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    held = memoryview(b"") if data is None else memoryview(data)[edges[0] : edges[-1]]
    return (edges - edges[0]).tobytes(), held


def _packed(rows: list[Row]) -> bytes:
    keys, values = [key for key, _ in rows], [value or b"" for _, value in rows]
    gone = np.array([value is None for _, value in rows], dtype=bool)
    marks = np.packbits(gone, bitorder="little").tobytes() if gone.any() else b""
    edges = [np.cumsum([0, *map(len, parts)], dtype=np.uint32).tobytes() for parts in (keys, values)]
    head = _HEAD.pack(FORMAT, len(rows), int(gone.sum()), sum(map(len, keys)), sum(map(len, values)))
    return b"".join([head, *edges, marks, *keys, *values])
