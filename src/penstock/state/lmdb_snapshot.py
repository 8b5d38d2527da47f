"""A read-only view of the maps of a shard at one moment, for any thread, whatever is written meanwhile.

`LmdbState.snapshot` makes one. It is a read transaction of its own (a second one of the same moment where there are
runs, which are read where they lie). Every use of a transaction is under the guard of the environment: a transaction
belongs to one thread at a time. Pages of the moment are kept by LMDB until ``close``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, NoReturn

import pyarrow as pa

from penstock.errors import SnapshotClosed
from penstock.state.base import BytesStore, OrderedRows
from penstock.state.lmdb_format import run_key
from penstock.state.lmdb_map import CHUNK, LmdbMap, Row
from penstock.state.sorted_run import SortedRun, size_of


class LmdbSnapshot:
    """What `LmdbState` had at a moment; read-only."""

    def __init__(
        self,
        path: str,
        guard: threading.Lock,
        views: tuple[Any, Any],
        run_values: Any,
        maps: Mapping[str, tuple[Any, Any, tuple[int, ...]]],
        on_close: Callable[[LmdbSnapshot], None],
    ) -> None:
        """``views``: transactions that copy what is read, and that do not (None: there is no run).

        ``maps``: name → databases, runs.
        """
        self._path = path
        self._guard = guard
        self._view, self._wide = views
        self._run_values = run_values
        self._entries = maps
        self._on_close = on_close
        self._why = "it is closed"
        self._maps: dict[str, BytesStore] = {}

    # ---- what a map asks for

    def look(self) -> Any:
        """Return the read transaction."""
        if self._view is None:
            raise SnapshotClosed(f"this snapshot of {self._path} cannot be read any more: {self._why}")
        return self._view

    def runs(self, numbers: tuple[int, ...]) -> list[Any]:
        """Return runs as they lie in LMDB: to be read at once, and not to be kept."""
        return [self._wide.get(run_key(number), None, self._run_values) for number in numbers]

    def run(self, name: str, step: Any) -> NoReturn:
        """Refuse: a snapshot is read."""
        raise NotImplementedError("a snapshot is not written to")

    def make_room(self, size: int) -> NoReturn:
        """Refuse: a snapshot is read."""
        raise NotImplementedError("a snapshot is not written to")

    # ---- the contract of a shard's state

    def map(self, name: str) -> BytesStore:
        """Return the bytes map of this name."""
        found = self._maps.get(name)
        if found is None:
            found = self._maps[name] = GuardedMap(LmdbMap(self, name, self._entries.get(name)), self._guard)
        return found

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return entries and bytes of each map. A row that is in several runs counts in each."""
        with self._guard:
            view = self.look()
            return {name: self._size(view, entry) for name, entry in self._entries.items()}

    def _size(self, view: Any, entry: tuple[Any, Any, tuple[int, ...]]) -> tuple[int, int]:
        entries = size = 0
        for database in entry[:2]:
            if database is not None:
                stat = view.stat(database)
                entries += stat["entries"]
                size += stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])
        for run in self.runs(entry[2]):
            entries += size_of(run)
            size += len(run)
        return entries, size

    def names(self) -> list[str]:
        """Return the names of all maps, sorted."""
        return sorted(self._entries)

    def drop(self, name: str) -> None:
        """Refuse: a snapshot is read."""
        raise NotImplementedError("a snapshot is not written to")

    def batch(self) -> AbstractContextManager[None]:
        """Refuse: a snapshot is read."""
        raise NotImplementedError("a snapshot is not written to")

    def release(self) -> None:
        """Do nothing: the snapshot lasts until it is closed."""

    @property
    def is_open(self) -> bool:
        """Whether it can be read: another process may have made the environment anew."""
        return self._view is not None

    def close(self) -> None:
        """Close the read transactions, so that LMDB can reuse the pages."""
        self.end("it is closed")

    def end(self, why: str) -> None:
        """Close the snapshot; reads after that raise the given reason."""
        with self._guard:
            views, self._view, self._wide = (self._view, self._wide), None, None
            for view in views:
                if view is not None:
                    self._why = why
                    view.abort()
        self._on_close(self)

    def orphan(self) -> Any:
        """Give up the transactions without ending them, and return them: after a fork they are the parent's."""
        views, self._view, self._wide = (self._view, self._wide), None, None
        self._guard, self._why = threading.Lock(), "it was taken before this process was forked"
        return views

    def destroy(self) -> None:
        """Close it: the rows are their owner's."""
        self.close()


class GuardedMap:
    """A map whose transaction is used by one thread at a time; rows of a range are fetched some at a time."""

    __slots__ = ("_guard", "_map")

    def __init__(self, found: LmdbMap, guard: threading.Lock) -> None:
        self._map = found
        self._guard = guard

    def get(self, key: bytes) -> bytes | None:
        """Return the value or None."""
        with self._guard:
            return self._map.get(key)

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the value or None of each key."""
        with self._guard:
            return self._map.get_many(keys)

    def column(self, names: pa.Array) -> pa.Array:
        """Return the value of each key, null where there is none."""
        with self._guard:
            return self._map.column(names)

    def range(self, lower: bytes | None, upper: bytes | None, reverse: bool = False) -> Iterator[Row]:
        """Iterate lower <= key < upper in key order, or backwards."""
        with self._guard:
            rows = self._map.range(lower, upper, reverse)
        while True:
            with self._guard:
                chunk = list(islice(rows, CHUNK))
            yield from chunk
            if len(chunk) < CHUNK:
                return

    def under(self, prefixes: list[bytes]) -> list[list[Row]]:
        """Return the rows whose keys begin with each prefix, in key order."""
        with self._guard:
            return self._map.under(prefixes)

    def count(self) -> int:
        """Return the number of entries."""
        with self._guard:
            return self._map.count()

    def write(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Refuse: a snapshot is read."""
        raise NotImplementedError("a snapshot is not written to")

    def load(self, rows: OrderedRows | SortedRun) -> None:
        """Refuse: a snapshot is read."""
        raise NotImplementedError("a snapshot is not written to")
