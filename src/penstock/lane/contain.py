"""Fallback at a node: records that a node cannot take by column go one by one through it and all below; what was before it stays done.

Whatever the node would write is written when all chains of the batch have run, so nothing that comes to it there is called again. It must
not tell others of its records by place, or be told, as then it has its turn after all of them.

Functions may have changed the values of records that they were called for: such go on as they were, read again from their bytes. Where
there are none, and where other nodes have the same values, all records of the batch go again from their source.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.batch.batch import Batch, Commits, OnBatch, all_or_nothing
from penstock.batch.fallback import Fallback, FallbackAfterCall, InputChanged, Undecodable
from penstock.operators.base import Contains

if TYPE_CHECKING:
    from penstock.lane.task import Task

logger = logging.getLogger("penstock.batch")

#: rows that go one by one, if one of them is not for columns
SMALL = 256


def contained(task: Task, node: str, on_batch: OnBatch, contains: Contains) -> OnBatch:
    """Return what takes records by column, and where they are not for columns, one by one."""
    if contains is Contains.nothing:
        return on_batch

    def take(batch: Batch, commits: Commits) -> None:
        before = len(commits)
        try:
            on_batch(batch, commits)
        except (Undecodable, InputChanged):
            raise
        except Exception as error:
            if batch.counts is not None:  # there is no other way for what stands for many records
                raise
            if contains is not Contains.everything and not isinstance(error, Fallback):
                raise
            unchanged = batch.unchanged()
            if unchanged is None:
                raise InputChanged from error
            if contains is Contains.as_a_whole or isinstance(error, FallbackAfterCall):
                rest = partial(task.process_at, node, unchanged)
            else:
                rest = partial(_run_apart, task, node, on_batch, unchanged)
            logger.debug("records of %s go one by one", node, exc_info=True)
            del commits[before:]
            commits.append(rest)

    return take


def _run_apart(task: Task, node: str, on_batch: OnBatch, batch: Batch) -> None:
    """Run few records at a time by column, and where that fails one by one."""
    for part in _parts(batch, SMALL):
        if len(part) == len(batch) or not all_or_nothing([partial(on_batch, part)]):
            task.process_at(node, part)


def _parts(batch: Batch, size: int) -> Iterator[Batch]:
    if len(batch) <= size:
        yield batch
        return
    for begin in range(0, len(batch), size):
        yield batch.pick(list(range(begin, min(begin + size, len(batch)))))


def records(batch: Batch) -> Iterator[tuple[Any, Any, int, Any, Any]]:
    """Yield records by column one by one: key, value, timestamp, headers, origin."""
    headers = [()] * len(batch) if batch.headers is None else batch.headers
    origins = map(batch.origin, range(len(batch)))
    yield from zip(batch.keys.items, batch.values.items, batch.timestamps.tolist(), headers, origins, strict=True)
