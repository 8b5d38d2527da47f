"""The delta of a store: rows that were written, by column, and are not applied yet, or only published. One type for all kinds of stores.

A store with one row for each key keeps it as a ``BatchDelta`` (``state/batch_delta.py``), with the batch whose records wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.batch.batch import Batch
from penstock.record import Headers
from penstock.state.base import Entry as BatchEntry
from penstock.state.layer import Entry, KeyRows, Layer

#: a start of 8 bytes and a sequence number of 4, big-endian, behind a key
_SUFFIX = np.dtype([("start", ">i8"), ("sequence", ">i4")])


class StoreDelta(NamedTuple):
    """New rows of a store in the order of writing; a null value deletes. ``times`` are those of the records.

    ``starts``: of a windowed store, where the window of each row starts. ``sequences``: of a store that keeps duplicates. ``places``: the
    position of each write among all that go together. ``writers``: the row of the batch whose record wrote each row last.
    """

    keys: pa.Array
    values: pa.Array
    times: Any
    starts: Any = None
    sequences: Any = None
    headers: Sequence[Headers] | None = None
    places: Any = None
    writers: Any = None

    def where(self, mask: Any) -> StoreDelta:
        """Return some of the rows.

        >>> delta = StoreDelta(pa.array([b"a", b"b"]), pa.array([b"x", b"y"]), np.array([3, 4]), places=np.array([0, 7]))
        >>> delta.where(np.array([False, True])).places.tolist()
        [7]
        """
        if mask.all():
            return self
        chosen = pa.array(mask)
        return self._picked(self.keys.filter(chosen), self.values.filter(chosen), mask, np.flatnonzero(mask))

    def in_order(self) -> StoreDelta:
        """Return the rows in the order of their last writes.

        >>> delta = StoreDelta(pa.array([b"a", b"b"]), pa.array([b"x", b"y"]), np.array([3, 4]), writers=np.array([7, 0]))
        >>> delta.in_order().keys.to_pylist()
        [b'b', b'a']
        """
        order = order_of_places(self.writers if self.places is None else self.places)
        at = pa.array(order)
        return self._picked(self.keys.take(at), self.values.take(at), order, order)

    def _picked(self, keys: pa.Array, values: pa.Array, index: Any, rows: Any) -> StoreDelta:
        columns = self.times, self.starts, self.sequences, self.places, self.writers
        times, starts, sequences, places, writers = (None if column is None else column[index] for column in columns)
        headers = None if self.headers is None else [self.headers[row] for row in rows.tolist()]
        return StoreDelta(keys, values, times, starts, sequences, headers, places, writers)

    def written_by(self, batch: Batch, numbers: Iterator[int]) -> Iterator[BatchEntry]:
        """Yield the rows for a map of single ones, each with its writer, a record of the batch, and a number."""
        last = self.writers.tolist()
        headers: Any = repeat(()) if batch.headers is None else [batch.headers[row] for row in last]
        writers = zip(repeat(batch), last, strict=False)
        yield from zip(self.values.to_pylist(), self.times.tolist(), headers, writers, numbers, strict=False)

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
    """Return the rows of several deltas as those of one; none of them has headers. A column that one does not have, all have not."""
    if len(deltas) == 1:
        return deltas[0]
    keys, values, *others = zip(*deltas, strict=True)
    columns: Any = (None if any(part is None for part in parts) else np.concatenate(parts) for parts in others)
    return StoreDelta(pa.concat_arrays(keys), pa.concat_arrays(values), *columns)


def order_of_places(places: Any) -> Any:
    """Return the order of places, of which each comes once: many are laid out rather than sorted, in a third of the time.

    >>> order_of_places(np.array([3, 0, 2])).tolist()
    [1, 2, 0]
    """
    end = int(places.max(initial=-1)) + 1
    if end > 4 * len(places):
        return np.argsort(places)
    laid_out = np.full(end, -1, dtype=np.int64)
    laid_out[places] = np.arange(len(places))
    return laid_out[laid_out >= 0]


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
