"""The write-back map: the epoch's writes above a base map; at once cache, read-your-writes view and changelog.

::

    deltas    rows of a fold by column, not single yet    ┐
    dirty     this epoch's rows, newest value per key     │ what a reader sees is the
    pending   sealed epochs that are not applied yet      │ first layer that knows the key
    base      the committed rows (memory or LMDB)         ┘

Base rows are the value bytes, or, where ``stamped``, an 8-byte big-endian timestamp and then the value bytes (Kafka's
``ValueAndTimestampSerializer``). In the two upper layers the parts stay apart, as an `Entry`.

Invariant: ``dirty`` and ``pending`` only gain keys until they are cleared; a delete is an entry without a value. The
dict objects themselves never change, so that closures may hold their bound methods. Whoever looks into them calls ``spill``
first if there are ``deltas``: a delta is of this epoch, or a sealed one; there is none besides dirty rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from itertools import islice
from struct import Struct
from typing import Any, NamedTuple

import pyarrow as pa
from sortedcontainers import SortedList

from penstock.record import Origin
from penstock.state.base import Entry, Sealed, ShardState, prefix_end
from penstock.state.batch_delta import BatchDelta, RowsBefore, before_of, read_rows

#: below this many unapplied rows ``count`` is exact; above, it would cost too much and is the base map's
EXACT_COUNT = 4096

stamp = Struct(">q")
pack_stamp = stamp.pack
unpack_stamp = stamp.unpack_from


class StoredRow(NamedTuple):
    """One row as stored: value bytes and timestamp (−1 where the base map keeps none)."""

    value: bytes
    timestamp: int


class KeyOrder:
    """The keys of a growing dict in order, for the price of the new keys since the last question."""

    __slots__ = ("_rows", "_sorted")

    def __init__(self, rows: dict[bytes, Entry]) -> None:
        self._rows = rows
        self._sorted = SortedList()

    def clear(self) -> None:
        """Start again: the dict has lost keys."""
        self._sorted.clear()

    def between(self, lower: bytes | None, upper: bytes | None) -> list[bytes]:
        """Return the keys with lower <= key < upper (None: open end), ascending."""
        fresh = len(self._rows) - len(self._sorted)
        if fresh:  # a dict keeps its order of insertion: the keys not sorted yet are its last ones
            self._sorted.update(islice(reversed(self._rows), fresh))
        return list(self._sorted.irange(lower, upper, (True, False)))


class WriteBack:
    """The layers of one key-value shaped store.

    >>> from penstock.record import NO_ORIGIN
    >>> from penstock.state.memory import MemoryState
    >>> rows = WriteBack(MemoryState(), "s", stamped=True)
    >>> rows.dirty[b"k"] = (b"v", 5, (), NO_ORIGIN, 1)
    >>> sealed = rows.seal([(b"k", rows.dirty[b"k"])], logged=True)
    >>> sealed.changelog, rows.base.get(b"k"), rows.lookup(b"k")
    ([(b'k', b'v', 5, ())], None, StoredRow(value=b'v', timestamp=5))
    >>> rows.apply(sealed)
    >>> rows.base.get(b"k"), rows.lookup(b"k")
    (b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x05v', StoredRow(value=b'v', timestamp=5))
    """

    __slots__ = (
        "_dirty_order",
        "_name",
        "_pending_order",
        "_sealed",
        "_stamped",
        "_state",
        "base",
        "deltas",
        "dirty",
        "pending",
    )

    def __init__(self, state: ShardState, name: str, *, stamped: bool) -> None:
        self._state = state
        self._name = name
        self._stamped = stamped
        self.base = state.map(name)
        self.dirty: dict[bytes, Entry] = {}
        self.pending: dict[bytes, Entry] = {}
        self.deltas: list[BatchDelta] = []
        self._dirty_order = KeyOrder(self.dirty)
        self._pending_order = KeyOrder(self.pending)
        self._sealed: list[tuple[Sealed, dict[bytes, Entry]]] = []

    def lookup(self, key: bytes) -> StoredRow | None:
        """Return what a reader sees."""
        if self.deltas:
            self.spill()
        entry = self.dirty.get(key)
        return self.before(key) if entry is None else _row(entry)

    def before(self, key: bytes) -> StoredRow | None:
        """Return what a reader saw before this epoch."""
        if self.deltas:
            self.spill()
        entry = self.pending.get(key)
        if entry is not None:
            return _row(entry)
        raw = self.base.get(key)
        return None if raw is None else self._unpack(raw)

    def before_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the value bytes that a reader saw of each key before this epoch, without timestamps."""
        if self.deltas and self.deltas[0].sealed is not None:  # one of this epoch does not matter
            self.spill()
        pending = self.pending
        below = [key for key in keys if key not in pending] if pending else keys
        found = self.base.get_many(below)
        if self._stamped:
            found = [None if raw is None else raw[8:] for raw in found]
        if not pending:
            return found
        known = dict(zip(below, found, strict=True))
        return [known[key] if key in known else pending[key][0] for key in keys]

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the value bytes that a reader sees of each key, in their order, without timestamps.

        >>> from penstock.state.memory import MemoryState
        >>> rows = WriteBack(MemoryState(), "s", stamped=True)
        >>> rows.base.write([(b"a", pack_stamp(5) + b"base"), (b"b", pack_stamp(6) + b"hidden")])
        >>> rows.dirty[b"b"] = (b"new", 7, (), None, 0)
        >>> rows.get_many([b"a", b"b", b"c"]), rows.lookup_many([b"a", b"c"])
        ([b'base', b'new', None], [(b'base', 5), None])
        """
        self.spill()
        if self.dirty or self.pending:
            return [None if row is None else row[0] for row in self.lookup_many(keys)]
        found = self.base.get_many(keys)
        return [None if raw is None else raw[8:] for raw in found] if self._stamped else found

    def lookup_many(self, keys: list[bytes]) -> list[tuple[bytes, int] | None]:
        """Return (value, timestamp) of each key, as ``lookup``, in plain pairs, which are made for half of the cost of a `StoredRow`.

        The base map is asked once for all keys that no layer above it knows.
        """
        self.spill()
        dirty, pending = self.dirty, self.pending
        if not dirty and not pending:
            return self._pairs(self.base.get_many(keys))
        below = [key for key in keys if key not in dirty and key not in pending]
        known = dict(zip(below, self._pairs(self.base.get_many(below)), strict=True))
        return [known[key] if key in known else _row(dirty.get(key) or pending[key]) for key in keys]

    def _pairs(self, found: list[bytes | None]) -> list[tuple[bytes, int] | None]:
        if self._stamped:
            return [None if raw is None else (raw[8:], unpack_stamp(raw)[0]) for raw in found]
        return [None if raw is None else (raw, -1) for raw in found]

    def is_small(self) -> bool:
        """Whether little was written since the rows of the base: a scan that stops early then costs little."""
        self.spill()
        return len(self.dirty) + len(self.pending) <= 1000

    def scan(
        self, lower: bytes | None, upper: bytes | None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes, int]]:
        """Iterate (key, value, timestamp) of lower <= key < upper as of now: later writes do not show."""
        self.spill()
        keys = self._dirty_order.between(lower, upper)
        dirty = self.dirty
        upper_rows: list[tuple[bytes, Entry]]
        if self.pending:
            both = {key: self.pending[key] for key in self._pending_order.between(lower, upper)}
            both.update((key, dirty[key]) for key in keys)
            upper_rows = sorted(both.items())
        else:
            upper_rows = [(key, dirty[key]) for key in keys]
        if reverse:
            upper_rows.reverse()
        return self._merge(upper_rows, self.base.range(lower, upper, reverse), reverse)

    def under(self, prefixes: list[bytes]) -> list[list[tuple[bytes, bytes]]]:
        """Return (key, value) of the rows whose keys begin with each prefix, in key order, without timestamps.

        >>> from penstock.state.memory import MemoryState
        >>> rows = WriteBack(MemoryState(), "s", stamped=False)
        >>> rows.base.write([(b"a1", b"1"), (b"a3", b"3"), (b"b1", b"4")])
        >>> rows.dirty.update({b"a2": (b"2", 7, (), None, 0), b"a1": (None, 7, (), None, 0)})
        >>> rows.under([b"a", b"b", b"c"])
        [[(b'a2', b'2'), (b'a3', b'3')], [(b'b1', b'4')], []]
        """
        upper = self._above()
        found = self.base.under(prefixes)
        if self._stamped:
            found = [[(key, value[8:]) for key, value in rows] for rows in found]
        order = sorted(upper)
        for place, prefix in enumerate(prefixes) if order else ():
            begin, last = bisect_left(order, prefix), prefix_end(prefix)
            end = len(order) if last is None else bisect_left(order, last, begin)
            if begin == end:
                continue
            rows = [row for row in found[place] if row[0] not in upper]
            rows += [(key, value) for key in order[begin:end] if (value := upper[key]) is not None]
            rows.sort()
            found[place] = rows
        return found

    def _above(self) -> dict[bytes, bytes | None]:
        """Return what is written above the base, without timestamps; rows of a delta stay there."""
        if self.deltas and self.deltas[0].sealed is None and not self.pending:
            return dict(zip(self.deltas[0].names, self.deltas[0].values.to_pylist(), strict=True))
        self.spill()
        return {key: entry[0] for layer in (self.pending, self.dirty) for key, entry in layer.items()}

    def is_untouched(self) -> bool:
        """Whether nothing was written in this epoch."""
        return not self.dirty and not any(delta.sealed is None for delta in self.deltas)

    def _merge(
        self, upper_rows: list[tuple[bytes, Entry]], base: Iterator[tuple[bytes, bytes]], reverse: bool
    ) -> Iterator[tuple[bytes, bytes, int]]:
        """Merge two sorted runs; where both know a key, the upper one speaks."""
        unpack = self._unpack
        below = next(base, None)
        for key, entry in upper_rows:
            while below is not None and (below[0] > key if reverse else below[0] < key):
                yield below[0], *unpack(below[1])
                below = next(base, None)
            if below is not None and below[0] == key:
                below = next(base, None)
            if entry[0] is not None:
                yield key, entry[0], entry[1]
        while below is not None:
            yield below[0], *unpack(below[1])
            below = next(base, None)

    def count(self) -> int:
        """Return the number of rows: exact while few writes are unapplied, else that of the base map."""
        self.spill()
        total = self.base.count()
        if len(self.dirty) + len(self.pending) > EXACT_COUNT:
            return total
        for key, entry in {**self.pending, **self.dirty}.items():
            total += (entry[0] is not None) - (self.base.get(key) is not None)
        return total

    def lasting(self) -> list[tuple[bytes, Entry]]:
        """Return the dirty rows without those that came and went since the last seal."""
        self.spill()
        before = self.before
        return [row for row in self.dirty.items() if row[1][0] is not None or before(row[0]) is not None]

    # ---- rows of a fold by column

    def before_fold(self, names: pa.Array) -> RowsBefore:
        """Return what a reader sees of each key, by column."""
        self.spill()
        if not self.dirty and not self.pending:
            return read_rows(self.base.column(names), stamped=self._stamped)
        return before_of(self.lookup_many(names.to_pylist()))

    def lay(self, delta: BatchDelta) -> None:
        """Write the rows of a delta."""
        self.spill()
        if self.dirty or delta.has_headers:
            self.dirty.update(delta.entries())
        else:
            self.deltas.append(delta)

    def spill(self) -> None:
        """Make single rows of those of deltas."""
        for delta in self.deltas:
            rows = delta.entries()
            if delta.flushed is not None:
                delta.flushed.update(rows)
            if delta.sealed is None:
                self.dirty.update(rows)
            else:
                self.pending.update(rows)
                self._sealed.append((delta.sealed, rows))
        self.deltas.clear()

    def seal_delta(self, *, logged: bool) -> Sealed | None:
        """Hand out the rows of the epoch, if they are a delta, as ``seal``; else None."""
        if not self.deltas or self.deltas[0].sealed is not None:
            return None
        (delta,) = self.deltas
        sealed = delta.seal(stamped=self._stamped, logged=logged)
        if sealed is not None:
            delta.flushed = None
        return sealed

    # ---- the barrier

    def seal(self, rows: Collection[tuple[bytes, Entry]], *, logged: bool, headers: bool = False) -> Sealed:
        """Hand out these rows of the dirty map, keep them readable as pending, and start an empty dirty map.

        ``headers``: changelog rows carry those of their writer.
        """
        if self._stamped:
            writes = [(key, None if e[0] is None else pack_stamp(e[1]) + e[0]) for key, e in rows]
        else:
            writes = [(key, e[0]) for key, e in rows]
        sealed = Sealed(writes)
        if logged:
            sealed.changelog = [(key, e[0], e[1], e[2] if headers else ()) for key, e in rows]
        kept = self.dirty.copy() if len(rows) == len(self.dirty) else dict(rows)
        self.pending.update(kept)
        self._sealed.append((sealed, kept))
        self.dirty.clear()
        self._dirty_order.clear()
        return sealed

    def forget(self) -> None:
        """Forget what was written and not sealed."""
        self.dirty.clear()
        self._dirty_order.clear()

    def apply(self, sealed: Sealed) -> None:
        """Write a sealed epoch to the base map; its rows are read from there from now on."""
        sealed.write_to(self._state, self._name)
        self.settle(sealed)

    def settle(self, sealed: Sealed) -> None:
        """Forget the pending rows of a sealed epoch, which are in the base map now; it may be of another process."""
        applied = next((kept for mine, kept in self._sealed if mine is sealed), {})
        self._sealed = [(mine, kept) for mine, kept in self._sealed if mine is not sealed]
        self.deltas[:] = [delta for delta in self.deltas if delta.sealed is not sealed]
        if not self._sealed:
            self.pending.clear()
        else:
            for key, entry in applied.items():
                if self.pending.get(key) is entry:
                    del self.pending[key]
        self._pending_order.clear()

    def _unpack(self, raw: bytes) -> StoredRow:
        return StoredRow(raw[8:], unpack_stamp(raw)[0]) if self._stamped else StoredRow(raw, -1)


def writer_of(origin: Any) -> Origin:
    """Return the origin of an entry's writer."""
    if origin.__class__ is tuple:
        batch, at = origin
        origin = batch.origin(at)
    found: Origin = origin
    return found


def _row(entry: Entry) -> StoredRow | None:
    return None if entry[0] is None else StoredRow(entry[0], entry[1])


def successor(key: bytes) -> bytes:
    """Return the smallest key after this one: turns an inclusive upper end into an exclusive one."""
    return key + b"\x00"
