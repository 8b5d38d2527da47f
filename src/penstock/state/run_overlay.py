"""A run of pending rows above a map, read as it is: a point read of thousands of rows unpacks none of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.state.base import BytesStore, OrderedRows, prefix_end
from penstock.state.sorted_run import SortedRun, find_column, loops

#: rows of the run fetched at a time while a range is iterated
CHUNK = 256


class ReadOnlyMap(ABC):
    """What is read of a map with pending rows above it. Writes wait for the barrier."""

    @abstractmethod
    def range(self, lower: bytes | None, upper: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Iterate lower <= key < upper in key order, or backwards."""

    def under(self, prefixes: list[bytes]) -> list[list[tuple[bytes, bytes]]]:
        """Return the rows whose keys begin with each prefix, in key order."""
        return [list(self.range(prefix, prefix_end(prefix))) for prefix in prefixes]

    def count(self) -> int:
        """Return the number of entries."""
        return sum(1 for _ in self.range(None, None))

    def write(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Refuse: an overlay is read; what is written waits for the barrier."""
        raise NotImplementedError("an overlay is not written to")

    def load(self, rows: OrderedRows | SortedRun) -> None:
        """Refuse, as well."""
        raise NotImplementedError("an overlay is not written to")


class RunOverlayMap(ReadOnlyMap):
    """One map: a run without deleted rows above a base.

    >>> from penstock.state.memory import MemoryMap
    >>> from penstock.state.sorted_run import pack
    >>> base = MemoryMap()
    >>> base.write([(b"a", b"1"), (b"b", b"2")])
    >>> above = RunOverlayMap(base, SortedRun(pack(pa.array([b"b", b"c"]), pa.array([b"new", b"3"]))))
    >>> list(above.range(None, None)), above.get(b"b"), above.count()
    ([(b'a', b'1'), (b'b', b'new'), (b'c', b'3')], b'new', 3)
    """

    def __init__(self, base: BytesStore, rows: SortedRun) -> None:
        self._base = base
        self._run = [rows.run]

    def get(self, key: bytes) -> bytes | None:
        """Return the value or None."""
        value: bytes | None = loops.find(self._run, key)
        return self._base.get(key) if value is None else value

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the value or None of each key."""
        if not keys:
            return []
        found: list[bytes | None] = self.column(pa.array(keys, pa.binary())).to_pylist()
        return found

    def column(self, names: pa.Array) -> pa.Array:
        """Return the value of each key, null where there is none."""
        found = find_column(self._run, names)
        return pc.coalesce(found, self._base.column(names)) if found.null_count else found

    def range(self, lower: bytes | None, upper: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Iterate lower <= key < upper in key order, or backwards."""
        base = self._base.range(lower, upper, reverse)
        below = next(base, None)
        for row in self._rows(lower, upper, reverse):
            while below is not None and (below[0] > row[0] if reverse else below[0] < row[0]):
                yield below
                below = next(base, None)
            if below is not None and below[0] == row[0]:
                below = next(base, None)
            yield row
        if below is not None:
            yield below
            yield from base

    def _rows(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        """Iterate the rows of the run, some at a time."""
        while True:
            rows = loops.rows(self._run, lower, upper, reverse, CHUNK)
            yield from rows
            if len(rows) < CHUNK:
                return
            if reverse:
                upper = rows[-1][0]
            else:
                lower = rows[-1][0] + b"\x00"
