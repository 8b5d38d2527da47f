"""Jobs on PySpark's public RDD interface: the slow truth, which runs on any supported Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


class PublicJobs:
    """Runs functions in tasks: ``mapPartitionsWithIndex(...).partitionBy(...)....collect()``. ``FastJobs`` does the same."""

    def __init__(self, context: Any, lanes: int) -> None:
        self._context = context
        self._lanes = lanes

    def run(self, tasks: int, functions: Sequence[Callable[[int, Iterable[Any]], Iterable[bytes]]]) -> list[bytes]:
        """Return what the last function returns in all tasks. Of others it goes to a lane each: (lane, bytes) in turn."""
        *earlier, last = functions
        coming = self._context.parallelize(range(tasks), tasks)
        for function in earlier:
            pairs = coming.mapPartitionsWithIndex(_in_pairs(function))
            coming = pairs.partitionBy(self._lanes, _lane_itself()).values()
        return list(coming.mapPartitionsWithIndex(last).collect())

    def close(self) -> None:
        """Do nothing: what Spark keeps is let go of with its session."""


# What is returned below travels to the workers by value, being no name of this module: a worker does not import the driver's modules.


def _in_pairs(function: Callable[[int, Iterable[Any]], Iterable[bytes]]) -> Callable[..., Any]:
    """Return a function that gives (lane, bytes) together which ``function`` gives in turn."""

    def paired(task: int, rows: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
        told = iter(function(task, rows))
        for lane in told:
            yield int.from_bytes(lane, "big"), next(told)

    return paired


def _lane_itself() -> Callable[[int], int]:
    return lambda lane: lane
