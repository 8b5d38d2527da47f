"""The LMDB body of a shard's state: one environment per shard, one LMDB database per map (layout: ``lmdb_format``).

Any process may read while one writes: Spark gives a lane another Python worker from one epoch to the next, and the
driver answers queries. Rules that follow:

- An environment is never opened twice in a process (`LmdbState.at` gives the open one) and never used after a fork.
- A map is a *slot*: database ``0``, ``1``, ... and the directory says which map has which. A dropped map leaves an
  empty slot that the next new map takes, because a handle of LMDB cannot learn that another process deleted its
  database.
- Reads of a task share one read view. It ends with a write of this process and with ``release``, which a task calls
  when it ends. A view belongs to one thread.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from heapq import merge
from itertools import islice, repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakSet

import lmdb

from penstock.errors import StoreError
from penstock.state.base import SortedRows, prefix_end
from penstock.state.lmdb_format import LONG, PLAIN, boot_id, prepare_folder, stored_key, unpack_bucket, user_key
from penstock.state.lmdb_write import load, put_all

Row: TypeAlias = tuple[bytes, bytes]
Write: TypeAlias = tuple[bytes, bytes | None]
#: what is done to a map in a transaction: (transaction, database, overflow); None: the map is dropped
Step: TypeAlias = Callable[[Any, Any, Any], None] | None

MAP_SIZE = 1 << 26  # bytes of address space to begin with; the file is sparse, and grows by doubling
MAX_MAPS = 4096
CHUNK = 256  # rows fetched at a time while a range is iterated

_DIRECTORY = "directory"
_GENERATION = b"\x00"

_open: dict[str, LmdbState] = {}
_every: WeakSet[LmdbState] = WeakSet()


def _after_fork() -> None:
    """Make what the parent had open unusable here: LMDB forbids it."""
    for state in _every:
        state._foreign = True
        state._view = None
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)


class LmdbMap:
    """One ordered map of bytes in an LMDB environment."""

    __slots__ = ("_database", "_overflow", "_state", "name")

    def __init__(self, state: LmdbState, name: str) -> None:
        self.name = name
        self._state = state
        self._database: Any = None  # None: not written yet
        self._overflow: Any = None

    def get(self, key: bytes) -> bytes | None:
        """Return the value or None."""
        view = self._state._view
        if view is None:
            view = self._state.look()
        if self._database is None:
            return None
        if not key or not key[0]:
            key = b"\x00" + key
        if len(key) < LONG:
            value: bytes | None = view.get(key, None, self._database)
            return value
        bucket = view.get(key[:LONG], None, self._overflow)
        return None if bucket is None else unpack_bucket(bucket).get(user_key(key))

    def get_many(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the value or None of each key, in their order.

        One after the other: to sort them first, or to ask by a cursor, costs more than it saves (measured with 12,500 and with
        100,000 of 312,000 rows). Keys that are in order already are found in half of the time.
        """
        view = self._state.look()
        if self._database is None or not keys:
            return [None] * len(keys)
        if min(keys) < PLAIN or max(map(len, keys)) >= LONG:
            return list(map(self.get, keys))
        return list(map(view.get, keys, repeat(None), repeat(self._database)))

    def range(self, lower: bytes | None, upper: bytes | None, reverse: bool = False) -> Iterator[Row]:
        """Iterate lower <= key < upper (None: open end) in key order, or backwards."""
        low = b"" if lower is None else stored_key(lower)
        high = None if upper is None else stored_key(upper)
        rows = ((user_key(key), value) for key, value in self._walk(self._databases()[0], low, high, reverse))
        if not self._has_long_keys():
            return rows
        return merge(rows, self._long_rows(lower, upper, low, high, reverse), key=itemgetter(0), reverse=reverse)

    def under(self, prefixes: list[bytes]) -> list[list[Row]]:
        """Return the rows whose keys begin with each prefix, in key order: one cursor goes from each to the next."""
        database = self._databases()[0]
        if database is None:
            return [[] for _ in prefixes]
        if self._has_long_keys() or not all(0 < len(prefix) < LONG - 1 for prefix in prefixes):
            return [list(self.range(prefix, prefix_end(prefix))) for prefix in prefixes]
        with self._state.look().cursor(database) as cursor:
            return [_beginning(cursor, stored_key(prefix)) for prefix in prefixes]

    def count(self) -> int:
        """Return the number of entries."""
        database, overflow = self._databases()
        if database is None:
            return 0
        total: int = self._state.look().stat(database)["entries"]
        if self._has_long_keys():
            total += sum(len(unpack_bucket(bucket)) for _, bucket in self._walk(overflow, b"", None, False))
        return total

    def write(self, rows: Iterable[Write]) -> None:
        """Put every row (value None: delete), atomically."""
        newest = dict(rows)
        if newest:
            self._state.run(self.name, partial(put_all, newest))

    def load(self, rows: SortedRows) -> None:
        """Put every row, atomically: keys ascend, and none is so long that it is stored in a bucket."""
        if len(rows):
            self._state.make_room(2 * rows.size)
            self._state.run(self.name, partial(load, rows))

    def _databases(self) -> tuple[Any, Any]:
        self._state.look()
        return self._database, self._overflow

    def _has_long_keys(self) -> bool:
        return self._overflow is not None and self._state.look().stat(self._overflow)["entries"] > 0

    def _long_rows(
        self, lower: bytes | None, upper: bytes | None, low: bytes, high: bytes | None, reverse: bool
    ) -> Iterator[Row]:
        for _, bucket in self._walk(
            self._overflow, low[:LONG], None if high is None else high[:LONG] + b"\x00", reverse
        ):
            rows = list(unpack_bucket(bucket).items())
            for key, value in reversed(rows) if reverse else rows:
                if (lower is None or key >= lower) and (upper is None or key < upper):
                    yield key, value

    def _walk(self, database: Any, low: bytes, high: bytes | None, reverse: bool) -> Iterator[Row]:
        """Iterate stored rows in chunks; a write in between ends the read view, and the next chunk takes a new one."""
        while database is not None:
            with self._state.look().cursor(database) as cursor:
                chunk = list(islice(_steps(cursor, low, high, reverse), CHUNK))
            yield from chunk
            if len(chunk) < CHUNK:
                return
            if reverse:
                high = chunk[-1][0]
            else:
                low = chunk[-1][0] + b"\x00"


def _beginning(cursor: Any, stored: bytes) -> list[Row]:
    """Return the rows whose stored keys begin so."""
    found: list[Row] = []
    for row in cursor.iternext() if cursor.set_range(stored) else ():
        if not row[0].startswith(stored):
            break
        found.append(row)
    return found if stored[0] else [(key[1:], value) for key, value in found]


def _steps(cursor: Any, low: bytes, high: bytes | None, reverse: bool) -> Iterator[Row]:
    # set_range refuses keys over LMDB's limit; cutting the low end only starts the walk earlier
    if reverse:
        if high is None or not cursor.set_range(high[:LONG]):
            found = cursor.last()
        else:
            found = True
        for key, value in cursor.iterprev() if found else ():
            if key < low:
                return
            if high is None or key < high:
                yield key, value
    else:
        found = cursor.set_range(low[:LONG]) if low else cursor.first()
        for key, value in cursor.iternext() if found else ():
            if high is not None and key >= high:
                return
            if key >= low:
                yield key, value


class LmdbState:
    """The state of one shard on disk.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> state = LmdbState(folder)
    >>> state.map("counts").write([(b"b", b"2"), (b"a", b"1"), (b"", b"0")])
    >>> list(state.map("counts").range(None, b"b")), state.names()
    ([(b'', b'0'), (b'a', b'1')], ['counts'])
    >>> LmdbState.at(folder) is state
    True
    >>> state.destroy()
    """

    def __init__(self, path: str | os.PathLike[str], *, map_size: int = MAP_SIZE, readonly: bool = False) -> None:
        self.path = os.path.realpath(path)
        if self.path in _open:
            raise StoreError(f"{self.path} is already open in this process; LmdbState.at(path) gives the open one")
        boot = boot_id()
        if not readonly:
            prepare_folder(Path(self.path), boot)
        self._environment: Any = lmdb.open(
            self.path,
            map_size=map_size,
            max_dbs=2 * MAX_MAPS + 1,
            writemap=not readonly,
            sync=boot is None,
            metasync=boot is None,
            readonly=readonly,
            max_spare_txns=4,
        )
        self._environment.reader_check()
        self._inode = _inode(self.path)
        self._readonly = readonly
        self._foreign = False
        self._view: Any = None
        self._directory: Any = None
        self._generation: bytes | None = b""  # never equal to a stored one
        self._slots: dict[str, int] = {}
        self._handles: dict[int, tuple[Any, Any]] = {}
        self._maps: dict[str, LmdbMap] = {}
        self._queue: list[tuple[str, Step]] | None = None
        _open[self.path] = self
        _every.add(self)

    @classmethod
    def at(cls, path: str | os.PathLike[str], **options: Any) -> LmdbState:
        """Return the state that this process has open at the path, or open it.

        One whose folder was deleted meanwhile, and perhaps made anew by another process, is closed: its rows are nobody's.
        """
        found = _open.get(_real_path(os.fspath(path)))
        if found is not None and found._inode != _inode(found.path):
            found.close()
            found = None
        return found or cls(path, **options)

    # ---- the contract

    def map(self, name: str) -> LmdbMap:
        """Return the bytes map of this name; it comes into being with its first write."""
        found = self._maps.get(name)
        if found is None:
            found = self._maps[name] = LmdbMap(self, name)
            self._bind(found)  # as of the last view; a new one tells every map only if the directory has changed
        return found

    def drop(self, name: str) -> None:
        """Delete a whole map."""
        self.run(name, None)

    def names(self) -> list[str]:
        """Return the names of all maps, sorted."""
        self.look()
        return sorted(self._slots)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Do the writes and drops of the block in one transaction, at its end; reads inside do not see them."""
        if self._queue is not None:  # inside another batch: that one commits
            yield
            return
        self._queue = []
        try:
            yield
            queue, self._queue = self._queue, None
            self._commit(queue)
        finally:
            self._queue = None

    def release(self) -> None:
        """End the read view: old pages can be reused, the next read sees what other processes wrote."""
        view, self._view = self._view, None
        if view is not None:
            view.abort()

    def close(self) -> None:
        """Close the environment."""
        if _open.get(self.path) is self:
            del _open[self.path]
            self.release()
            self._environment.close()
        self._foreign = True

    def destroy(self) -> None:
        """Close the environment and delete its folder."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    # ---- reading

    def look(self) -> Any:
        """Return the read view, a new one if there is none."""
        if self._view is None:
            self._check()
            self._open_directory()
            self._view = self._growing(self._environment.begin)
            self._refresh(self._view)
        return self._view

    def _check(self) -> None:
        if self._foreign:
            raise StoreError(f"{self.path} is closed, or was opened before this process was forked; open it here anew")

    def _open_directory(self) -> None:
        if self._directory is None:
            self._directory = self._database(_DIRECTORY)

    def _refresh(self, view: Any) -> None:
        """Read the directory again if it has changed, and tell every map its slot."""
        generation = view.get(_GENERATION, None, self._directory)
        if generation == self._generation:
            return
        self._slots = {
            bytes(name).decode(): int.from_bytes(slot, "big")
            for name, slot in view.cursor(self._directory)
            if name != _GENERATION
        }
        missing = [slot for slot in self._slots.values() if slot not in self._handles]
        if missing:  # handles are opened outside of transactions
            view.abort()
            self._open_handles(missing)
            self._view = view = self._growing(self._environment.begin)
            self._refresh(view)
            return
        self._generation = generation
        for found in self._maps.values():
            self._bind(found)

    def _open_handles(self, slots: Iterable[int]) -> None:
        for slot in slots:
            if slot not in self._handles:
                if slot >= MAX_MAPS:
                    raise StoreError(
                        f"{self.path} has more than {MAX_MAPS} maps: too many stores or segments in one shard"
                    )
                self._handles[slot] = (self._database(str(slot)), self._database(f"{slot}+"))

    def _database(self, name: str) -> Any:
        return self._growing(lambda: self._environment.open_db(name.encode(), create=not self._readonly))

    def _bind(self, found: LmdbMap) -> None:
        slot = self._slots.get(found.name)
        found._database, found._overflow = (None, None) if slot is None else self._handles[slot]

    # ---- writing

    def run(self, name: str, step: Step) -> None:
        """Do something to a map: now, or at the end of the batch."""
        if self._queue is not None:
            self._queue.append((name, step))
        else:
            self._commit([(name, step)])

    def make_room(self, size: int) -> None:
        """Grow the map, so that a large write need not find out half-way, and begin again."""
        self.look()
        info = self._environment.info()
        wanted, limit = (info["last_pgno"] + 1) * self._environment.stat()["psize"] + size, info["map_size"]
        if wanted > limit:
            while limit < wanted:
                limit *= 2
            self.release()
            self._environment.set_mapsize(limit)

    def _commit(self, queue: list[tuple[str, Step]]) -> None:
        if not queue:
            return
        while True:
            self._place([name for name, step in queue if step is not None])
            if self._growing(lambda: self._transact(queue)):
                return

    def _place(self, names: list[str]) -> None:
        """Open a handle for every slot that a new map may take: this cannot be done inside a transaction."""
        self.look()
        fresh = len({name for name in names if name not in self._slots})
        free = (slot for slot in range(len(self._slots) + fresh) if slot not in self._slots.values())
        self.release()
        self._open_handles(islice(free, fresh))

    def _transact(self, queue: list[tuple[str, Step]]) -> bool:
        """Do the steps of the queue; False if another process changed the directory since we read it."""
        slots = dict(self._slots)
        with self._environment.begin(write=True) as transaction:
            if transaction.get(_GENERATION, None, self._directory) != self._generation:
                return False
            for name, step in queue:
                if step is None:
                    self._empty(transaction, slots.pop(name, None))
                    continue
                if name not in slots:
                    taken = set(slots.values())
                    slots[name] = next(slot for slot in sorted(self._handles) if slot not in taken)
                step(transaction, *self._handles[slots[name]])
            if slots != self._slots:
                self._write_directory(transaction, slots)
        return True

    def _empty(self, transaction: Any, slot: int | None) -> None:
        if slot is not None:
            for database in self._handles[slot]:
                transaction.drop(database, delete=False)

    def _write_directory(self, transaction: Any, slots: dict[str, int]) -> None:
        generation = int.from_bytes(transaction.get(_GENERATION, b"", self._directory), "big") + 1
        transaction.put(_GENERATION, generation.to_bytes(8, "big"), db=self._directory)
        for name in self._slots.keys() - slots.keys():
            transaction.delete(name.encode(), db=self._directory)
        for name, slot in slots.items() - self._slots.items():
            transaction.put(name.encode(), slot.to_bytes(4, "big"), db=self._directory)

    def _growing(self, step: Any) -> Any:
        """Do a step of LMDB; where the map is too small for it, double the map and do it again."""
        while True:
            try:
                return step()
            except lmdb.MapFullError:
                self.release()
                self._environment.set_mapsize(2 * self._environment.info()["map_size"])
            except lmdb.MapResizedError:  # another process has grown it
                self.release()
                self._environment.set_mapsize(0)


#: asked for each shard of an epoch, and always answered alike
_real_path: Callable[[Any], str] = cache(os.path.realpath)


def _inode(path: str) -> int | None:
    """Return what tells an environment from a later one at the same place."""
    try:
        return os.stat(os.path.join(path, "data.mdb")).st_ino
    except FileNotFoundError:
        return None
