"""Rows without objects: the loops over what is written and read, in C, where a compiler has built them.

The client is called for each row, and asked for each field of each record: a microsecond of Python and its objects either way.
``_partition_queue`` does the same on Arrow's columns in a quarter of the time, and lets other threads run meanwhile. It is a *plugin* of
the client (a setting of librdkafka), which is how it comes to know the clients. Where it was not built (`loops` is None) the same is done
in Python; a program sees no difference. ``PENSTOCK_NATIVE=0`` leaves it out.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.native.loader import in_c

loops: Any = in_c("partition_queue")

PLUGINS = "plugin.library.paths"


def plugged(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings of a client that the loops may use.

    >>> plugged({"plugin.library.paths": "mine"})["plugin.library.paths"].split(";")[0]
    'mine'
    """
    if loops is None:
        return settings
    return settings | {PLUGINS: ";".join([*filter(None, [settings.get(PLUGINS)]), loops.__file__])}


def column_of(array: pa.Array) -> tuple[Any, Any, Any, int]:
    """Return an array of bytes as the loops take it."""
    return (*array.buffers(), array.offset)


def array_of(rows: int, valid: bytes | None, offsets: bytes, data: bytes) -> pa.Array:
    """Return what the loops have read as an array of bytes."""
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def shards_of(keys: pa.Array, shards: int, home: int) -> npt.NDArray[np.int32]:
    """Return the shard of each key, ``home`` where there is none: as ``state.shards.shard_of``, without a call for each.

    >>> shards_of(pa.array([b"a", None, b"b"], pa.binary()), 8, 3).tolist()
    [3, 3, 1]
    """
    if shards < 1:
        raise ValueError(f"there must be at least one shard, not {shards}")
    if loops is not None:
        return np.frombuffer(loops.shards(len(keys), column_of(keys), shards, home), dtype=np.int32)
    found = [home if key is None else crc32(key) % shards for key in keys.to_pylist()]
    return np.array(found, dtype=np.int32)
