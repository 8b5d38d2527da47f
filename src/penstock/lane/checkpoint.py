"""The checkpoint of a shard's local copy: which barrier its rows are at. Kept in the same LMDB environment, written with the rows.

::

    map "penstock/checkpoint", key "checkpoint":
    msgpack {format, incarnation, version, read: {store: [[partition, next offset], ...]}, at}

A copy with a checkpoint of another ``format``, or with rows and no checkpoint, was written by another version of Penstock: it is
deleted and restored from the changelogs. ``docs/formats.md`` has the rule for changing it.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from penstock.clock import SystemClock
from penstock.state.base import ShardState

#: also of what the checkpoint speaks for: the directory of maps, sorted runs and rows in the environment
FORMAT = 1
#: the map of a shard that holds its checkpoint
CHECKPOINT = "penstock/checkpoint"
KEY = b"checkpoint"
#: the incarnation of a copy that another version has written: that of no application
ANOTHER_FORMAT = "another format"


class ShardCheckpoint(msgspec.Struct):
    """Which barrier a local copy is at. ``version`` None: in the middle of a restore.

    ``read``: store → (partition, next offset) of its changelog, or of the source topic that serves as one. Of global
    tables: topic → (partition, next offset).
    """

    incarnation: str = ""
    version: str | None = ""
    read: dict[str, list[tuple[int, int]]] = {}
    #: when it was brought here, in milliseconds of the wall clock
    at: int = 0
    format: int = FORMAT


class ShardIsNewer(Exception):
    """A shard is at a later barrier than the one that it was to be read at."""


class _Format(msgspec.Struct):
    """What can be read of a checkpoint of any format."""

    format: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ShardCheckpoint).decode
_decode_format = msgspec.msgpack.Decoder(_Format).decode


def checkpoint_of(state: ShardState) -> ShardCheckpoint:
    """Return the checkpoint of a local copy."""
    raw = state.map(CHECKPOINT).get(KEY)
    if raw is None:
        return ShardCheckpoint(ANOTHER_FORMAT if set(state.names()) - {CHECKPOINT} else "")
    with suppress(msgspec.DecodeError):
        if _decode_format(raw).format == FORMAT:
            return _decode(raw)
    return ShardCheckpoint(ANOTHER_FORMAT)


def write_checkpoint(
    state: ShardState, checkpoint: ShardCheckpoint, version: str | None, read: dict[str, list[tuple[int, int]]]
) -> None:
    """Record that a local copy is at a version; the caller makes it one transaction with its rows."""
    checkpoint.version, checkpoint.read, checkpoint.at = version, read, SystemClock().now_ms()
    state.map(CHECKPOINT).write([(KEY, _encode(checkpoint))])


def is_beyond(checkpoint: ShardCheckpoint, incarnation: str, version: str) -> bool:
    """Whether a copy is at a later epoch than a version: the token of an attempt, which begins with the epoch's number.

    >>> [is_beyond(ShardCheckpoint("a", "10.5f"), "a", version) for version in ("9.ff", "10.5f", "11.00", "")]
    [True, False, False, True]
    """
    at, wanted = (int((token or "0").partition(".")[0]) for token in (checkpoint.version, version))
    return checkpoint.incarnation == incarnation and at > wanted
