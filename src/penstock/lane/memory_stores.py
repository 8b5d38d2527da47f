"""Stores that are not persistent: kept in memory, found by every worker of the machine, gone when the application ends.

Spark may give a shard to another Python worker at every epoch, so memory of one process will not do. The rows of such stores are in a
second LMDB environment of the shard, in a file system that is memory (``/dev/shm``), in a folder of this run of the application. A
start finds nothing there, and restores what is logged from the changelogs; what is not logged begins empty.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from penstock.lane.shards import Shards
from penstock.protocol.request import EpochRequest, Stage
from penstock.protocol.state_folder import memory_folder
from penstock.state.base import BytesStore, ShardState
from penstock.state.spec import StoreKind, StoreSpec


class WorkerShards(Shards):
    """The shards of one executor: persistent stores on disk, the others in memory."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        kept = {name: spec for name, spec in self._specs.items() if not is_in_memory(spec)}
        self._memory = MemoryShards(stage, self) if len(kept) < len(self._specs) else None
        self._specs = kept

    def open(self, shard: int, request: EpochRequest, *, back: bool = True) -> ShardState:
        """Return the state of a shard at the last barrier, as ``Shards.open`` does."""
        state = super().open(shard, request, back=back)
        if self._memory is None:
            return state
        return SplitState(state, self._memory.open(shard, request, back=back), self._memory.names)

    def take_restored(self) -> dict[str, int]:
        """Return the rows that were read since the last call, by store."""
        found = self.restored_by + (Counter() if self._memory is None else self._memory.restored_by)
        for shards in (self, self._memory):
            if shards is not None:
                shards.restored_by.clear()
        return dict(found)

    def approach(self, shard: int, request: EpochRequest) -> tuple[int, dict[str, int]]:
        """Bring a shard nearer to the last barrier; return rows read, offsets left."""
        if self._memory is None:
            return super().approach(shard, request)
        before = self.restored + self._memory.restored
        _, left = super().approach(shard, request)
        _, more = self._memory.approach(shard, request)
        return self.restored + self._memory.restored - before, left | more  # of different stores

    def close(self) -> None:
        """Close the connections."""
        super().close()
        if self._memory is not None:
            self._memory.close()


class MemoryShards(Shards):
    """The part of each shard that is in memory. Pending files are those of the shard."""

    def __init__(self, stage: Stage, home: Shards) -> None:
        super().__init__(stage)
        self._specs = {name: spec for name, spec in self._specs.items() if is_in_memory(spec)}
        self.names = frozenset(self._specs)
        self._home = home
        self.folder = memory_folder(stage, home.folder)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for other in self.folder.parent.iterdir():  # what runs that have ended without a word have left
            if other != self.folder:
                shutil.rmtree(other, ignore_errors=True)

    def open(self, shard: int, request: EpochRequest, *, back: bool = True) -> ShardState:
        """Return the state of a shard at the last barrier: this run's, no earlier one's."""
        return super().open(shard, self._of_this_run(request), back=back)

    def approach(self, shard: int, request: EpochRequest) -> tuple[int, dict[str, int]]:
        """Bring a shard nearer to the last barrier; return rows read, offsets left."""
        return super().approach(shard, self._of_this_run(request))

    def _of_this_run(self, request: EpochRequest) -> EpochRequest:
        ours = f"@{self.stage.run}"
        if request.incarnation.endswith(ours):
            return request
        return msgspec.structs.replace(request, incarnation=request.incarnation + ours)

    def pending_folder(self, shard: int) -> Path:
        """Return where the writes of an epoch are kept: with those of the persistent stores."""
        return self._home.path(shard)


class SplitState:
    """The maps of a shard in two states: those of some stores in one, all others in the other."""

    def __init__(self, disk: ShardState, memory: ShardState, in_memory: frozenset[str]) -> None:
        self._disk = disk
        self._memory = memory
        self._in_memory = in_memory

    def _of(self, name: str) -> ShardState:
        return self._memory if name.partition("/")[0] in self._in_memory else self._disk

    def map(self, name: str) -> BytesStore:
        """Return the bytes map of this name."""
        return self._of(name).map(name)

    def drop(self, name: str) -> None:
        """Delete a whole map at once."""
        self._of(name).drop(name)

    def names(self) -> list[str]:
        """Return the names of all maps, sorted."""
        return sorted([*self._disk.names(), *self._memory.names()])

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make all writes and drops one atomic step of each of the two."""
        with ExitStack() as stack:
            stack.enter_context(self._disk.batch())
            stack.enter_context(self._memory.batch())
            yield

    def release(self) -> None:
        """Release the read views."""
        self._disk.release()
        self._memory.release()

    def close(self) -> None:
        """Close the maps."""
        self._disk.close()
        self._memory.close()

    def destroy(self) -> None:
        """Delete every row."""
        self._disk.destroy()
        self._memory.destroy()


def is_in_memory(spec: StoreSpec) -> bool:
    """Whether a store is kept in memory. The buffer of ``suppress`` is not: nobody has asked for it, and it may have no log."""
    return not spec.persistent and spec.kind is not StoreKind.BUFFER
