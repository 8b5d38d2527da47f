"""Sorted runs: thousands of rows in key order as one value of LMDB, for stores that are written in bulk.

::

    run       format (4 bytes)  rows (4)  deleted (4)  bytes of keys (4)  bytes of values (4)
              offsets of keys (4 each, one more than rows)   offsets of values (the same)   bits (a row is deleted; if one is)
              keys   values

Numbers are as the machine has them: a run never leaves it. Offsets, from zero on, and bits are as Arrow has them. Keys ascend, each comes
once, and none is longer than 509 bytes, so that LMDB could have it by itself.

A map that is written in bulk is a few runs, newest first, below the rows that LMDB has of it one by one. A run is written in the time of a
copy, where a row of LMDB costs half a microsecond to find and another half to write; and it is a value like any other, so that a
transaction, a read view and another process see all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.native.columns import column_of
from penstock.native.loader import loop

loops = loop("sorted_runs")

#: bytes from which on a run is not merged any more; its numbers hold twice as many
MOST_BYTES = 1 << 30


def pack(names: pa.Array, values: pa.Array, times: Any = None) -> bytes:
    """Return rows, their keys ascending, as a run; a null value is deleted. ``times``: others get 8 bytes of these in front.

    >>> run = pack(pa.array([b"a", b"b"]), pa.array([b"1", None]))
    >>> size_of(run), loops.find([run], b"a"), loops.find([run], b"b"), loops.find([run], b"c")
    (2, b'1', None, None)
    >>> loops.find([pack(pa.array([b"a"]), pa.array([b"1"]), np.array([53]))], b"a")
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x0051'
    """
    made: bytes = loops.pack(len(names), column_of(names), column_of(values), times)
    return made


@dataclass(frozen=True, slots=True)
class SortedRun(Collection[tuple[bytes, bytes | None]]):
    """The rows of a run; None: deleted.

    >>> rows = SortedRun(pack(pa.array([b"a", b"b"]), pa.array([b"1", None])))
    >>> list(rows), len(rows)
    ([(b'a', b'1'), (b'b', None)], 2)
    """

    run: bytes

    def __len__(self) -> int:
        return size_of(self.run)

    def __iter__(self) -> Iterator[tuple[bytes, bytes | None]]:
        return iter(loops.unpack(self.run))

    def __contains__(self, row: object) -> bool:
        return any(row == mine for mine in self)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self.run)


def size_of(run: Any) -> int:
    """Return how many rows a run has, deleted ones among them."""
    return int.from_bytes(run[4:8], _ORDER)


def has_deleted(run: Any) -> bool:
    """Whether some of its rows are deleted."""
    return any(run[8:12])


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
    """Return how many of the older runs, (rows, bytes) of each, newest first, a new one of so many rows takes in: those with no more rows.

    So each run has more rows than all above it: there are few to look through, and a row is written few times in its life.

    >>> how_many_to_merge(10, [(5, 100), (15, 300), (500, 9000)]), how_many_to_merge(10, [(30, 600)])
    (2, 0)
    """
    taken = bytes_taken = 0
    for size, length in older:
        bytes_taken += length
        if size > rows or bytes_taken > MOST_BYTES:
            break
        taken += 1
        rows += size
    return taken


_ORDER: Any = "little" if np.little_endian else "big"
