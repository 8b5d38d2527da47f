"""Which shard a key belongs to, and which lane a shard: arithmetic only, the same on every machine."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from penstock.native.columns import column_of
from penstock.native.loader import in_c

loops: Any = in_c("grouping")


def shard_of(key: bytes | None, shards: int, partition: int = 0) -> int:
    """Return the shard of a key; a record without a key stays with its source partition.

    >>> shard_of(b"a", 16) == shard_of(b"a", 16)
    True
    >>> shard_of(None, 4, partition=6)
    2
    """
    return partition % shards if key is None else crc32(key) % shards


def shards_of(keys: Collection[bytes], shards: int) -> Any:
    """Return the shards of many keys.

    >>> shards_of([b"a", b"b"], 16).tolist() == [shard_of(b"a", 16), shard_of(b"b", 16)]
    True
    """
    return np.fromiter(map(crc32, keys), dtype=np.int64, count=len(keys)) % shards


def shard_column(keys: pa.Array, shards: int, home: int) -> Any:
    """Return the shard of each key of a column as int32, ``home`` where there is no key. In C where that was built.

    >>> shard_column(pa.array([b"a", None, b"b"], pa.binary()), 8, 3).tolist()
    [3, 3, 1]
    """
    if shards < 1:
        raise ValueError(f"there must be at least one shard, not {shards}")
    if loops is not None:
        return np.frombuffer(loops.shards(len(keys), column_of(keys), shards, home), dtype=np.int32)
    return np.array([home if key is None else crc32(key) % shards for key in keys.to_pylist()], dtype=np.int32)


def lane_of(shard: int, lanes: int) -> int:
    """Return the lane that owns a shard."""
    return shard % lanes
