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

from penstock.operators.base import Contains
from penstock.serde.columns import (
    Called,
    Changed,
    Columns,
    Commits,
    Irregular,
    OnColumns,
    Unreadable,
    all_or_nothing,
)

if TYPE_CHECKING:
    from penstock.lane.task import Task

logger = logging.getLogger("penstock.columns")

#: rows that go one by one, if one of them is not for columns
SMALL = 256


def contained(task: Task, node: str, on_columns: OnColumns, contains: Contains) -> OnColumns:
    """Return what takes records by column, and where they are not for columns, one by one."""
    if contains is Contains.nothing:
        return on_columns

    def take(columns: Columns, commits: Commits) -> None:
        before = len(commits)
        try:
            on_columns(columns, commits)
        except (Unreadable, Changed):
            raise
        except Exception as error:
            if columns.counts is not None:  # there is no other way for what stands for many records
                raise
            if contains is not Contains.everything and not isinstance(error, Irregular):
                raise
            unchanged = columns.unchanged()
            if unchanged is None:
                raise Changed from error
            if contains is Contains.as_a_whole or isinstance(error, Called):
                rest = partial(task.process_at, node, unchanged)
            else:
                rest = partial(_run_apart, task, node, on_columns, unchanged)
            logger.debug("records of %s go one by one", node, exc_info=True)
            del commits[before:]
            commits.append(rest)

    return take


def _run_apart(task: Task, node: str, on_columns: OnColumns, columns: Columns) -> None:
    """Run few records at a time by column, and where that fails one by one."""
    for part in _parts(columns, SMALL):
        if len(part) == len(columns) or not all_or_nothing([partial(on_columns, part)]):
            task.process_at(node, part)


def _parts(columns: Columns, size: int) -> Iterator[Columns]:
    if len(columns) <= size:
        yield columns
        return
    for begin in range(0, len(columns), size):
        yield columns.pick(list(range(begin, min(begin + size, len(columns)))))


def records(columns: Columns) -> Iterator[tuple[Any, Any, int, Any, Any]]:
    """Yield records by column one by one: key, value, timestamp, headers, origin."""
    headers = [()] * len(columns) if columns.headers is None else columns.headers
    origins = map(columns.origin, range(len(columns)))
    yield from zip(columns.keys.items, columns.values.items, columns.timestamps.tolist(), headers, origins, strict=True)
