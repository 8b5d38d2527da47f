"""The time at a node or of a store, as its task tells it. What it is made of: ``lane.timeline``."""

from __future__ import annotations


class EventTime:
    """How far event time has come for a node: the partition times of what feeds it (section 6 of the design).

    ``hold``: how far behind its sources the records of the node may be, because a node before it holds results back.
    ``now`` is −1 before the first record.

    >>> time = EventTime(hold=10)
    >>> time.reach(25), time.now
    (None, 15)
    """

    __slots__ = ("hold", "now")

    def __init__(self, hold: int = 0) -> None:
        self.hold = hold
        self.now = -1

    def reach(self, time: int) -> None:
        """Observe how far the sources have come."""
        self.now = time if time < 0 or not self.hold else max(time - self.hold, 0)
