"""Shards at a barrier where the lanes run on other machines: a copy of those asked for follows the changelogs.

The driver's process brings a shard to the barrier as a lane would, by the changelog rows that it has not read yet.
What is not asked for is not read. Where the file of such a copy has to grow, open snapshots of that shard end
(``lmdb_store``): take them again."""

from __future__ import annotations

import threading
from pathlib import Path

from penstock.clock import SystemClock
from penstock.lane.global_tables import GlobalEnvironment
from penstock.lane.memory_stores import WorkerShards
from penstock.protocol.request import EpochRequest, Stage
from penstock.query.shards import LocalShards, ShardNotReady
from penstock.state.base import ShardState
from penstock.state.lmdb_store import LmdbState


class FollowedShards(LocalShards):
    """The shards of an application whose lanes run on a cluster. One thread at a time brings up and opens."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._shards = WorkerShards(stage)
        self._globals = GlobalEnvironment(stage, self._shards, SystemClock())
        self._lock = threading.Lock()

    def open(self, shard: int, request: EpochRequest) -> ShardState:
        """Return a shard at the barrier of the request, brought there first if it is behind."""
        with self._lock:
            try:
                return super().open(shard, request)
            except ShardNotReady:
                self._shards.open(shard, request, back=False).release()
                return super().open(shard, request)

    def open_global(self, request: EpochRequest) -> ShardState:
        """Return the global tables at the barrier of the request, brought there first if they are behind."""
        with self._lock:
            try:
                return super().open_global(request)
            except ShardNotReady:
                self._globals.stores(request)
                return super().open_global(request)

    def opens_at_once(self, shard: int, request: EpochRequest) -> bool:
        """Never: it may have to be read from its changelog first."""
        return False

    def close(self) -> None:
        """Close connections and files."""
        with self._lock:
            self._globals.close()
            self._shards.close()

    def _state(self, path: Path) -> LmdbState | None:
        """Return the environment at a path, if it was brought up here: it is written to by this process."""
        return LmdbState.opened(path)
