"""The seam between the loop and what runs an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

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
        """Cancel a run in another thread."""
        ...


class Jobs(Protocol):
    """Whatever runs functions in tasks: ``spark_fast``, ``spark_public`` or ``in_process_jobs``, with the same results."""

    def run(self, tasks: int, functions: Sequence[Callable[[int, Iterable[Any]], Iterable[bytes]]]) -> list[bytes]:
        """Return what the last function returns in all tasks. Of others it goes to a lane each: (lane, bytes) in turn."""
        ...

    def close(self) -> None:
        """Release what is kept from job to job."""
        ...
