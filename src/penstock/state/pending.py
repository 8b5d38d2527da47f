"""Pending writes: the sealed epoch of a shard, kept beside its state until the epoch is known to be committed.

A file holds, in msgpack, ``{store: [keys, values, side, drops, sorted]}`` with ``side`` = ``{map: [keys, values]}``: lists of bytes are
packed and unpacked at a third of the cost of lists of pairs. ``sorted`` are rows that were written by column, keys ascending: offsets
(4 bytes, as the machine has them) and bytes of the keys, offsets and bytes of the values; beside them the lists hold deletes only. A
file appears by a rename, so it is whole if it exists.
Its name carries the token of the run and the level, so that files of a run that was not committed are never taken for those of one
that was.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from penstock.state.base import Sealed, ShardState
from penstock.state.bulk import SortedRows, SortedWrites

#: keys, values (None: a delete)
Columns: TypeAlias = tuple[list[bytes], list[bytes | None]]
Buffers: TypeAlias = tuple[bytes, bytes, bytes, bytes]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(
    dict[str, tuple[list[bytes], list[bytes | None], dict[str, Columns], list[str], Buffers | None]]
).decode

#: what is raised for a file that some other version has written
Unreadable = msgspec.DecodeError

PREFIX = "pending-"


def pack(sealed: Mapping[str, Sealed]) -> bytes:
    """Return the writes of an epoch as bytes, without the changelog rows.

    >>> unpack(pack({"s": Sealed([(b"k", None)], [(b"k", None, 5, ())])}))
    {'s': Sealed(writes=[(b'k', None)], changelog=[], side={}, drops=[])}
    """
    return _encode(
        {
            name: (*_columns(s), {part: _lists(rows) for part, rows in s.side.items()}, s.drops, _buffers(s.writes))
            for name, s in sealed.items()
            if s.writes or s.side or s.drops
        }
    )


def _columns(sealed: Sealed) -> Columns:
    if isinstance(sealed.writes, SortedWrites):
        return sealed.writes.deleted, [None] * len(sealed.writes.deleted)
    return ([], []) if isinstance(sealed.writes, SortedRows) else _lists(sealed.writes)


def _lists(rows: Collection[tuple[bytes, bytes | None]]) -> Columns:
    return [key for key, _ in rows], [value for _, value in rows]


def _buffers(rows: Collection[tuple[bytes, bytes | None]]) -> tuple[Any, ...] | None:
    if isinstance(rows, SortedWrites):
        rows = rows.rows
    if not isinstance(rows, SortedRows):
        return None
    return tuple(buffer for column in (rows.names, rows.values) for buffer in _whole(column))


def _whole(column: pa.Array) -> tuple[bytes, memoryview]:
    """Return offsets, from zero on, and bytes of a column without nulls."""
    _, offsets, data = column.cast(pa.binary()).buffers()
    edges = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    held = pa.py_buffer(b"") if data is None else data.slice(int(edges[0]), int(edges[-1] - edges[0]))
    return (edges - edges[0]).tobytes(), memoryview(held)


def _sorted(buffers: Buffers) -> SortedRows:
    names, values = (
        pa.Array.from_buffers(pa.binary(), len(offsets) // 4 - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        for offsets, data in (buffers[:2], buffers[2:])
    )
    return SortedRows(names, values)


def unpack(data: bytes) -> dict[str, Sealed]:
    """Return what ``pack`` packed."""
    return {
        name: Sealed(
            _rows(keys, values) if ordered is None else _writes(_sorted(ordered), keys),
            [],
            {part: _rows(*columns) for part, columns in side.items()},
            drops,
        )
        for name, (keys, values, side, drops, ordered) in _decode(data).items()
    }


def _writes(rows: SortedRows, deleted: list[bytes]) -> Collection[tuple[bytes, bytes | None]]:
    return SortedWrites(rows, deleted) if deleted else rows


def _rows(keys: list[bytes], values: list[bytes | None]) -> list[tuple[bytes, bytes | None]]:
    return list(zip(keys, values, strict=True))


def file_name(token: str, level: int, attempt: str) -> str:
    """Name the file of a shard's writes in one step of one run of an epoch."""
    return f"{PREFIX}{token}-{level}-{attempt}"


def write(folder: Path, name: str, data: bytes) -> None:
    """Write a file so that it is there as a whole, or not at all."""
    incoming = f"{folder}/.{name}-{os.getpid()}"
    with open(incoming, "wb") as file:
        file.write(data)
    os.rename(incoming, f"{folder}/{name}")


def clear(folder: Path, keep: str = "") -> None:
    """Delete the pending files of a shard but those of one token."""
    for name in os.listdir(folder):
        if name.lstrip(".").startswith(PREFIX) and not (keep and name.startswith(f"{PREFIX}{keep}-")):
            (folder / name).unlink(missing_ok=True)


def apply(state: ShardState, data: bytes) -> None:
    """Bring the writes of a committed epoch into a shard; the caller makes it atomic with ``state.batch()``."""
    for name, (keys, values, side, drops, ordered) in _decode(data).items():
        for gone in drops:
            state.drop(gone)
        if ordered is not None:
            state.map(name).load(_sorted(ordered))
        for part, columns in {name: (keys, values), **side}.items():
            if columns[0]:
                state.map(part).write(zip(*columns, strict=True))
