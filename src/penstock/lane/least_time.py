"""The least time of several partition indexes, move by move, in time that does not grow with the number of indexes.

Each index holds a time from one of its moves to the next, a *step*::

    moves       0    1    2    3    4
    index a    10 ──────▶ 20 ─────────▶       steps (10, until 2), (20, until the end)
    index b          15 ─────▶ 18 ▶ 25 ▶      steps (15, until 3), (18, until 4), (25, until the end)
    least      10   10   15   18   20         of the steps in order of time, the first that has not ended

Invariant: a step that has not begun is never the first that has not ended, as its index's step before it, of a time not greater, has
not ended either. That holds while no index begins to count, so the epoch is cut where one does.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from penstock.lane.ordering import running_max, starts_of


class _Steps(NamedTuple):
    """Steps in order of time: the time, the move with which each begins (−1: before the epoch), and the one with which it ends."""

    times: Any
    begins: Any
    ends: Any

    def between(self, begin: int, end: int) -> _Steps:
        """Return the steps that hold at some of these moves."""
        mine = (self.begins < end) & (self.ends > begin)
        return _Steps(*(column[mine] for column in self))

    def least(self, begin: int, end: int) -> Any:
        """Return the least time at each of these moves, at each of which the steps of the same indexes hold; −1 if there are none."""
        if not len(self.times):
            return np.full(end - begin, -1, dtype=np.int64)
        ended = np.maximum.accumulate(np.minimum(self.ends, end)) - begin
        return self.times[np.cumsum(np.bincount(ended, minlength=end - begin))[: end - begin]]


def least_times(base: Mapping[int, int], indexes: Any, watermarks: Any) -> Any:
    """Return the least time of all indexes after each move: an index counts from its first time on; −1 while none counts.

    ``base``: the time of each index when the epoch begins. ``indexes``, ``watermarks``: of the moves, in order.

    >>> least_times({0: 10}, np.array([0, 1, 0, 1]), np.array([20, 5, 30, 25])).tolist()
    [20, 5, 5, 25]
    """
    count = len(indexes)
    steps, appearing = _steps_of(base, indexes, watermarks)
    if not len(appearing):
        return steps.least(0, count)
    parts = pairwise([0, *appearing.tolist(), count])
    return np.concatenate([steps.between(begin, end).least(begin, end) for begin, end in parts])


def _steps_of(base: Mapping[int, int], indexes: Any, watermarks: Any) -> tuple[_Steps, Any]:
    """Return the steps, and the moves with which indexes begin to count."""
    count = len(indexes)
    order = np.argsort(indexes.astype(np.uint16) if indexes.max(initial=0) < 1 << 16 else indexes, kind="stable")
    edges = np.array(starts_of(indexes[order]), dtype=np.int64)
    firsts, lasts = edges[:-1], edges[1:] - 1
    moved = indexes[order[firsts]].tolist()
    known = np.array([base.get(index, -1) for index in moved], dtype=np.int64)
    times, ends = np.maximum(watermarks, -1), np.empty(count, dtype=np.int64)
    ends[order[:-1]] = order[1:]
    ends[order[lasts]] = count
    by_index = times[order]
    by_index[firsts] = np.maximum(by_index[firsts], known)
    if len(np.setdiff1d(np.flatnonzero(by_index[1:] < by_index[:-1]) + 1, firsts)):
        by_index = running_max(np.repeat(np.arange(len(moved)), np.diff(edges)), by_index)
    times[order] = by_index
    begins, appearing = np.arange(count), firsts[:0]
    if (known < 0).any():
        counts = by_index >= 0
        appears = counts.copy()
        appears[1:] &= ~counts[:-1]
        appears[firsts] = counts[firsts] & (known < 0)
        appearing, counts = np.sort(order[appears]), times >= 0
        times, begins, ends = times[counts], begins[counts], ends[counts]
    still = np.array([time for index, time in base.items() if time >= 0 and index not in set(moved)], dtype=np.int64)
    before = len(still) + int((known >= 0).sum())
    steps = _Steps(
        np.concatenate([still, known[known >= 0], times]),
        np.concatenate([np.full(before, -1), begins]),
        np.concatenate([np.full(len(still), count), order[firsts[known >= 0]], ends]),
    )
    if (steps.times[1:] < steps.times[:-1]).any():
        by_time = np.argsort(steps.times, kind="stable")  # of one index, the step that began first comes first
        steps = _Steps(*(column[by_time] for column in steps))
    return steps, appearing
