"""Punctuation: functions called regularly, by stream time or by wall-clock time.

Kafka Streams' rules:

* stream time: first due at 0, that is, with the first record; wall clock: first due one interval from now;
* with a ``start``, due only at start + n × every; a start that has passed moves to the next such time;
* the function gets the time now, not the time it was due; intervals that were missed are skipped, not made up for.

What is due by a `Schedule` (a scheduled source) follows the last rule in its own way: the function gets the latest time at which
it was due, and those that were missed before are covered by that one call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeAlias

from penstock.errors import TopologyError
from penstock.schedule import Schedule

#: ``every`` of a punctuation that is due once
ONCE = 1 << 60
#: what is called when a punctuation is due: (timestamp now)
Punctuator: TypeAlias = Callable[[int], Any]


class PunctuationType(Enum):
    """By which time a punctuation is due."""

    STREAM_TIME = "stream_time"
    WALL_CLOCK_TIME = "wall_clock_time"


class Cancellable:
    """A punctuation that can be stopped.

    >>> punctuation = PunctuationQueue(PunctuationType.STREAM_TIME).schedule("node", 10, print, None, -1)
    >>> punctuation.cancel()
    >>> punctuation.cancelled
    True
    """

    __slots__ = ("cancelled", "due", "every", "f", "node", "number", "schedule")

    def __init__(self, node: str, number: int, every: int, f: Punctuator, schedule: Schedule | None = None) -> None:
        self.node = node
        #: among those that its node has scheduled
        self.number = number
        self.every = every
        self.f = f
        self.schedule = schedule
        #: when it was due that it was called for last
        self.due = 0
        self.cancelled = False

    def cancel(self) -> None:
        """Stop it, also from inside its own call; calling twice is harmless."""
        self.cancelled = True

    def run_at(self, now: int) -> int:
        """Return the time that the function gets when it is called now."""
        return now if self.schedule is None else self.schedule.latest(now)

    def following(self, due: int, now: int) -> int:
        """Return when it is due after a call now, for which it was due then."""
        return following(due, self.every, now) if self.schedule is None else self.schedule.after(now)

    def resumed(self, due: int) -> int:
        """Return when it is due, after it was due then in a former life; a schedule may be another one by now."""
        return due if self.schedule is None else self.schedule.after(due - 1)


class PunctuationQueue:
    """The punctuations of one type in one task, the next one first.

    >>> queue = PunctuationQueue(PunctuationType.WALL_CLOCK_TIME)
    >>> _ = queue.schedule("node", 10, print, None, 100)
    >>> run = lambda node, f, timestamp: f(timestamp)
    >>> queue.punctuate(109, run)
    False
    >>> queue.punctuate(135, run), queue.due
    135
    (True, 140)
    """

    __slots__ = ("_kind", "_number", "_queue", "_scheduled")

    def __init__(self, kind: PunctuationType) -> None:
        self._kind = kind
        self._queue: list[tuple[int, int, Cancellable]] = []
        self._number = count().__next__
        self._scheduled: dict[str, int] = {}

    def schedule(self, node: str, every: int, f: Punctuator, start: int | None, now: int) -> Cancellable:
        """Call ``f`` every so many milliseconds; ``start`` anchors the times at which it is due."""
        if every < 1:
            raise TopologyError(f"a punctuation must be at least 1 ms apart, but every is {every}")
        if start is not None and start < 0:
            raise TopologyError(f"the start of a punctuation must not be before the epoch, but is {start}")
        punctuation = Cancellable(node, self._numbered(node, every), every, f)
        if start is not None:
            due = start if start >= now else following(start, every, now)
        elif self._kind is PunctuationType.STREAM_TIME:
            due = 0
        else:
            due = now + every
        self._push(due, punctuation)
        return punctuation

    def schedule_at(self, node: str, schedule: Schedule, f: Punctuator, now: int) -> Cancellable:
        """Call ``f`` at the times of a schedule, the first one after ``now``."""
        punctuation = Cancellable(node, self._numbered(node, 0), 0, f, schedule)
        self._push(schedule.after(now), punctuation)
        return punctuation

    def _numbered(self, node: str, every: int) -> int:
        """Return the number of a node's next punctuation; those that are due once are not counted."""
        number = self._scheduled.get(node, 0)
        if every != ONCE:
            self._scheduled[node] = number + 1
        return number

    def punctuate(self, now: int, run: Callable[[str, Punctuator, int], None]) -> bool:
        """Call ``run(node, f, now)`` for all that is due; return whether anything was."""
        queue = self._queue
        punctuated = False
        while queue and queue[0][0] <= now:
            due, _, punctuation = heappop(queue)
            if punctuation.cancelled:
                continue
            punctuation.due = due
            run(punctuation.node, punctuation.f, punctuation.run_at(now))
            if not punctuation.cancelled:
                self._push(punctuation.following(due, now), punctuation)
            punctuated = True
        return punctuated

    @property
    def waiting(self) -> list[tuple[int, int, Cancellable]]:
        """The heap itself, always the same list: a lane tests it once a record."""
        return self._queue

    @property
    def due(self) -> int | None:
        """When the next punctuation is due, or None."""
        queue = self._queue
        while queue and queue[0][2].cancelled:
            heappop(queue)
        return queue[0][0] if queue else None

    def snapshot(self) -> dict[str, Any]:
        """Return, of the punctuations that repeat, how many each node has scheduled and [node, number, due] of the next ones.

        ``next``: when the first of all is due, also of those that do not repeat, which are timers; they are in their own store.
        """
        waiting = [(due, p) for due, _, p in sorted(self._queue, key=lambda entry: entry[:2])]
        due = [[p.node, p.number, due] for due, p in waiting if not p.cancelled and p.every != ONCE]
        return {"scheduled": dict(self._scheduled), "due": due, "next": self.due}

    def resume(self, snapshot: Mapping[str, Any]) -> None:
        """Give the punctuations that the nodes have scheduled anew the times at which those of the snapshot were due.

        One that was scheduled then and is not due any more was cancelled. One that was scheduled later than ``init`` is gone
        until its node schedules it again: its function is not data.
        """
        waiting = sorted(self._queue, key=lambda entry: entry[:2])
        anew = {(p.node, p.number): p for _, _, p in waiting if p.every != ONCE}
        known = [(due, anew.pop((node, number))) for node, number, due in snapshot["due"] if (node, number) in anew]
        for punctuation in anew.values():
            punctuation.cancelled = punctuation.number < snapshot["scheduled"].get(punctuation.node, 0)
        others = [(due, p) for due, _, p in waiting if p.every == ONCE or (p.node, p.number) in anew]
        self._queue.clear()
        for due, punctuation in known:
            self._push(punctuation.resumed(due), punctuation)
        for due, punctuation in others:
            self._push(due, punctuation)

    def _push(self, due: int, punctuation: Cancellable) -> None:
        heappush(self._queue, (due, self._number(), punctuation))


def merged_snapshots(snapshots: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the snapshots of several queues as that of one."""
    shots = list(snapshots)
    return {
        "scheduled": {node: count for shot in shots for node, count in shot["scheduled"].items()},
        "due": sorted((row for shot in shots for row in shot["due"]), key=lambda row: row[2]),
        "next": min((shot["next"] for shot in shots if shot["next"] is not None), default=None),
    }


def following(due: int, every: int, now: int) -> int:
    """Return the first time of the grid due + n × every (n ≥ 1) that is after ``now``.

    >>> following(0, 10, 0), following(0, 10, 9), following(0, 10, 10), following(0, 10, 35)
    (10, 10, 20, 40)
    """
    following_due = due + every
    return due + ((now - due) // every + 1) * every if now >= following_due else following_due
