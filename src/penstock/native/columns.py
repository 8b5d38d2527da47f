"""Arrow arrays of bytes as the loops take and return them: their buffers."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa

#: bits that tell which rows are there (None: all), int32 offsets, bytes, the first row
BytesColumn: TypeAlias = tuple[Any, Any, Any, int]


def column_of(array: pa.Array) -> BytesColumn:
    """Return an array of bytes as the loops take it; an empty one may have no offsets in Arrow, and has one here.

    >>> column_of(pa.array([], pa.binary()))[1:]
    (b'\\x00\\x00\\x00\\x00', b'', 0)
    """
    narrow = array if array.type == pa.binary() else array.cast(pa.binary())
    valid, offsets, data = narrow.buffers()
    return (valid, offsets, data, narrow.offset) if len(narrow) else (None, bytes(4), b"", 0)


def array_of(rows: int, valid: Any, offsets: Any, data: Any, first: int = 0) -> pa.Array:
    """Return what the loops take, or have made, as an array of bytes.

    >>> array_of(2, *column_of(pa.array([b"a", b"b", None])[1:])).to_pylist()
    [b'b', None]
    """
    bits = None if valid is None else pa.py_buffer(valid)
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(b"" if data is None else data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, offset=first)
