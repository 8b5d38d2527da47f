"""Columns of typed JSON, thousands of values in one call of the decoder or encoder: as lines.

Half of what one value costs is the object of its bytes and the call. The results are those of single calls; where that is not certain,
there is none, and each value is read or written by itself.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.serde.base import Serde
from penstock.serde.finite import check_finite, holds_floats
from penstock.serde.typed_json import json_of

_encode_lines = msgspec.json.Encoder().encode_lines
_OPENING, _CLOSING, _NEW_LINE = b"{}\n"


class JsonLines:
    """Reads and writes columns of one type."""

    __slots__ = ("_checks", "_decode_lines")

    def __init__(self, type_: Any) -> None:
        self._checks = holds_floats(type_)
        self._decode_lines = msgspec.json.Decoder(type_).decode_lines

    def decode(self, column: pa.Array) -> list[Any] | None:
        """Return the values, or None if they have to be read one by one.

        Of rows that begin with ``{`` and end with ``}`` none can go on in the next line: a line break ends no string, and after the closing
        bracket of an inner object no opening one may follow. So every row has one object or more, and if there are as many objects
        as rows, each has one.

        >>> lines = JsonLines(dict[str, int])
        >>> lines.decode(pa.array([b'{"a":1}', b'{"b" : 2}'])), lines.decode(pa.array([b'{"a":1} {"b":2}', b""]))
        ([{'a': 1}, {'b': 2}], None)
        """
        if column.null_count or not len(column) or not _are_objects(column):
            return None
        rows = pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column)
        values: list[Any] = self._decode_lines(pc.binary_join(rows, b"\n")[0].as_buffer())
        return values if len(values) == len(column) else None

    def encode(self, items: list[Any]) -> pa.Array | None:
        """Return the bytes of values, or None if they have to be written one by one: None is Kafka's null, not JSON's.

        >>> lines = JsonLines(int | str | list[int])
        >>> lines.encode([[1], "a\\n"]), lines.encode([1, None])
        (<pyarrow.lib.BinaryArray object at ...>
        [
          5B315D,
          22615C6E22
        ], None)
        """
        if not items:
            return None
        written = _encode_lines(items)
        if self._checks and written.find(b"null") >= 0:
            check_finite(items)
        breaks = np.flatnonzero(np.frombuffer(written, dtype=np.uint8) == _NEW_LINE)
        if len(breaks) != len(items):  # some value brought its own
            return None
        offsets = np.zeros(len(items) + 1, dtype=np.int32)
        offsets[1:] = breaks + 1
        if (np.diff(offsets) == len(b"null\n")).any() and any(item is None for item in items):
            return None
        lines = pa.Array.from_buffers(pa.binary(), len(items), [None, pa.py_buffer(offsets), pa.py_buffer(written)])
        return pc.binary_slice(lines, 0, -1)  # row by row: to look at each byte takes ten times as long


def _are_objects(column: pa.Array) -> bool:
    _, offsets, data = column.buffers()
    if column.type != pa.binary() or data is None:
        return False
    edges = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    if np.diff(edges).min() < 2:
        return False
    letters = np.frombuffer(data, dtype=np.uint8)
    return bool((letters[edges[:-1]] == _OPENING).all() and (letters[edges[1:] - 1] == _CLOSING).all())


@lru_cache(maxsize=1024)
def json_lines(serde: Serde[Any]) -> JsonLines | None:
    """Return what reads and writes columns of a serde, if it is one of typed JSON."""
    function, arguments = serde.__reduce__()
    return JsonLines(*arguments) if function is json_of else None
