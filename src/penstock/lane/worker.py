"""What a Python worker keeps from epoch to epoch: the stage, the shards it has open, the global tables.

Spark starts a worker once and gives it tasks of any lane; everything here is found again by the stage's identity. Nothing here is
trusted to be current: each epoch's request says where a shard must stand.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from penstock.clock import Clock, SystemClock
from penstock.errors import StoreError, nearest
from penstock.freed_memory import keep_freed_memory
from penstock.lane.async_calls import CallPool
from penstock.lane.decoding import Sources
from penstock.lane.global_tables import GlobalEnvironment
from penstock.lane.memory_stores import WorkerShards
from penstock.lane.shuffle_files import shuffle_files_in
from penstock.lane.sink import Row
from penstock.lane.worker_log import WORKER_LOG
from penstock.processor.resources import Resources
from penstock.protocol import main_module
from penstock.protocol.chunk import Wrap, chunk_of
from penstock.protocol.failed_records import FailureGroup
from penstock.protocol.request import EpochRequest, Stage
from penstock.state.base import ShardState
from penstock.state.merged import merged_view
from penstock.state.open import open_at
from penstock.state.spec import StoreSpec

#: how long records are waited for: a cluster that is away is waited for by the loop, which says so and can be stopped
READ_SECONDS = 10.0

_workers: dict[str, Worker] = {}


class StepShards(Protocol):
    """The shards as a step sees them. ``lane.shards`` has them on disk; a test driver in its own process."""

    def open(self, shard: int, request: EpochRequest, *, back: bool = True) -> ShardState:
        """Return the state of a shard at the last barrier; ``back``: as ``Shards.open``."""
        ...

    def clear_pending(self, shard: int, token: str) -> None:
        """Forget the writes of all runs but one."""
        ...

    def keep_pending(self, shard: int, name: str, data: bytes) -> None:
        """Keep the writes of an epoch that is not committed yet."""
        ...


class StepGlobals(Protocol):
    """The global tables as a step sees them, and what became of their records (``GlobalEnvironment``)."""

    def stores(self, request: EpochRequest) -> Mapping[str, Any]:
        """Return the tables, at the offsets of the epoch."""
        ...

    def take_dead_letters(self, request: EpochRequest) -> list[Row]:
        """Return the dead letters of records that could not be read, once for a run of an epoch."""
        ...

    def take_dropped(self) -> list[tuple[str, str, int]]:
        """Return what was dropped since the last call: (node, reason, count)."""
        ...

    def take_failures(self) -> list[FailureGroup]:
        """Return the records that were left out since the last call."""
        ...

    def close(self) -> None:
        """Close the files."""
        ...


S = TypeVar("S", bound=StepShards)


class StepWorker(Generic[S]):
    """One process as the steps that run in it see it: an executor's, or that of a test driver."""

    def __init__(self, stage: Stage, shards: S, global_tables: StepGlobals, clock: Clock) -> None:
        self.stage = stage
        self.shards = shards
        #: the global tables
        self.globals = global_tables
        self.sources = Sources(stage.sources, clock, stage.config)
        #: the calls of ``map_values_async`` that run in this process
        self.calls = CallPool()
        #: what user code keeps in this process
        self.resources = Resources()
        #: shards with pending writes of this process
        self.written: set[int] = set()
        #: what the last step that failed has raised, for who runs it in a process of his own
        self.failure: Exception | None = None
        self._numbers = count()
        self._views: tuple[str, dict[str, Any]] = ("", {})

    def close(self) -> None:
        """Close threads, files and resources."""
        self.calls.close()
        self.resources.close()
        self._views = ("", {})
        self.globals.close()

    def unique(self) -> str:
        """Return a name that no other task has."""
        return f"{os.getpid()}.{next(self._numbers)}"

    def partitions(self, topic: str, known: Mapping[str, int]) -> int:
        """Return the number of partitions of a topic that is written to."""
        return known[topic]

    def view(self, name: str, request: EpochRequest) -> Any:
        """Return a read-only view of any store, over all shards, at the last barrier. Raises ``ShardIsNewer`` if it is past."""
        token, views = self._views
        if token != request.token:
            views = {}
            self._views = (request.token, views)
        if name not in views:
            views[name] = merged_view(self._spec(name), self.stores_at(name, request))
        return views[name]

    def stores_at(self, name: str, request: EpochRequest) -> list[Any]:
        """Return a store of every shard, to be read, at the last barrier; of a global table the one that there is."""
        spec = self._spec(name)
        if name in self.stage.plan.topology.global_stores:
            return [self.globals.stores(request)[name]]
        if not any(name in step.stores for step in self.stage.plan.steps):
            raise StoreError(f"no node uses the store {name!r}, so nothing is kept in it: connect it to a processor")
        return [self.store_at(spec, shard, request) for shard in range(self.stage.shards)]

    def store_at(self, spec: StoreSpec, shard: int, request: EpochRequest) -> Any:
        """Return a store of a shard, to be read, at the last barrier."""
        state = self.shards.open(shard, request, back=False)
        return open_at(spec, state, shard, request.snapshots.values())

    def _spec(self, name: str) -> StoreSpec:
        stores = self.stage.plan.topology.stores
        if name not in stores:
            known = list(stores)
            raise StoreError(f"there is no store {name!r}{nearest(name, known)}; the topology has {known}")
        return stores[name]


class Worker(StepWorker[WorkerShards]):
    """One process of an executor."""

    def __init__(self, stage: Stage) -> None:
        shards = WorkerShards(stage)
        super().__init__(stage, shards, GlobalEnvironment(stage, shards, SystemClock()), SystemClock())
        self._shuffle_files = None if stage.shuffle_folder is None else shuffle_files_in(stage.shuffle_folder)
        self._reader: Any = None
        self._known_partitions: dict[str, int] = {}

    def reader(self) -> Any:
        """Return what reads the records of epochs."""
        if self._reader is None:
            self._reader = self.shards.log.reader(timeout=READ_SECONDS)
        return self._reader

    def close(self) -> None:
        """Close connections, too: another stage has come, or the application ends."""
        super().close()
        self._reader = None
        self.shards.close()

    def wrapping(self, request: EpochRequest) -> Wrap:
        """Return what makes chunks of rows that go to other tasks of the epoch and to the driver."""
        if self._shuffle_files is None:
            return chunk_of
        self._shuffle_files.begin(request.epoch, request.token)
        return self._shuffle_files.stage

    def follow(self, request: EpochRequest) -> None:
        """Bring the shards that this process has written to to the barrier: their next epoch need not wait for it."""
        for shard in sorted(self.written):
            self.shards.open(shard, request).release()
            self.shards.drop_pending(shard, request.shards[shard].pending)
        self.written.clear()

    def partitions(self, topic: str, known: Mapping[str, int]) -> int:
        """Return the number of partitions of a topic that is written to; one whose name a record gave is asked for once."""
        if topic in known:
            return known[topic]
        if topic not in self._known_partitions:
            self._known_partitions[topic] = self.shards.log.admin.partitions([topic])[topic]
        return self._known_partitions[topic]


def release_resources(identity: str) -> None:
    """Close what user code keeps in this process for a stage, if it is here: the application ends."""
    if identity in _workers:
        _workers[identity].resources.close()


def close_worker(identity: str) -> None:
    """Close this process' worker for a stage, if there is one: the process goes on without it."""
    if (worker := _workers.pop(identity, None)) is not None:
        worker.close()


def import_as_the_program(first: Sequence[str], others: Sequence[str]) -> None:
    """Import from where the program does. What comes first there does so here: a package may have the name of a module."""
    sys.path[:0] = [path for path in first if path not in sys.path]
    sys.path += [path for path in others if path not in sys.path]


def worker_for(identity: str, payload: Callable[[], bytes]) -> Worker:
    """Return this process' worker for a stage; made from its bytes when it is first needed."""
    if identity not in _workers:
        WORKER_LOG.install()
        (first, others), data = pickle.loads(payload())
        import_as_the_program(first, others)
        for old in _workers.values():
            old.close()
        _workers.clear()
        _workers[identity] = Worker(main_module.load(data))
        keep_freed_memory()
        # Spark's daemon collects garbage after every task. During one, looking for cycles among the rows of an epoch would double
        # the cost of a record; what lives as long as the process is not looked at either.
        gc.disable()
        gc.freeze()
    return _workers[identity]
