"""Which record comes next: one queue per source partition, the one with the smallest head timestamp first.

Kafka leaves the order of equal timestamps open, but its driver always gives the same one: that of Java's binary heap. Results are
compared record by record, so this heap sifts as that one does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from penstock.lane.source import Raw
from penstock.testing.record_tasks import Decoded


class RecordQueue:
    """The records of one source partition in offset order; only the head is decoded."""

    def __init__(self, read: Callable[[Raw, int], Decoded | None]) -> None:
        self._read = read
        self._raw: deque[Raw] = deque()
        self._partition_time = -1
        self.head: Decoded | None = None

    def add(self, raw: Raw) -> bool:
        """Add a record; True if there was no head and now there is."""
        self._raw.append(raw)
        if self.head is not None:
            return False
        self._next_head()
        return self.head is not None

    def poll(self) -> Decoded:
        """Take the head out."""
        head = self.head
        assert head is not None
        self.head = None
        self._partition_time = max(self._partition_time, head.timestamp)
        self._next_head()
        return head

    def _next_head(self) -> None:
        while self.head is None and self._raw:
            self.head = self._read(self._raw.popleft(), self._partition_time)


class QueueHeap:
    """A binary heap of queues by the timestamp of their heads."""

    def __init__(self) -> None:
        self._queues: list[RecordQueue] = []

    def __bool__(self) -> bool:
        return bool(self._queues)

    def offer(self, queue: RecordQueue) -> None:
        """Add a queue that has a head."""
        queues = self._queues
        queues.append(queue)
        index = len(queues) - 1
        while index > 0:
            parent = (index - 1) // 2
            if _time(queue) >= _time(queues[parent]):
                break
            queues[index] = queues[parent]
            index = parent
        queues[index] = queue

    def poll(self) -> RecordQueue:
        """Take out the queue with the smallest head timestamp."""
        queues = self._queues
        first, last = queues[0], queues.pop()
        if queues:
            self._sift_down(last)
        return first

    def _sift_down(self, queue: RecordQueue) -> None:
        queues, index = self._queues, 0
        half = len(queues) // 2
        while index < half:
            child = 2 * index + 1
            if child + 1 < len(queues) and _time(queues[child]) > _time(queues[child + 1]):
                child += 1
            if _time(queue) <= _time(queues[child]):
                break
            queues[index] = queues[child]
            index = child
        queues[index] = queue


def _time(queue: RecordQueue) -> int:
    assert queue.head is not None
    return queue.head.timestamp
