"""The driver's process as the steps of an epoch see it: shards and global tables that are always at the last barrier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.lane.sink import Row
from penstock.lane.worker import StepWorker
from penstock.protocol.failed_records import FailureGroup
from penstock.protocol.request import EpochRequest
from penstock.record import NO_ORIGIN
from penstock.state import pending
from penstock.state.base import ShardState
from penstock.testing.application import TestedApplication


class DriverWorker(StepWorker["DriverStates"]):
    """The driver's process as the steps see it."""

    def __init__(self, application: TestedApplication) -> None:
        shards = DriverStates(application.states)
        super().__init__(application.stage, shards, DriverGlobals(application), application.clock)
        self.resources = application.resources
        self._application = application

    def partitions(self, topic: str, known: Mapping[str, int]) -> int:
        """Return the number of partitions that the driver was given."""
        return self._application.partitions_of(topic)


class DriverStates:
    """The shards of the driver: always at the last barrier; what an epoch writes waits for the next one."""

    def __init__(self, states: list[ShardState]) -> None:
        self._states = states
        self._pending: list[tuple[int, bytes]] = []

    def open(self, shard: int, request: EpochRequest, *, back: bool = True) -> ShardState:
        """Return the state of a shard."""
        return self._states[shard]

    def clear_pending(self, shard: int, token: str) -> None:
        """Do nothing: see ``forget``."""

    def keep_pending(self, shard: int, name: str, data: bytes) -> None:
        """Keep the writes of a step."""
        self._pending.append((shard, data))

    def forget(self) -> None:
        """Forget the writes of an epoch that has failed."""
        self._pending.clear()

    def apply(self) -> None:
        """Bring the writes of the epoch into the shards, in the order of its steps."""
        for shard, data in self._pending:
            with self._states[shard].batch():
                pending.apply(self._states[shard], data)
        self._pending.clear()


class DriverGlobals:
    """The global tables of the driver: the records of their topics are applied before an epoch."""

    def __init__(self, application: TestedApplication) -> None:
        self._tables = application.globals

    def stores(self, request: EpochRequest) -> Mapping[str, Any]:
        """Return the tables."""
        return self._tables.stores

    def take_dead_letters(self, request: EpochRequest) -> list[Row]:
        """Return the dead letters of records that could not be read, once; their source record is of no topic that epochs read."""
        return [row._replace(origin=NO_ORIGIN) for row in self._tables.take_dead_letters()]

    def take_dropped(self) -> list[tuple[str, str, int]]:
        """Nothing: the driver looks into the tables for what they have dropped."""
        return []

    def take_failures(self) -> list[FailureGroup]:
        """Nothing: nobody asks the driver for examples."""
        return []

    def close(self) -> None:
        """Do nothing: the tables are the application's."""
