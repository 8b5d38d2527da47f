"""The LMDB body of a shard's state: one environment per shard, one LMDB database per map (layout: ``lmdb_format``).

Any process may read while one writes: Spark gives a lane another Python worker from one epoch to the next, and the
driver answers queries. Rules that follow:

- An environment is never opened twice in a process (`LmdbState.at` gives the open one) and never used after a fork.
- A map is a *slot*: database ``0``, ``1``, ... and the directory says which map has which. A dropped map leaves an
  empty slot that the next new map takes, because a handle of LMDB cannot learn that another process deleted its
  database.
- A process has `MOST_OPEN` environments open at most, two descriptors each: the one that was not used for longest is closed,
  and opened again when it is read.
- The file is as large as the largest map that a process has of it, all of it is allocated, and no process makes it smaller: to
  write to a page that is mapped and not on the disk ends the process (SIGBUS). Sizes change under a lock.
- A reader that is to see one moment for long takes a ``snapshot``. An environment that is only read has a map that is larger than the
  file can grow, because a map of another size would end the snapshots; each of them needs memory for as many maps as may be open.
- Reads of a task share one read view. It ends with a write of this process and with ``release``, which a task calls
  when it ends. A view belongs to one thread. Runs (``runs``) are read where they lie, through a second view of the same
  moment, and not longer than it lasts.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakSet

import lmdb

from penstock.errors import StoreError
from penstock.files import allocate, locked
from penstock.state.lmdb_format import boot_id, pack_entry, prepare_folder, run_key, unpack_entry
from penstock.state.lmdb_map import LmdbMap
from penstock.state.lmdb_pages import PageSums
from penstock.state.lmdb_snapshot import LmdbSnapshot
from penstock.state.lmdb_write import OpenMap, empty

#: what is done to a map in a transaction; None: the map is dropped
Step: TypeAlias = Callable[[OpenMap], None] | None
#: a map in the directory: its slot, and its runs, newest first
Entry: TypeAlias = tuple[int, tuple[int, ...]]

MAP_SIZE = 1 << 20  # bytes of the file to begin with; it grows by doubling
MAX_READERS = 2046  # read transactions at a time, of all processes: a snapshot of each of a thousand barriers
LOCK_SIZE = 128 + 64 * MAX_READERS  # bytes of LMDB's table of readers, which is mapped, too
MAX_MAPS = 4096
MOST_OPEN = 128

_DIRECTORY = "directory"
_RUN_VALUES = "runs"
_GENERATION = b"\x00"

_open: dict[str, LmdbState] = {}
_every: WeakSet[LmdbState] = WeakSet()
#: those whose environment is open, the one that was used last at the end
_live: dict[LmdbState, None] = {}
#: transactions of the parent's snapshots: to end them here would end them there
_orphans: list[Any] = []


def _after_fork() -> None:
    """Make what the parent had open unusable here: LMDB forbids it."""
    for state in _every:
        state._foreign = True
        state._view = state._wide = None
        state._runs.clear()
        _orphans.extend(shot.orphan() for shot in list(state._shots))
        state._shots.clear()
    _open.clear()
    _live.clear()


os.register_at_fork(after_in_child=_after_fork)


class NothingThere(StoreError):
    """What is to be read only is not there yet, or is just being made."""


class TooManyMaps(StoreError):
    """There are more maps than this process has made room for."""


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

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        map_size: int = MAP_SIZE,
        readonly: bool = False,
        checksums: bool = False,
        max_maps: int = MAX_MAPS,
    ) -> None:
        """``checksums``: keep those of its pages beside it (``lmdb_pages``); whoever writes to it is then alone."""
        self.path = os.path.realpath(path)
        if self.path in _open:
            raise StoreError(f"{self.path} is already open in this process; LmdbState.at(path) gives the open one")
        self._readonly = readonly
        self._map_size = map_size
        self._max_maps = max_maps
        self._sums = PageSums(self.path) if checksums else None
        #: whether its view may be of a later moment when it is read again: nobody writes while it is used, so that it is the same
        self.may_reopen = False
        self._lock = threading.RLock()
        #: held while a transaction of a snapshot is used, and while the map changes its size
        self._guard = threading.Lock()
        self._shots: WeakSet[LmdbSnapshot] = WeakSet()
        self._environment: Any = None
        self._forget_handles()
        self._open_environment()
        self._inode = _inode(self.path)
        self._foreign = False
        self._view: Any = None
        self._wide: Any = None  # the same view, but what is read there is not copied
        self._runs: dict[int, Any] = {}  # those that were read there
        self._thread = 0  # whose view it is
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

    @classmethod
    def opened(cls, path: str | os.PathLike[str]) -> LmdbState | None:
        """Return the state that this process has open at the path, if it has."""
        found = _open.get(_real_path(os.fspath(path)))
        return None if found is None or found._inode != _inode(found.path) else found

    @staticmethod
    def is_at(path: str | os.PathLike[str]) -> bool:
        """Whether there is an environment at the path."""
        return _size(os.fspath(path)) > 0

    # ---- the environment

    def _open_environment(self) -> None:
        """Open it; of others, close those that were not used for longest until there is room for this one."""
        boot = boot_id()
        if not self._readonly:
            prepare_folder(Path(self.path), boot)
        while len(_live) >= MOST_OPEN and any(state._suspend() for state in list(_live)):
            pass
        with self._resizing() as size:
            if not self._readonly:
                allocate(f"{self.path}/lock.mdb", LOCK_SIZE, create=True)
            self._environment = self._lmdb_open(
                self.path,
                map_size=max(self._map_size, size),
                max_dbs=2 * self._max_maps + 2,
                max_readers=MAX_READERS,
                mode=0o600,
                writemap=not self._readonly,
                sync=boot is None,
                metasync=boot is None,
                readonly=self._readonly,
                max_spare_txns=4,
            )
            if not self._readonly:
                allocate(f"{self.path}/data.mdb", max(self._map_size, size))
        self._environment.reader_check()
        _live[self] = None

    def _lmdb_open(self, path: str, **options: Any) -> Any:
        try:
            return lmdb.open(path, **options)
        except lmdb.Error as error:
            if self._readonly:
                raise NothingThere(f"{path} cannot be read yet: {error}") from error
            raise

    def _close_environment(self) -> None:
        self.release()
        _live.pop(self, None)
        environment, self._environment = self._environment, None
        if environment is not None:
            self._end_snapshots("its environment was closed, because its folder was made anew or the application ends")
            environment.close()
        self._forget_handles()

    def _forget_handles(self) -> None:
        self._directory: Any = None
        self._run_values: Any = None
        self._generation: bytes | None = b""  # never equal to a stored one
        self._handles: dict[int, tuple[Any, Any]] = {}
        #: as snapshots see it: generation of the directory, its maps, whether there are runs
        self._seen: tuple[bytes | None, dict[str, tuple[Any, Any, tuple[int, ...]]], bool] = (b"", {}, False)
        self._entries: dict[str, Entry] = {}

    def _suspend(self) -> bool:
        """Close the environment until it is needed again; False if it is in use."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._shots:
                return False
            if self._view is not None and not (self.may_reopen and self._thread == threading.get_ident()):
                return False
            self._close_environment()
            return True
        finally:
            self._lock.release()

    def _end_snapshots(self, why: str) -> None:
        """LMDB ends all transactions of a process when a map changes its size."""
        for shot in list(self._shots):
            shot.end(why)

    @contextmanager
    def _resizing(self) -> Iterator[int]:
        """Keep other processes from changing the size of the file; tells it."""
        if self._readonly:  # which does not
            yield _size(self.path)
            return
        with locked(f"{self.path}/size.lock"):
            yield _size(self.path)

    def _resize(self, least: int) -> None:
        """Make the map as large as that of any other process, and no smaller than this."""
        self.release()
        with self._resizing() as size:
            if not self._readonly:
                allocate(f"{self.path}/data.mdb", max(least, size))
            self._end_snapshots("the file had to grow; take the snapshot again")
            self._environment.set_mapsize(max(least, size))

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
        return sorted(self._entries)

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
        self._runs.clear()
        views, self._view, self._wide = (self._view, self._wide), None, None
        for view in views:
            if view is not None:
                view.abort()

    def close(self) -> None:
        """Close the environment."""
        if _open.get(self.path) is self:
            del _open[self.path]
            self._close_environment()
        self._foreign = True

    def destroy(self) -> None:
        """Close the environment and delete its folder."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    # ---- reading

    def look(self) -> Any:
        """Return the read view, a new one if there is none."""
        if self._view is None:
            with self._lock:
                self._take_view()
        return self._view

    def _take_view(self) -> None:
        while self._view is None:
            self._use()
            self._open_directory()
            self._thread = threading.get_ident()
            self._view = self._growing(lambda: self._environment.begin())
            self._refresh(self._view)
            if any(runs for _, runs in self._entries.values()):
                self._wide = self._growing(lambda: self._environment.begin(buffers=True))
                if self._wide.id() != self._view.id():  # another process has written in between
                    self.release()

    def snapshot(self) -> LmdbSnapshot:
        """Return what is there now, for a reader of its own, in any thread, until it is closed."""
        with self._lock:
            while True:
                self._use()
                self._open_directory()
                views = self._growing(self._two_views)
                if views[0].get(_GENERATION, None, self._directory) == self._seen[0]:
                    if not self._seen[2] or views[0].id() == views[1].id():
                        break
                else:
                    self._see(_entries_of(views[0], self._directory), views)
                _end(views)
            made = LmdbSnapshot(self.path, self._guard, views, self._run_values, self._seen[1], self._shots.discard)
            self._shots.add(made)
            return made

    def _two_views(self) -> tuple[Any, Any]:
        """Return a transaction that copies what is read and, where there are runs, one that does not."""
        try:
            with self._guard:
                begin = self._environment.begin
                return begin(), begin(buffers=True) if self._seen[2] else None
        except lmdb.ReadersFullError as error:
            raise StoreError(
                f"{self.path} has {MAX_READERS} readers: close snapshots that are not needed any more"
            ) from error

    def _see(self, entries: dict[str, Entry], views: tuple[Any, Any]) -> None:
        """Keep what snapshots of this generation of the directory know of the maps; handles are opened outside of transactions."""
        generation = views[0].get(_GENERATION, None, self._directory)
        _end(views)
        self._open_handles(slot for slot, _ in entries.values())
        maps = {name: (*self._handles[slot], runs) for name, (slot, runs) in entries.items()}
        self._seen = generation, maps, any(runs for _, runs in entries.values())

    def _use(self) -> None:
        """Open the environment if it is not open, and mark it as used now."""
        self._check()
        if self._environment is None:
            self._open_environment()
        else:
            _live[self] = _live.pop(self)

    def runs(self, numbers: tuple[int, ...]) -> list[Any]:
        """Return runs as they lie in LMDB: to be read at once, and not to be kept."""
        found = self._runs
        for number in numbers:
            if number not in found:
                found[number] = self._wide.get(run_key(number), None, self._run_values)
        return [found[number] for number in numbers]

    def _check(self) -> None:
        if self._foreign:
            raise StoreError(f"{self.path} is closed, or was opened before this process was forked; open it here anew")

    def _open_directory(self) -> None:
        if self._directory is None:
            try:
                self._directory, self._run_values = self._database(_DIRECTORY), self._database(_RUN_VALUES)
            except (lmdb.NotFoundError, lmdb.ReadonlyError) as error:
                self._forget_handles()
                raise NothingThere(f"{self.path} has no rows yet") from error
            if self._sums is not None:
                self._sums.save()

    def _refresh(self, view: Any) -> None:
        """Read the directory again if it has changed, and tell every map its slot."""
        generation = view.get(_GENERATION, None, self._directory)
        if generation == self._generation:
            return
        self._entries = _entries_of(view, self._directory)
        missing = [slot for slot, _ in self._entries.values() if slot not in self._handles]
        if missing:  # handles are opened outside of transactions
            view.abort()
            self._open_handles(missing)
            self._view = view = self._growing(lambda: self._environment.begin())
            self._refresh(view)
            return
        self._generation = generation
        for found in self._maps.values():
            self._bind(found)

    def _open_handles(self, slots: Iterable[int]) -> None:
        for slot in slots:
            if slot not in self._handles:
                if slot >= self._max_maps:
                    raise TooManyMaps(
                        f"{self.path} has more than {self._max_maps} maps: too many stores or segments in one shard"
                    )
                self._handles[slot] = (self._database(str(slot)), self._database(f"{slot}+"))

    def _database(self, name: str) -> Any:
        found = self._growing(lambda: self._environment.open_db(name.encode(), create=not self._readonly))
        if self._sums is not None:
            self._sums.follow()
        return found

    def _bind(self, found: LmdbMap) -> None:
        entry = self._entries.get(found.name)
        found._database, found._overflow = (None, None) if entry is None else self._handles[entry[0]]
        found._runs = () if entry is None else entry[1]

    # ---- writing

    def run(self, name: str, step: Step) -> None:
        """Do something to a map: now, or at the end of the batch."""
        if self._queue is not None:
            self._queue.append((name, step))
        else:
            self._commit([(name, step)])

    def make_room(self, size: int) -> None:
        """Grow the map, so that a large write need not find out half-way, and begin again."""
        with self._lock:
            self.look()
            info = self._environment.info()
            wanted, limit = (info["last_pgno"] + 1) * self._environment.stat()["psize"] + size, info["map_size"]
            if wanted > limit:
                while limit < wanted:
                    limit *= 2
                self._resize(limit)

    def _commit(self, queue: list[tuple[str, Step]]) -> None:
        if not queue:
            return
        with self._lock:
            while True:
                self._place([name for name, step in queue if step is not None])
                if self._growing(lambda: self._transact(queue)):
                    break
            if self._sums is not None:
                self._sums.follow()
                self._sums.save()

    def _place(self, names: list[str]) -> None:
        """Open a handle for every slot that a new map may take: this cannot be done inside a transaction."""
        self.look()
        fresh, taken = len(set(names) - self._entries.keys()), self._slots()
        free = (slot for slot in range(len(taken) + fresh) if slot not in taken)
        self.release()
        self._open_handles(islice(free, fresh))

    def _transact(self, queue: list[tuple[str, Step]]) -> bool:
        """Do the steps of the queue; False if another process changed the directory since we read it."""
        entries = dict(self._entries)
        with self._environment.begin(write=True, buffers=True) as transaction:
            if transaction.get(_GENERATION, None, self._directory) != self._generation:
                return False
            for name, step in queue:
                if step is None and name not in entries:
                    continue
                slot, runs = entries.get(name) or (self._free_slot(entries), ())
                place = OpenMap(transaction, *self._handles[slot], self._run_values, runs)
                (step or empty)(place)
                entries[name] = slot, place.runs
                if step is None:
                    del entries[name]
            if entries != self._entries:
                self._write_directory(transaction, entries)
        return True

    def _slots(self) -> set[int]:
        return {slot for slot, _ in self._entries.values()}

    def _free_slot(self, entries: dict[str, Entry]) -> int:
        taken = {slot for slot, _ in entries.values()}
        return next(slot for slot in sorted(self._handles) if slot not in taken)

    def _write_directory(self, transaction: Any, entries: dict[str, Entry]) -> None:
        generation = int.from_bytes(transaction.get(_GENERATION, b"", self._directory), "big") + 1
        transaction.put(_GENERATION, generation.to_bytes(8, "big"), db=self._directory)
        for name in self._entries.keys() - entries.keys():
            transaction.delete(name.encode(), db=self._directory)
        for name, entry in entries.items() - self._entries.items():
            transaction.put(name.encode(), pack_entry(*entry), db=self._directory)

    def _growing(self, step: Any) -> Any:
        """Do a step of LMDB; where the map is too small for it, double the map and do it again."""
        while True:
            try:
                return step()
            except lmdb.MapFullError:
                self._resize(2 * self._environment.info()["map_size"])
            except lmdb.MapResizedError:  # another process has grown it
                self._resize(0)


def _entries_of(view: Any, directory: Any) -> dict[str, Entry]:
    """Return the maps that a transaction sees."""
    return {bytes(name).decode(): unpack_entry(entry) for name, entry in view.cursor(directory) if name != _GENERATION}


def _end(views: Iterable[Any]) -> None:
    for view in views:
        if view is not None:
            view.abort()


#: asked for each shard of an epoch, and always answered alike
_real_path: Callable[[Any], str] = cache(os.path.realpath)


def _size(path: str) -> int:
    """Return the size of an environment's file, 0 if there is none."""
    try:
        return os.stat(os.path.join(path, "data.mdb")).st_size
    except FileNotFoundError:
        return 0


def _inode(path: str) -> int | None:
    """Return what tells an environment from a later one at the same place."""
    try:
        return os.stat(os.path.join(path, "data.mdb")).st_ino
    except FileNotFoundError:
        return None
