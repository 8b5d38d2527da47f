"""Time over several source partitions: the least of the greatest times seen from each.

A store and an operator may see the records of several partitions, one far ahead of another. Their time follows the
slowest, so that a fast partition never makes the records of a slow one late or expired. With one partition it is Kafka
Streams' time: the greatest seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

_PAIR = Struct(">iq")

#: the index of what no record caused: punctuation, timers
NO_PARTITION = -1
#: stands for the time of an index that is not waited for
IDLE = -2


class PartitionTimes:
    """The greatest time seen from each source partition index, and ``now``, the least of these; −1 before the first.

    >>> time = PartitionTimes()
    >>> for index, at in (0, 100), (1, 40), (0, 200), (1, 50):
    ...     time.see(index, at)
    >>> time.now, time.times
    (50, {0: 200, 1: 50})
    """

    __slots__ = ("now", "times")

    def __init__(self) -> None:
        self.now = -1
        #: always the same dict, so that closures may hold it
        self.times: dict[int, int] = {}

    def see(self, index: int, time: int) -> None:
        """Take in a time of a partition; one that is not greater than those before changes nothing.

        A time of ``NO_PARTITION`` counts as one of the only partition; where there are several it moves none of them.
        """
        times = self.times
        if index == NO_PARTITION:
            if len(times) > 1:
                return
            index = next(iter(times), NO_PARTITION)
        elif NO_PARTITION in times:
            times[index] = times.pop(NO_PARTITION)
        if time > times.get(index, -1):
            times[index] = time
            self.now = min(times.values())

    def see_all(self, times: Iterable[tuple[int, int]]) -> None:
        """Take in (index, time) pairs; negative times say nothing."""
        for index, time in times:
            if time >= 0:
                self.see(index, time)

    def meet(self, told: Iterable[tuple[int, int]]) -> None:
        """Count the indexes that are known elsewhere and not here, each from the time it has reached. Time goes back, or stays.

        Before the first time of its own it has none to go back from.
        """
        for index, time in told if self.times else ():
            if time >= 0 and index not in self.times:
                self.see(index, time)

    def take(self, told: Sequence[tuple[int, int]]) -> None:
        """Take in what is known elsewhere: a time that an index has reached, −1 if it only counts, or ``IDLE``.

        An idle index does not count until it brings a time again. Where that leaves none, the greatest time stays.

        >>> time = PartitionTimes()
        >>> time.set([(0, 100), (1, 40)])
        >>> time.take([(0, -1), (1, IDLE)])
        >>> time.now
        100
        """
        times = self.times
        idle = [index for index, time in told if time == IDLE and index in times]
        if idle and len(idle) == len(times) and all(time < 0 for _, time in told):
            idle.remove(max(idle, key=times.__getitem__))
        for index in idle:
            del times[index]
        self.see_all(told)
        self.now = min(times.values(), default=-1)

    def set(self, times: Iterable[tuple[int, int]]) -> None:
        """Put these times in the place of those before."""
        self.times.clear()
        self.times.update(times)
        self.now = min(self.times.values(), default=-1)


def time_of_all(clocks: Iterable[PartitionTimes]) -> int:
    """Return the time of several clocks taken as one: the least over the indexes of the greatest that any of them has seen.

    It is not the greatest of their times: an index that only one of them knows, or still waits for, counts.

    >>> one, other = PartitionTimes(), PartitionTimes()
    >>> one.set([(0, 100)])
    >>> other.set([(0, 40), (1, 70)])
    >>> time_of_all([one, other])
    70
    """
    greatest: dict[int, int] = {}
    for clock in clocks:
        for index, time in clock.times.items():
            if time > greatest.get(index, -1):
                greatest[index] = time
    if (
        NO_PARTITION in greatest and len(greatest) > 1
    ):  # as in ``see``: it may move the only partition, and none of several
        of_none = greatest.pop(NO_PARTITION)
        if len(greatest) == 1:
            return max(of_none, *greatest.values())
    return min(greatest.values(), default=-1)


def pack_times(times: Iterable[tuple[int, int]]) -> bytes:
    """Return (index, time) pairs as bytes.

    >>> list(parse_times(pack_times([(0, 7), (2, 5)])))
    [(0, 7), (2, 5)]
    """
    return b"".join(_PAIR.pack(index, time) for index, time in times)


def parse_times(data: bytes | None) -> Iterable[tuple[int, int]]:
    """Read what ``pack_times`` wrote; nothing from None."""
    return () if data is None else _PAIR.iter_unpack(data)
