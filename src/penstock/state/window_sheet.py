"""Rows of a store that keeps duplicates, by column: what many records have put, and what is told of it before it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.batch.column import Column
from penstock.batch.fallback import Fallback
from penstock.batch.merge import binary
from penstock.record import Headers
from penstock.state.layer import Entry, KeyRows, Layer

#: a start of 8 bytes and a sequence number of 4, big-endian, behind a key
_SUFFIX = np.dtype([("start", ">i8"), ("sequence", ">i4")])


class WindowSheet(NamedTuple):
    """Rows in the order of putting, which is that of their sequence numbers; ``times`` are those of the records."""

    keys: pa.Array
    starts: Any
    sequences: Any
    values: pa.Array
    times: Any
    headers: Sequence[Headers] | None

    def where(self, mask: Any) -> WindowSheet:
        """Return some of the rows.

        >>> sheet = WindowSheet(pa.array([b"a", b"b"]), np.array([1, 2]), np.array([7, 8]), pa.array([b"x", b"y"]), np.array([3, 4]), None)
        >>> sheet.where(np.array([False, True])).values.to_pylist()
        [b'y']
        """
        if mask.all():
            return self
        chosen = pa.array(mask)
        headers = None if self.headers is None else [self.headers[at] for at in np.flatnonzero(mask).tolist()]
        return WindowSheet(
            self.keys.filter(chosen),
            self.starts[mask],
            self.sequences[mask],
            self.values.filter(chosen),
            self.times[mask],
            headers,
        )

    def names(self) -> pa.Array:
        """Return the rows' keys as the base and the changelog have them."""
        suffixes = np.empty(len(self.starts), dtype=_SUFFIX)
        suffixes["start"], suffixes["sequence"] = self.starts, self.sequences
        packed = pa.py_buffer(suffixes.tobytes())
        behind = pa.Array.from_buffers(pa.binary(_SUFFIX.itemsize), len(suffixes), [None, packed]).cast(pa.binary())
        return pc.binary_join_element_wise(self.keys, behind, pa.scalar(b"", pa.binary()))

    def entries(self) -> Iterator[tuple[bytes, tuple[int, int], Entry]]:
        """Yield (key, position, entry) of each row."""
        headers: Any = repeat(()) if self.headers is None else self.headers
        entries = zip(self.values.to_pylist(), self.times.tolist(), headers, repeat(None), repeat(0), strict=False)
        positions = zip(self.starts.tolist(), self.sequences.tolist(), strict=True)
        yield from zip(self.keys.to_pylist(), positions, entries, strict=False)


def joined(sheets: Sequence[WindowSheet]) -> WindowSheet:
    """Return the rows of several sheets as those of one; none of them has headers."""
    if len(sheets) == 1:
        return sheets[0]
    keys, starts, sequences, values, times, _ = zip(*sheets, strict=True)
    starts_of_all, sequences_of_all = np.concatenate(starts), np.concatenate(sequences)
    values_of_all, times_of_all = pa.concat_arrays(values), np.concatenate(times)
    return WindowSheet(pa.concat_arrays(keys), starts_of_all, sequences_of_all, values_of_all, times_of_all, None)


class SheetLayer(Layer):
    """A layer of which single rows are made when somebody first asks for them: the lane that wrote it mostly ends before."""

    def __init__(self, sheets: Sequence[WindowSheet]) -> None:
        self._sheets = sheets
        self.times, self.at = [], {}

    @cached_property
    def keys(self) -> dict[bytes, KeyRows]:  # type: ignore[override]
        """The rows by key."""
        found: dict[bytes, KeyRows] = {}
        for sheet in self._sheets:
            for key, position, entry in sheet.entries():
                positions, entries = found.setdefault(key, ([], {}))
                positions.append(position)
                entries[position] = entry
        for positions, _ in found.values():
            positions.sort()
        return found


class ToldRows(NamedTuple):
    """What a batch is about to put into a store: the rows, and the places of their records.

    ``at``: which of the records that have a key and a value each row is of; the others are too old.
    """

    sheet: WindowSheet
    places: Any
    at: Any
    #: the values of all records that have one, as objects, and the bytes that were made of them; None where nobody can change them
    items: list[Any] | None
    data: pa.Array
    serde: Any

    def check(self, at: Any) -> None:
        """Refuse values that somebody has changed since: one by one they would be put as they are now."""
        if self.items is not None and len(at):
            now = binary(Column([self.items[place] for place in at.tolist()]).bytes_of(self.serde))
            if not now.equals(self.data.take(pa.array(at))):
                raise Fallback("value_changed")
