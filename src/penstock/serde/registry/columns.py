"""Columns of Avro with a registry: thousands of values of one schema in one buffer, checked and converted together.

The results are those of single calls; where that is not certain, there is none, and each value is read or written by itself.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.serde.base import Serde
from penstock.serde.registry.avro_form import AvroForm
from penstock.serde.registry.framing import ID, ID_SIZE
from penstock.serde.registry.serde import RegistrySerde

#: Arrow counts the bytes of a column in 32 bits
_MOST_BYTES = 2**31 - 1


class AvroColumns:
    """Reads and writes columns of one serde."""

    __slots__ = ("_read", "_serde", "_write")

    def __init__(self, serde: RegistrySerde) -> None:
        self._serde = serde
        self._read: dict[bytes, Any] = {}
        self._write: Any = None

    def decode(self, column: pa.Array) -> list[Any] | None:
        """Return the values, or None if they have to be read one by one: they are not all of one schema."""
        if column.null_count or not len(column) or column.type != pa.binary():
            return None
        _, offsets, data = column.buffers()
        ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
        frame = _common_frame(np.frombuffer(data, np.uint8), ends)
        if frame is None:
            return None
        if frame not in self._read:
            self._read[frame] = self._serde.column_reader(int.from_bytes(frame[1:], "big"))
        found: list[Any] = self._read[frame](BytesIO(data), (ends[:-1] + ID_SIZE).tolist(), ends[1:].tolist())
        return found

    def encode(self, items: list[Any]) -> pa.Array | None:
        """Return the bytes of values, or None if they have to be written one by one: one is None, or may not fit."""
        if not items or None in items:
            return None
        if self._write is None:
            self._write = self._serde.column_writer() or False
        written = self._write(items) if self._write else None
        if written is None or written[1][-1] > _MOST_BYTES:
            return None
        data, ends = written
        buffers = [None, pa.py_buffer(np.array(ends, np.int32)), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), len(items), buffers)


@lru_cache(maxsize=256)
def avro_columns(serde: Serde[Any]) -> AvroColumns | None:
    """Return what reads and writes columns of a serde; None if it does so one by one."""
    if not isinstance(serde, RegistrySerde) or not isinstance(serde.form, AvroForm):
        return None  # as most are
    return None if serde.form.is_union or serde.in_header else AvroColumns(serde)


def _common_frame(data: Any, ends: Any) -> bytes | None:
    """Return the id that stands in front of all rows; None if they differ, or one has none."""
    if (np.diff(ends) < ID_SIZE).any():
        return None
    frames = data[ends[:-1, None] + np.arange(ID_SIZE)]
    first = bytes(frames[0])
    return first if first[0] == ID and (frames == frames[0]).all() else None
