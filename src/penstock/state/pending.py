"""Pending writes: the sealed epoch of a shard, kept beside its state until the epoch is known to be committed.

A file holds, in msgpack, ``{store: [keys, values, side, drops, run]}`` with ``side`` = ``{map: [keys, values]}``: lists of bytes are
packed and unpacked at a third of the cost of lists of pairs. Rows that were written by column are a ``run`` (``runs``) instead, which
goes into the state as it is. In front of it are five bytes: the format, and the crc of the rest. A file appears by a rename, so it is
whole if it exists.
Its name carries the token of the run and the level, so that files of a run that was not committed are never taken for those of one
that was.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Container, Mapping
from pathlib import Path
from struct import Struct
from typing import TypeAlias
from zlib import crc32

import msgspec

from penstock.files import telling_of_a_full_disk
from penstock.state.base import Sealed, ShardState
from penstock.state.sorted_run import SortedRun

#: keys, values (None: a delete)
Columns: TypeAlias = tuple[list[bytes], list[bytes | None]]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(
    dict[str, tuple[list[bytes], list[bytes | None], dict[str, Columns], list[str], bytes | None]]
).decode

#: what is raised for a file that is damaged, or that some other version has written
Undecodable = msgspec.DecodeError

PREFIX = "pending-"
FORMAT = 2
_HEAD = Struct(">BI")


def pack(sealed: Mapping[str, Sealed]) -> bytes:
    """Return the writes of an epoch as bytes, without the changelog rows.

    >>> unpack(pack({"s": Sealed([(b"k", None)], [(b"k", None, 5, ())])}))
    {'s': Sealed(writes=[(b'k', None)], changelog=[], side={}, drops=[])}
    """
    return _encode(
        {
            name: (*_split(s.writes), {part: _lists(rows) for part, rows in s.side.items()}, s.drops, _run(s.writes))
            for name, s in sealed.items()
            if s.writes or s.side or s.drops
        }
    )


def _split(rows: Collection[tuple[bytes, bytes | None]]) -> Columns:
    return ([], []) if isinstance(rows, SortedRun) else _lists(rows)


def _run(rows: Collection[tuple[bytes, bytes | None]]) -> bytes | None:
    return rows.run if isinstance(rows, SortedRun) else None


def _lists(rows: Collection[tuple[bytes, bytes | None]]) -> Columns:
    return [key for key, _ in rows], [value for _, value in rows]


def unpack(data: bytes) -> dict[str, Sealed]:
    """Return what ``pack`` packed."""
    return {
        name: Sealed(
            _rows(keys, values) if run is None else SortedRun(run),
            [],
            {part: _rows(*columns) for part, columns in side.items()},
            drops,
        )
        for name, (keys, values, side, drops, run) in _decode(data).items()
    }


def _rows(keys: list[bytes], values: list[bytes | None]) -> list[tuple[bytes, bytes | None]]:
    return list(zip(keys, values, strict=True))


def file_name(token: str, level: int, attempt: str) -> str:
    """Name the file of a shard's writes in one step of one run of an epoch."""
    return f"{PREFIX}{token}-{level}-{attempt}"


def write(folder: Path, name: str, data: bytes) -> None:
    """Write a file so that it is there as a whole, or not at all."""
    incoming = f"{folder}/.{name}-{os.getpid()}"
    with telling_of_a_full_disk(incoming, len(data)), open(incoming, "wb", opener=_private) as file:
        file.write(_HEAD.pack(FORMAT, crc32(data)))
        file.write(data)
    os.rename(incoming, f"{folder}/{name}")


def read(folder: Path, name: str) -> bytes:
    """Return what was written to a file; raises ``Undecodable`` if it is something else now."""
    with open(f"{folder}/{name}", "rb") as file:
        head, data = file.read(_HEAD.size), file.read()
    if head != _HEAD.pack(FORMAT, crc32(data)):
        raise Undecodable(f"{folder}/{name} does not match its checksum, or has another format than {FORMAT}")
    return data


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def clear(folder: Path, keep: str = "") -> None:
    """Delete the pending files of a shard but those of one token."""
    for name in os.listdir(folder):
        if name.lstrip(".").startswith(PREFIX) and not (keep and name.startswith(f"{PREFIX}{keep}-")):
            (folder / name).unlink(missing_ok=True)


def apply(state: ShardState, data: bytes, stores: Container[str] | None = None) -> None:
    """Bring the writes of a committed epoch into a shard, of some stores or of all; the caller makes it atomic with ``state.batch()``."""
    for name, (keys, values, side, drops, run) in _decode(data).items():
        if stores is not None and name not in stores:
            continue
        for gone in drops:
            state.drop(gone)
        if run is not None:
            state.map(name).load(SortedRun(run))
        for part, columns in {name: (keys, values), **side}.items():
            if columns[0]:
                state.map(part).write(zip(*columns, strict=True))
