"""What every store is to the lane: bytes inside, a dirty map above, one barrier.

Life of a store inside one shard::

    open ──▶ verbs during the epoch (all writes stay in the dirty map; reads see them)
         ──▶ flush()    cached stores forward their changed rows downstream, once per key      ┐ at the barrier,
         ──▶ seal()     hand out the epoch's writes: rows for the base map and the changelog   ┘ in this order
         ──▶ apply()    only once the epoch is committed: the sealed writes reach the base map

Invariant: the base map is touched by ``apply`` alone, so an aborted epoch has nothing to undo.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from penstock.record import Headers, Origin
from penstock.state.cache import CacheBudget

if TYPE_CHECKING:
    from penstock.state.event_time import EventTime
    from penstock.state.sorted_run import SortedRun
from penstock.state.spec import StoreSpec

#: passes over cached stores at one barrier; more of them do not end by themselves
MOST_FLUSHES = 1000
#: flush listener of a cached store: (key, new value, old value or None, timestamp, headers); ``old`` is the value
#: before the epoch
OnFlush: TypeAlias = Callable[[Any, Any, Any, int, Headers], None]

#: listener of each row that is put or deleted: (key, value or None, timestamp), as the changelog has them
OnChange: TypeAlias = Callable[[bytes, bytes | None, int], None]

#: a row of an epoch: (value bytes or None for a delete, timestamp, headers, origin of the writer, number of the write: its place in the
#: order of a flush). Origin None and number 0 unless the store is cached: bytes and numbers cost the garbage collector
#: nothing. A fold by column leaves (columns, place) for an origin: few are ever asked for (``write_back.writer_of``).
Entry: TypeAlias = tuple[bytes | None, int, Headers, Any, int]


class OrderedRows(Protocol):
    """Rows in ascending order of their keys, each key once; ``state.bulk`` makes them. May be iterated more than once."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]: ...

    @property
    def size(self) -> int:
        """About as many bytes as all keys and values have."""
        ...

    @property
    def names(self) -> pa.Array:
        """The keys."""
        ...

    @property
    def values(self) -> pa.Array:
        """The values, in the order of the keys."""
        ...

    def stored(self) -> OrderedRows:
        """Return them with keys as LMDB has them (``lmdb_format``)."""
        ...


class BytesStore(Protocol):
    """One ordered map of bytes: the single seam below every store, with two bodies (memory, LMDB)."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value or None."""
        ...

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the value or None of each key, in their order: ``get`` of a whole batch, for less."""
        ...

    def column(self, names: pa.Array) -> pa.Array:
        """Return the value of each key, null where there is none, by column: for less where rows were loaded, and keys ascend."""
        ...

    def range(self, lower: bytes | None, upper: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Iterate lower <= key < upper (None: open end) in key order, or backwards. A snapshot is not promised."""
        ...

    def under(self, prefixes: list[bytes]) -> list[list[tuple[bytes, bytes]]]:
        """Return the rows whose keys begin with each prefix, in key order: ``range`` of many prefixes, for less."""
        ...

    def write(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put every row (value None: delete), atomically."""
        ...

    def load(self, rows: OrderedRows | SortedRun) -> None:
        """Put every row, atomically. Keys ascend, each comes once, and none is longer than 509 bytes: for less."""
        ...

    def count(self) -> int:
        """Return the number of entries."""
        ...


class ShardState(Protocol):
    """The state of one shard: a bytes map per store name."""

    def map(self, name: str) -> BytesStore:
        """Return the bytes map of this name, made on first use. A store's own maps are ``name`` and ``name/part``."""
        ...

    def drop(self, name: str) -> None:
        """Delete a whole map at once (nothing happens if there is none); maps got earlier under this name are dead."""
        ...

    def names(self) -> list[str]:
        """Return the names of all maps, sorted."""
        ...

    def batch(self) -> AbstractContextManager[None]:
        """Make all writes and drops inside the ``with`` block one atomic step (for the memory body: one after the
        other)."""
        ...

    def release(self) -> None:
        """Release the read view (call it when a task ends): old pages can be reused, the next read sees the newest
        state."""
        ...

    def close(self) -> None:
        """Close the maps; nothing is lost."""
        ...

    def destroy(self) -> None:
        """Close the maps and delete what is on disk."""
        ...


class StoreContext(Protocol):
    """What a store needs from its task."""

    origin: Origin
    #: how much cached stores may hold back
    cache: CacheBudget

    def drop(self, reason: str) -> None:
        """Count a record that was dropped, under its reason."""
        ...


@dataclass(slots=True)
class Sealed:
    """The writes of one epoch to one store.

    ``writes`` go to the base map of the store's name; ``side`` to other maps of the shard, by their full name (a time
    index, a segment); ``drops`` names maps that go away as a whole, before the writes. ``changelog`` rows are (key,
    value, timestamp, headers), byte-equal to Kafka Streams' changelog. A Sealed is plain data: another process may
    apply it. Rows are lists, or, of a fold by column, columns that are iterated alike (``SortedRun``, ``ChangelogColumns``).
    """

    writes: Collection[tuple[bytes, bytes | None]] = field(default_factory=list)
    changelog: Collection[tuple[bytes, bytes | None, int, Headers]] = field(default_factory=list)
    side: dict[str, Collection[tuple[bytes, bytes | None]]] = field(default_factory=dict)
    drops: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.writes or self.changelog or self.side or self.drops)

    def write_to(self, state: ShardState, name: str) -> None:
        """Bring the epoch's writes of the store ``name`` into its shard, atomically. Doing it twice changes nothing."""
        with state.batch():
            for gone in self.drops:
                state.drop(gone)
            if self.writes:
                state.map(name).write(self.writes)
            for part, rows in self.side.items():
                state.map(part).write(rows)


class Store(ABC):
    """Base of every typed store, bound to one shard."""

    spec: StoreSpec
    #: True where a write is not forwarded at once but at the barrier, once per key.
    cached: bool = False
    #: True where a cached store holds back nothing (``cache_max_bytes`` 0): who writes calls ``flush_now``.
    forwards_each: bool = False
    _flushing: bool = False

    @property
    def name(self) -> str:
        """The store's name."""
        return self.spec.name

    def on_flush(self, listener: OnFlush, *, send_old: bool) -> None:
        """Register the one listener that ``flush`` calls: where ``cached``, and where rows expire (``ttl``)."""
        raise NotImplementedError(f"{type(self).__name__} is never cached")

    def flush(self) -> bool:
        """Forward the rows changed since the last flush, in the order of their last write; only for cached stores.

        The listener may write to this or other stores, so whoever flushes repeats it until nothing was forwarded: the
        answer says whether anything was. While it runs, ``context.origin`` is that of the row's last writer.
        """
        return False

    def flush_now(self) -> None:
        """Forward what was just written. What a listener writes here meanwhile follows it, never overtakes it."""
        if self._flushing:
            return
        self._flushing = True
        try:
            for _ in range(MOST_FLUSHES):
                if not self.flush():
                    return
        finally:
            self._flushing = False

    @property
    def keeps_time(self) -> bool:
        """Whether rows expire by time."""
        return False

    def keep_time(self, clock: EventTime) -> None:  # noqa: B027 - most stores keep no time
        """Go by this clock: that of the nodes that write here. Without one, time is the greatest that was put."""

    def keep_for_later(self) -> None:  # noqa: B027 - most stores keep no time
        """Seal all rows that are there now, whatever expires in this epoch: its later steps read the store at earlier times."""

    def on_change(self, listener: OnChange) -> None:
        """Call the listener for each row that is put or deleted, as its changelog would have it. Only tables know how."""
        raise NotImplementedError(f"{type(self).__name__} does not tell of its changes")

    def reach(self) -> None:  # noqa: B027 - most stores keep no time
        """Advance to the time of the clock: called in front of a record. The record's own time is taken in when it is written."""

    def snapshot(self) -> dict[str, Any]:
        """Return what the changelog does not tell of the store at a barrier, as plain data (text, numbers, lists)."""
        return {}

    def resume(self, snapshot: Mapping[str, Any]) -> None:  # noqa: B027 - most stores are told everything by their changelog
        """Restore what ``snapshot`` returned at the barrier that this store was brought up to.

        Steps of an epoch that share a store each tell of it: the one that is further counts, in any order.
        """

    @abstractmethod
    def seal(self) -> Sealed:
        """Hand out the writes since the last seal and start a new dirty map. Reads still see them until ``apply``."""

    @abstractmethod
    def apply(self, sealed: Sealed) -> None:
        """Write a sealed epoch, now committed, to the base map."""


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the first key after all keys with this prefix, or None where there is no end.

    >>> prefix_end(b"ab"), prefix_end(b"a" + bytes([255])), prefix_end(bytes([255]))
    (b'ac', b'b', None)
    """
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
