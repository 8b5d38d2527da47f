"""Queries of the test driver: the same code as in production, above the state of its shards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.protocol.request import EpochRequest, ShardRequest
from penstock.query.barriers import Barrier, Barriers, Position
from penstock.query.routing import Routing
from penstock.query.service import Queries
from penstock.state.base import ShardState
from penstock.state.lmdb_store import LmdbState
from penstock.state.memory import MemoryState
from penstock.testing.application import TestedApplication


class DriverShards:
    """The shards of the test driver as they are now, which is the last barrier: copied, or a snapshot of LMDB."""

    def __init__(self, application: TestedApplication) -> None:
        self._application = application

    def open(self, shard: int, request: EpochRequest) -> ShardState:
        """Return a shard as of now."""
        return _frozen(self._application.states[shard])

    def open_global(self, request: EpochRequest) -> ShardState:
        """Return the global tables as of now."""
        return _frozen(self._application.globals.state)

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

    def __init__(self, application: TestedApplication, timeout_ms: int) -> None:
        self._application = application
        self._barriers = Barriers()
        stage = application.stage
        self._queries = Queries(
            Routing(stage.plan, stage.shards, stage.lanes),
            DriverShards(application),
            stage.shards,
            barriers=self._barriers,
            global_stores=bool(application.topology.global_stores),
            moves_ahead=False,
            timeout_ms=timeout_ms,
        )
        self._number = 0

    def at(self, position: Position, snapshots: Mapping[int, Mapping[int, Any]]) -> Queries:
        """Return the queries, at the barrier that the driver is at; ``snapshots``: what its tasks know there."""
        self._number += 1  # a test may have written to a store since
        barrier = Barrier(self._application.epoch, position)
        self._queries.publish(barrier, self._request(barrier, snapshots))
        return self._queries

    def _request(self, barrier: Barrier, snapshots: Mapping[int, Mapping[int, Any]]) -> EpochRequest:
        epoch, position = barrier
        shards = tuple(ShardRequest(f"{epoch}.{self._number}") for _ in self._application.states)
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
            snapshots={level: dict(shots) for level, shots in snapshots.items()},
            global_ends=ends,
        )

    def close(self) -> None:
        """End all snapshots."""
        self._queries.close()
