"""The memory body of a shard's state: one dict a map, its keys sorted only once somebody asks for a range."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice

import pyarrow as pa
from sortedcontainers import SortedList

from penstock.state.base import OrderedRows, prefix_end
from penstock.state.sorted_run import SortedRun

#: rows fetched at a time while a range is iterated, so that a write in between is neither an error nor a copy of
#: everything
CHUNK = 256


class MemoryMap:
    """One ordered map of bytes in memory.

    >>> rows = MemoryMap()
    >>> rows.write([(b"b", b"2"), (b"a", b"1"), (b"c", b"3"), (b"c", None)])
    >>> list(rows.range(None, None)), rows.get(b"b"), rows.count()
    ([(b'a', b'1'), (b'b', b'2')], b'2', 2)
    """

    __slots__ = ("_rows", "_sorted", "get")

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._sorted: SortedList | None = None  # all keys, from the first range on
        self.get = self._rows.get

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the value or None of each key."""
        return list(map(self.get, keys))

    def column(self, names: pa.Array) -> pa.Array:
        """Return the value of each key, null where there is none."""
        return pa.array(self.get_many(names.to_pylist()), pa.binary())

    def range(self, lower: bytes | None, upper: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Iterate lower <= key < upper (None: open end) in key order, or backwards."""
        if self._sorted is None:
            self._sorted = SortedList(self._rows)
        return self._walk(lower, upper, reverse)

    def under(self, prefixes: list[bytes]) -> list[list[tuple[bytes, bytes]]]:
        """Return the rows whose keys begin with each prefix, in key order."""
        return [list(self.range(prefix, prefix_end(prefix))) for prefix in prefixes]

    def _walk(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        rows = self._rows
        inclusive = (True, False)
        while True:
            keys = self._sorted
            assert keys is not None
            chunk = list(islice(keys.irange(lower, upper, inclusive, reverse), CHUNK))
            for key in chunk:
                value = rows.get(key)
                if value is not None:
                    yield key, value
            if len(chunk) < CHUNK:
                return
            if reverse:
                upper = chunk[-1]
            else:
                lower, inclusive = chunk[-1], (False, False)

    def write(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put every row (value None: delete)."""
        keys, table = self._sorted, self._rows
        for key, value in rows:
            if value is None:
                if table.pop(key, None) is not None and keys is not None:
                    keys.remove(key)
            else:
                if keys is not None and key not in table:
                    keys.add(key)
                table[key] = value

    def load(self, rows: OrderedRows | SortedRun) -> None:
        """Put every row."""
        self.write(list(rows))

    def count(self) -> int:
        """Return the number of entries."""
        return len(self._rows)


class MemoryState:
    """The state of one shard in memory: for tests, for stores with ``persistent=False``.

    >>> state = MemoryState()
    >>> state.map("counts").write([(b"a", b"1")])
    >>> state.names(), state.map("counts").get(b"a")
    (['counts'], b'1')
    """

    def __init__(self) -> None:
        self._maps: dict[str, MemoryMap] = {}

    def map(self, name: str) -> MemoryMap:
        """Return the bytes map of this name, made on first use."""
        found = self._maps.get(name)
        if found is None:
            found = self._maps[name] = MemoryMap()
        return found

    def copy(self) -> MemoryState:
        """Return the rows as they are now, for a reader of its own."""
        copied = MemoryState()
        for name, rows in self._maps.items():
            copied.map(name).write(rows.range(None, None))
        return copied

    def drop(self, name: str) -> None:
        """Delete a whole map."""
        self._maps.pop(name, None)

    def names(self) -> list[str]:
        """Return the names of all maps, sorted."""
        return sorted(self._maps)

    def batch(self) -> AbstractContextManager[None]:
        """Do nothing: one process, one thread, nobody sees a step in between."""
        return nullcontext()

    def release(self) -> None:
        """Do nothing: there is no read view to let go of."""

    def close(self) -> None:
        """Do nothing: the rows live as long as this object."""

    def destroy(self) -> None:
        """Forget every row."""
        self._maps.clear()
