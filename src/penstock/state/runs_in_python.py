"""What `_runs.c` does, in plain words: the truth that the loops are held to, and what reads runs where these were not built."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np

#: rows in key order; a value of None is deleted
Rows = list[tuple[bytes, bytes | None]]


def unpack(run: Any) -> Rows:
    """Return the rows of a run."""
    count, deleted, key_bytes, _ = np.frombuffer(run, dtype=np.uint32, count=4).tolist()
    ends = np.frombuffer(run, dtype=np.uint32, count=2 * count, offset=16).tolist()
    at = 16 + 8 * count
    gone = [False] * count
    if deleted:
        marks = np.frombuffer(run, dtype=np.uint8, count=(count + 7) // 8, offset=at)
        gone = np.unpackbits(marks, count=count, bitorder="little").astype(bool).tolist()
        at += len(marks)
    keys, values = _cut(run, at, ends[:count]), _cut(run, at + key_bytes, ends[count:])
    return [(key, None if is_gone else value) for key, value, is_gone in zip(keys, values, gone, strict=True)]


def _cut(run: Any, at: int, ends: list[int]) -> list[bytes]:
    begins = [0, *ends[:-1]] if ends else []
    return [bytes(run[at + begin : at + end]) for begin, end in zip(begins, ends, strict=True)]


def _together(runs: Sequence[Any]) -> Rows:
    found: dict[bytes, bytes | None] = {}
    for run in reversed(runs):
        found.update(unpack(run))
    return sorted(found.items())


def find(runs: Sequence[Any], key: bytes) -> bytes | None:
    """Return the newest value of a key."""
    for run in runs:
        rows = unpack(run)
        at = bisect_left(rows, key, key=lambda row: row[0])
        if at < len(rows) and rows[at][0] == key:
            return rows[at][1]
    return None


def find_many(runs: Sequence[Any], rows: int, offsets: Any, data: Any, first: int) -> tuple[bytes, bytes, bytes]:
    """Return the newest values of a column of keys, as the buffers of a column."""
    edges = np.frombuffer(offsets, dtype=np.int32)[first : first + rows + 1].tolist()
    held = b"" if data is None else bytes(data)
    known = dict(_together(runs))
    found = [known.get(held[begin:end]) for begin, end in zip(edges[:-1], edges[1:], strict=True)]
    there = np.array([value is not None for value in found], dtype=bool)
    sizes = [0, *(0 if value is None else len(value) for value in found)]
    return (
        np.packbits(there, bitorder="little").tobytes(),
        np.cumsum(sizes, dtype=np.int32).tobytes(),
        b"".join(value for value in found if value is not None),
    )


def rows(
    runs: Sequence[Any], lower: bytes | None, upper: bytes | None, backwards: bool, most: int
) -> list[tuple[bytes, bytes]]:
    """Return the first or last rows with lower <= key < upper."""
    found = [
        (key, value)
        for key, value in _together(runs)
        if value is not None and (lower is None or key >= lower) and (upper is None or key < upper)
    ]
    return (found[::-1] if backwards else found)[:most]


def count(runs: Sequence[Any]) -> int:
    """Return how many keys have a row."""
    return len(rows(runs, None, None, False, 1 << 62))
