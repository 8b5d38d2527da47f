"""Jobs in this process: what tasks of Spark would run is run here, one after the other, by the same functions of ``lane.entry``.

A debugger stops in the user's functions, and a profiler sees them. It uses one core, and the lanes share the driver's memory.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.lane.worker import close_worker
from penstock.lane.worker_log import WORKER_LOG


class InProcessJobs:
    """Runs the tasks of a job in turn. ``PublicJobs`` and ``FastJobs`` run them on Spark, with the same results."""

    def __init__(self, identity: str, lanes: int) -> None:
        self._identity = identity
        self._lanes = lanes

    def run(self, tasks: int, functions: Sequence[Callable[[int, Iterable[Any]], Iterable[bytes]]]) -> list[bytes]:
        """Return what the last function returns in all tasks. Of others it goes to a lane each: (lane, bytes) in turn."""
        *earlier, last = functions
        coming: list[list[bytes]] = [[] for _ in range(tasks)]
        try:
            for function in earlier:
                leaving = [iter(function(task, iter(rows))) for task, rows in enumerate(coming)]
                coming = [[] for _ in range(self._lanes)]
                for told in leaving:
                    for lane in told:
                        coming[int.from_bytes(lane, "big")].append(next(told))
            return [chunk for task, rows in enumerate(coming) for chunk in last(task, iter(rows))]
        finally:
            _be_a_driver()

    def close(self) -> None:
        """Release what a worker keeps from epoch to epoch."""
        close_worker(self._identity)


def _be_a_driver() -> None:
    """Take back what a worker does to its process: garbage is collected here, and what is logged goes where the program says."""
    gc.enable()
    logging.getLogger().removeHandler(WORKER_LOG)
