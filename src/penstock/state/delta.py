"""The delta of a store: rows that were written, by column, and are not applied yet, or only published.

Of a store with one row for each key see ``grouped_delta``, which also knows who wrote each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.record import Headers
from penstock.state.layer import Entry, KeyRows, Layer

#: a start of 8 bytes and a sequence number of 4, big-endian, behind a key
_SUFFIX = np.dtype([("start", ">i8"), ("sequence", ">i4")])


class StoreDelta(NamedTuple):
    """New rows of a store in the order of writing; a null value deletes. ``times`` are those of the records.

    ``starts`` and ``sequences``: of a store that keeps duplicates, whose rows have positions. ``places``: where rows are published before
    they are written, the position of each record among all that go together, ascending.
    """

    keys: pa.Array
    values: pa.Array
    times: Any
    starts: Any = None
    sequences: Any = None
    headers: Sequence[Headers] | None = None
    places: Any = None

    def where(self, mask: Any) -> StoreDelta:
        """Return some of the rows.

        >>> delta = StoreDelta(pa.array([b"a", b"b"]), pa.array([b"x", b"y"]), np.array([3, 4]), places=np.array([0, 7]))
        >>> delta.where(np.array([False, True])).places.tolist()
        [7]
        """
        if mask.all():
            return self
        chosen = pa.array(mask)
        columns = self.times, self.starts, self.sequences, self.places
        times, starts, sequences, places = (None if column is None else column[mask] for column in columns)
        headers = None if self.headers is None else [self.headers[at] for at in np.flatnonzero(mask).tolist()]
        keys, values = self.keys.filter(chosen), self.values.filter(chosen)
        return StoreDelta(keys, values, times, starts, sequences, headers, places)

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


def joined(deltas: Sequence[StoreDelta]) -> StoreDelta:
    """Return the rows of several deltas as those of one; none of them has headers."""
    if len(deltas) == 1:
        return deltas[0]
    keys, values, times, starts, sequences, *_ = zip(*deltas, strict=True)
    rows = pa.concat_arrays(keys), pa.concat_arrays(values)
    return StoreDelta(*rows, np.concatenate(times), np.concatenate(starts), np.concatenate(sequences))


class DeltaLayer(Layer):
    """A layer of which single rows are made when somebody first asks for them: the lane that wrote it mostly ends before."""

    def __init__(self, deltas: Sequence[StoreDelta]) -> None:
        self._deltas = deltas
        self.times, self.at = [], {}

    @cached_property
    def keys(self) -> dict[bytes, KeyRows]:  # type: ignore[override]
        """The rows by key."""
        found: dict[bytes, KeyRows] = {}
        for delta in self._deltas:
            for key, position, entry in delta.entries():
                positions, entries = found.setdefault(key, ([], {}))
                positions.append(position)
                entries[position] = entry
        for positions, _ in found.values():
            positions.sort()
        return found
