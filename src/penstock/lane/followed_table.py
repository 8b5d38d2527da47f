"""Tables that records come back to: a later step of the epoch reads them as of the source record of the one at hand.

Two stores are open above one base, that of the last barrier. The earlier step writes to the table, and keeps each change; the later
step reads the other one, which takes in, before each read of a key, what was written to it by then. In a worker each is in a task of
its own step, and the changes travel between them; in the test driver one task has both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.state.changes import TableChange, TableChanges, source_position
from penstock.state.open import open_store

if TYPE_CHECKING:
    from penstock.lane.task import Task


class FollowedTable:
    """What a node reads of a table that an earlier step writes.

    Invariant: its reads come in the order of their source records.
    """

    def __init__(self, task: Task, later: Any, changes: TableChanges) -> None:
        self._task = task
        self._later = later
        self._changes = changes

    def read(self, key: Any) -> Any:
        """Return (value, timestamp) or None."""
        return self._current(key).read(key)

    def get(self, key: Any, as_of: int | None = None) -> Any:
        """Return a version of a versioned table."""
        return self._current(key).get(key, as_of)

    def _current(self, key: Any) -> Any:
        if key is not None:
            raw = self._later.raw_key(key)
            for change in self._changes.take(raw, source_position(self._task.position)):
                self._later.replay(raw, change.value, change.timestamp)
        return self._later


class FollowedTables:
    """Those of one task.

    ``follows``: ``Plan.follows``; ``taken``: the changes that came to a later step; None: the task has all steps.
    """

    def __init__(
        self, task: Task, follows: Mapping[str, frozenset[str]], taken: Mapping[str, TableChanges] | None
    ) -> None:
        self._task = task
        self._taken = taken
        self._changes: dict[str, TableChanges] = {}
        self._later: dict[str, Any] = {}
        self._tables: dict[tuple[str, str], FollowedTable] = {}
        readers = [(node, store) for node, stores in follows.items() for store in stores if store in task.stores]
        for store in {store for _, store in readers}:
            self._open(store, is_read=any(task.runs(node) for node, read in readers if read == store))
        for node, store in readers:
            if store in self._later:
                self._tables[node, store] = FollowedTable(task, self._later[store], self._changes[store])

    def _open(self, store: str, *, is_read: bool) -> None:
        task = self._task
        if self._taken is not None and is_read:
            self._later[store] = task.stores[store]
            self._changes[store] = self._taken.get(store, TableChanges())
            return
        changes = self._changes[store] = TableChanges()

        def keep(key: bytes, value: bytes | None, timestamp: int) -> None:
            changes.add(key, TableChange(source_position(task.position), value, timestamp))

        task.stores[store].on_change(keep)
        if self._taken is None:
            later = self._later[store] = open_store(task.topology.stores[store], task.state, task)
            if later.keeps_time:
                task.time.add_store(store, later)

    def table(self, node: str, store: str) -> FollowedTable | None:
        """Return what a node reads in place of the store."""
        return self._tables.get((node, store))

    def only_reads(self, store: str) -> bool:
        """Whether the task reads a store that another one writes."""
        return self._taken is not None and store in self._later

    def packed(self) -> dict[str, bytes]:
        """Return, by store, the changes of this task for later steps."""
        kept = {store: changes for store, changes in self._changes.items() if store not in self._later}
        return {store: changes.pack() for store, changes in kept.items() if len(changes)}

    def forget(self) -> None:
        """Begin anew: a barrier has made all changes part of the base."""
        for changes in self._changes.values():
            changes.clear()
        for store in self._later.values():
            store.forget()
