"""Queries of the test driver: the same code as in production, above the state of its shards."""

from __future__ import annotations

from typing import Any

from penstock.engine.executor.in_process import InProcessExecutor
from penstock.plan.passes import make_plan
from penstock.protocol.request import EpochRequest, ShardRequest
from penstock.query.barriers import Barrier, Barriers, Position
from penstock.query.routing import Routing
from penstock.query.service import Queries
from penstock.state.base import ShardState
from penstock.state.lmdb_store import LmdbState
from penstock.state.memory import MemoryState


class DriverShards:
    """The shards of the test driver as they are now, which is the last barrier: copied, or a snapshot of LMDB."""

    def __init__(self, lanes: InProcessExecutor) -> None:
        self._lanes = lanes

    def open(self, shard: int, request: EpochRequest) -> ShardState:
        """Return a shard as of now."""
        return _frozen(self._lanes.tasks[shard].state)

    def open_global(self, request: EpochRequest) -> ShardState:
        """Return the global tables as of now."""
        return _frozen(self._lanes.globals.state)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Nothing: its stores are in memory."""
        return {}

    def opens_at_once(self, shard: int, request: EpochRequest) -> bool:
        """Always: it is in this process."""
        return True

    def close(self) -> None:
        """Do nothing: the state is the driver's."""


def _frozen(state: ShardState) -> ShardState:
    if isinstance(state, MemoryState):
        return state.copy()
    assert isinstance(state, LmdbState)
    return state.snapshot()


class DriverQueries:
    """What the test driver answers queries with; made when the first one is asked."""

    def __init__(self, lanes: InProcessExecutor, timeout_ms: int) -> None:
        self._lanes = lanes
        self._barriers = Barriers()
        self._queries = Queries(
            Routing(make_plan(lanes.topology), lanes.shards, lanes.lanes),
            DriverShards(lanes),
            lanes.shards,
            barriers=self._barriers,
            global_stores=bool(lanes.topology.global_stores),
            moves_ahead=False,
            timeout_ms=timeout_ms,
        )
        self._number = 0

    def at(self, epoch: int, position: Position) -> Queries:
        """Return the queries, at the barrier that the driver is at."""
        self._number += 1  # a test may have written to a store since
        self._queries.publish(Barrier(epoch, position), self._request(epoch, position))
        return self._queries

    def _request(self, epoch: int, position: Position) -> EpochRequest:
        shards = tuple(ShardRequest(f"{epoch}.{self._number}") for _ in range(self._lanes.shards))
        told: dict[int, Any] = {
            task.shard: {"stores": {name: store.snapshot() for name, store in task.stores.items()}}
            for task in self._lanes.tasks
        }
        ends = [(topic, partition, offset + 1) for (topic, partition), offset in sorted(position.items())]
        return EpochRequest(
            epoch=epoch + 1,
            token="",
            incarnation=f"{self._number}",
            shards=shards,
            changelogs={},
            positions=ends,
            topics=(),
            source_of={},
            reached=[],
            partitions={},
            snapshots={0: told},
            global_ends=ends,
        )

    def close(self) -> None:
        """End all snapshots."""
        self._queries.close()
