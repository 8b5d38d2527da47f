"""Pending writes: the sealed epoch of a shard, kept beside its state until the epoch is known to be committed.

A file holds, in msgpack, ``{store: [writes, side, drops]}``; it appears by a rename, so it is whole if it exists. Its name carries the
token of the run and the level, so that files of a run that was not committed are never taken for those of one that was.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from penstock.state.base import Sealed, ShardState

Rows: TypeAlias = list[tuple[bytes, bytes | None]]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, tuple[Rows, dict[str, Rows], list[str]]]).decode

PREFIX = "pending-"


def pack(sealed: Mapping[str, Sealed]) -> bytes:
    """Return the writes of an epoch as bytes, without the changelog rows.

    >>> unpack(pack({"s": Sealed([(b"k", None)], [(b"k", None, 5, ())])}))
    {'s': Sealed(writes=[(b'k', None)], changelog=[], side={}, drops=[])}
    """
    return _encode({name: (s.writes, s.side, s.drops) for name, s in sealed.items() if s.writes or s.side or s.drops})


def unpack(data: bytes) -> dict[str, Sealed]:
    """Return what ``pack`` packed."""
    return {name: Sealed(writes, [], side, drops) for name, (writes, side, drops) in _decode(data).items()}


def file_name(token: str, level: int, attempt: str) -> str:
    """Name the file of a shard's writes in one step of one run of an epoch."""
    return f"{PREFIX}{token}-{level}-{attempt}"


def write(folder: Path, name: str, data: bytes) -> None:
    """Write a file so that it is there as a whole, or not at all."""
    incoming = folder / f".{name}-{os.getpid()}"
    incoming.write_bytes(data)
    incoming.rename(folder / name)


def clear(folder: Path, keep: str = "") -> None:
    """Delete the pending files of a shard but those of one token."""
    for path in folder.iterdir():
        if path.name.lstrip(".").startswith(PREFIX) and not (keep and path.name.startswith(f"{PREFIX}{keep}-")):
            path.unlink(missing_ok=True)


def apply(state: ShardState, data: bytes) -> None:
    """Bring the writes of a committed epoch into a shard; the caller makes it atomic with ``state.batch()``."""
    for name, sealed in unpack(data).items():
        sealed.write_to(state, name)
