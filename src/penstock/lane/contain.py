"""Fallback at a node: records that a node cannot take by column go one by one through it and all below; what was before it stays done.

Whatever the node would write is written when all chains of the batch have run, so nothing that comes to it there is called again. It must
not tell others of its records by place, or be told, as then it has its turn after all of them.

A node that folds by functions of the user's, and cannot say at which record one of them has failed, takes few records at a time: a function
then sees few of them again.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.operators.base import Contains
from penstock.serde.columns import (
    Called,
    Changed,
    Column,
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
#: rows that a node takes at a time, if a function of the user's that fails may see all of them again
PIECE = 4096


def contained(task: Task, node: str, on_columns: OnColumns, contains: Contains) -> OnColumns:
    """Return what takes records by column, and where they are not for columns, one by one."""
    if contains is Contains.nothing:
        return on_columns

    def take(columns: Columns, commits: Commits) -> None:
        if contains is Contains.in_pieces and (not columns.shared or columns.values.is_fixed):
            commits.append(partial(_run_pieces, task, node, on_columns, columns))
            return
        before = len(commits)
        try:
            on_columns(columns, commits)
        except (Unreadable, Changed):
            raise
        except Exception as error:
            if columns.counts is not None:  # there is no other way for what stands for many records
                raise
            unchanged = columns.unchanged()
            if unchanged is None:
                raise Changed from error
            if contains is Contains.in_pieces or isinstance(error, Called):
                rest = partial(task.process_at, node, unchanged)
            elif contains is Contains.everything or isinstance(error, Irregular):
                rest = partial(_run_apart, task, node, on_columns, unchanged)
            else:
                raise
            logger.debug("records of %s go one by one", node, exc_info=True)
            del commits[before:]
            commits.append(rest)

    return take


def _run_apart(task: Task, node: str, on_columns: OnColumns, columns: Columns) -> None:
    """Run few records at a time by column, and where that fails one by one."""
    for part in _parts(columns, SMALL):
        if len(part) == len(columns) or not all_or_nothing([partial(on_columns, part)]):
            task.process_at(node, part)


def _run_pieces(task: Task, node: str, on_columns: OnColumns, columns: Columns) -> None:
    """Run a piece of the records at a time by column, and where that fails one by one, with the values as they were."""
    if columns.counts is not None:
        all_or_nothing([partial(on_columns, columns)], must=True)
        return
    for part in _parts(columns, PIECE):
        as_it_was = _keep(part)
        if as_it_was is None or not all_or_nothing([partial(on_columns, part)]):
            task.process_at(node, part if as_it_was is None else as_it_was())


def _keep(columns: Columns) -> Callable[[], Columns] | None:
    """Return what gives the records back, whatever functions do to them meanwhile; None if there is no such thing."""
    unchanged = columns.unchanged()
    if unchanged is not None:
        return lambda: unchanged
    try:
        packed = pickle.dumps((columns.keys.items, columns.values.items), pickle.HIGHEST_PROTOCOL)
    except Exception:  # whatever an object of the user's raises: it is not copied, and seen by its functions only once
        logger.debug("records cannot be kept, and go one by one", exc_info=True)
        return None

    def unpacked() -> Columns:
        keys, values = pickle.loads(packed)
        return columns.having(Column(keys), Column(values))

    return unpacked


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
