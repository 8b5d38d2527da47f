"""The last row of each key of a log, by column: what a compacted topic would hold if it were compacted to its end.

Invariant: among rows with the same key the one that was added last counts; one without a value deletes the key.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.batch.grouping import KeyGroups

#: rows and bytes that wait before they are reduced; more if the rows that are left are more
MOST_ROWS, MOST_BYTES = 1 << 20, 256 << 20


class KeyedRows(NamedTuple):
    """Rows by column: keys and values as bytes, timestamps as numbers."""

    keys: pa.Array
    values: pa.Array
    times: Any

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.times)

    def take(self, places: Any) -> KeyedRows:
        """Return the rows at some places."""
        chosen = pa.array(places)
        return KeyedRows(self.keys.take(chosen), self.values.take(chosen), self.times[places])


#: no rows; values may be more bytes than 32 bits can count
NO_ROWS = KeyedRows(pa.array([], pa.binary()), pa.array([], pa.large_binary()), np.array([], np.int64))


class LastRows:
    """Takes the rows of a log in order, and keeps the last of each key.

    >>> rows = LastRows()
    >>> rows.add(pa.array([b"b", b"a", b"b"]), pa.array([b"1", b"2", b"3"]), np.array([5, 6, 7]))
    >>> rows.add(pa.array([b"a"]), pa.array([None], pa.binary()), np.array([8]))
    >>> found = rows.newest()
    >>> found.keys.to_pylist(), found.values.to_pylist(), found.times.tolist()
    ([b'b'], [b'3'], [7])
    """

    def __init__(self) -> None:
        self._kept = NO_ROWS
        self._waiting: list[KeyedRows] = []
        self._rows = self._bytes = 0

    def add(self, keys: pa.Array, values: pa.Array, times: Any) -> None:
        """Take rows; those without a key are nobody's."""
        rows = KeyedRows(keys, values.cast(pa.large_binary()), times)
        if keys.null_count:
            rows = rows.take(np.flatnonzero(keys.is_valid()))
        self._waiting.append(rows)
        self._rows += rows.size
        self._bytes += keys.nbytes + values.nbytes
        if self._rows > max(MOST_ROWS, self._kept.size) or self._bytes > max(MOST_BYTES, self._kept.values.nbytes):
            self._reduce()

    def newest(self) -> KeyedRows:
        """Return the last row of each key, keys in the order of their bytes."""
        if self._waiting:
            self._reduce()
        return self._kept

    def _reduce(self) -> None:
        every = [self._kept, *self._waiting]
        joined = KeyedRows(
            pa.concat_arrays([rows.keys for rows in every]),
            pa.concat_arrays([rows.values for rows in every]),
            np.concatenate([rows.times for rows in every]),
        )
        last = KeyGroups(joined.keys).last
        there = joined.values.is_valid().to_numpy(zero_copy_only=False)
        self._kept = joined.take(last[there[last]])
        self._waiting, self._rows, self._bytes = [], 0, 0


def without_end(keys: pa.Array, size: int) -> pa.Array:
    """Return keys without their last bytes.

    >>> without_end(pa.array([b"abc", b"bc"]), 2).to_pylist()
    [b'a', b'']
    """
    return pc.binary_slice(keys, 0, -size)


def numbers_at_end(keys: pa.Array, back: int) -> Any:
    """Return the int64, big endian, that begins so many bytes before the end of each key.

    >>> numbers_at_end(pa.array([b"k" + bytes(7) + b"\\x05" + bytes(4), bytes(7) + b"\\x06" + bytes(4)]), 12).tolist()
    [5, 6]
    """
    if not len(keys):
        return np.array([], np.int64)
    _, offsets, data = keys.buffers()
    edges = np.frombuffer(offsets, dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    if (np.diff(edges) < back).any():
        raise ValueError("a key is too short to have a time")
    held = np.frombuffer(data, dtype=np.uint8)
    at_each_byte = np.ndarray((len(held) - 7,), dtype=">i8", buffer=held, strides=(1,))
    return at_each_byte[edges[1:] - back].astype(np.int64)
