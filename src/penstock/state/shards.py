"""Which shard a key belongs to, and which lane a shard: arithmetic only, the same on every machine."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from zlib import crc32

import numpy as np


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


def lane_of(shard: int, lanes: int) -> int:
    """Return the lane that owns a shard."""
    return shard % lanes
