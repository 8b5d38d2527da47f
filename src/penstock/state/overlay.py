"""A shard's state with the pending writes of an earlier step of the same epoch on top: what a later step of it reads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from heapq import merge
from itertools import chain
from operator import itemgetter

import pyarrow as pa

from penstock.state.base import BytesStore, Sealed, ShardState
from penstock.state.run_overlay import ReadOnlyMap, RunOverlayMap
from penstock.state.sorted_run import SortedRun, has_deleted


class OverlayMap(ReadOnlyMap):
    """One map: rows written above a base. A row of None is deleted."""

    def __init__(self, base: BytesStore | None, rows: dict[bytes, bytes | None]) -> None:
        self._base = base
        self._rows = rows

    def get(self, key: bytes) -> bytes | None:
        """Return the value or None."""
        if key in self._rows:
            return self._rows[key]
        return None if self._base is None else self._base.get(key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the value or None of each key."""
        rows = self._rows
        if self._base is None:
            return list(map(rows.get, keys))
        below = [key for key in keys if key not in rows]
        if len(below) == len(keys):
            return self._base.get_many(keys)
        found = dict(zip(below, self._base.get_many(below), strict=True))
        return [rows[key] if key in rows else found[key] for key in keys]

    def column(self, names: pa.Array) -> pa.Array:
        """Return the value of each key, null where there is none."""
        return pa.array(self.get_many(names.to_pylist()), pa.binary())

    def range(self, lower: bytes | None, upper: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Iterate lower <= key < upper in key order, or backwards."""
        rows = self._rows
        inside = [k for k in rows if (lower is None or k >= lower) and (upper is None or k < upper)]
        above = [(key, value) for key in sorted(inside, reverse=reverse) if (value := rows[key]) is not None]
        below = () if self._base is None else self._base.range(lower, upper, reverse)
        kept = (row for row in below if row[0] not in rows)
        return merge(above, kept, key=itemgetter(0), reverse=reverse)


def _above(base: BytesStore | None, written: list[Collection[tuple[bytes, bytes | None]]]) -> BytesStore:
    """Return a map with rows above a base; one run without deleted rows is not unpacked."""
    if base is not None and not written:
        return base
    if base is not None and len(written) == 1 and isinstance(run := written[0], SortedRun) and not has_deleted(run.run):
        return RunOverlayMap(base, run)
    return OverlayMap(base, dict(chain.from_iterable(written)))


class OverlayState:
    """The maps of a shard as an earlier step of the epoch left them. Writes and drops are refused: they wait for the barrier.

    >>> from penstock.state.memory import MemoryState
    >>> base = MemoryState()
    >>> base.map("m").write([(b"a", b"1"), (b"b", b"2")])
    >>> overlay = OverlayState(base, {"m": Sealed([(b"b", None), (b"c", b"3")])})
    >>> list(overlay.map("m").range(None, None)), base.map("m").count()
    ([(b'a', b'1'), (b'c', b'3')], 2)
    """

    def __init__(self, base: ShardState, pending: Mapping[str, Sealed]) -> None:
        self._base = base
        self._written: dict[str, list[Collection[tuple[bytes, bytes | None]]]] = {}
        self._gone: set[str] = set()
        for store, sealed in pending.items():
            self._gone.update(sealed.drops)
            for name, writes in ((store, sealed.writes), *sealed.side.items()):
                self._written.setdefault(name, []).append(writes)
        self._maps: dict[str, BytesStore] = {}

    def map(self, name: str) -> BytesStore:
        """Return the map of this name, with what is pending."""
        if name not in self._maps:
            base = None if name in self._gone else self._base.map(name)
            self._maps[name] = _above(base, [rows for rows in self._written.get(name, ()) if rows])
        return self._maps[name]

    def names(self) -> list[str]:
        """Return the names of all maps, sorted."""
        return sorted((set(self._base.names()) - self._gone) | set(self._written))

    def drop(self, name: str) -> None:
        """Refuse: an overlay is read."""
        raise NotImplementedError("an overlay is not written to")

    def batch(self) -> AbstractContextManager[None]:
        """Refuse: an overlay is read."""
        raise NotImplementedError("an overlay is not written to")

    def release(self) -> None:
        """Release the base's read view."""
        self._base.release()

    def close(self) -> None:
        """Do nothing: the base is closed by its owner."""

    def destroy(self) -> None:
        """Do nothing: the base is its owner's."""
