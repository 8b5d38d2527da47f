"""Stores as the driver reads them: a worker in this process, which opens the shards at the last barrier and runs no epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.lane.shards import ShardIsNewer
from penstock.lane.worker import Worker
from penstock.protocol.request import EpochRequest, Stage


class StoreViews:
    """Read-only views of the stores of an application."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._worker: Worker | None = None

    def view(self, name: str, barrier: Callable[[], EpochRequest]) -> Any:
        """Return a view of a store at the last barrier, for which ``barrier`` is asked again if there was another one meanwhile."""
        if self._worker is None:
            self._worker = Worker(self._stage)
        while True:
            try:
                return self._worker.view(name, barrier())
            except ShardIsNewer:
                continue

    def close(self) -> None:
        """Let go of files and connections."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None
