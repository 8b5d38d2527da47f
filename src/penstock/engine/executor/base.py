"""The seam between the loop and what runs an epoch."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from penstock.protocol.request import EpochRequest, Range


class Executor(Protocol):
    """Whatever runs an epoch. ``spent``: microseconds of the last one in the driver, by phase; ``inline``: whether it was."""

    spent: dict[str, int]
    inline: bool

    def run(self, request: EpochRequest, ranges: list[Range]) -> pa.Table:
        """Run an epoch; return the envelope rows that left the lanes."""
        ...

    def restore(self, request: EpochRequest) -> pa.Table:
        """Bring every shard to the last barrier, or nearer; return the reports of the lanes."""
        ...

    def follow(self, request: EpochRequest) -> None:
        """Send a barrier to the workers; nobody waits for what they do then."""
        ...

    def cancel(self) -> None:
        """Let a run in another thread fail now."""
        ...
