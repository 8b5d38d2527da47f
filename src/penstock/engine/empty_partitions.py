"""How long records wait for partitions without any (``max_task_idle_ms``), so that records that meet do so in order of time.

As in Kafka Streams a partition counts as empty from when it is first seen so, and is waited for so long, once. What is
known to be on the broker is always read with the rest: with -1 and 0 nothing waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.log.base import TopicPartition


class EmptyPartitions:
    """Knows since when partitions are empty. ``group_of``: source → sources whose records can meet; None: they do not.

    >>> empty = EmptyPartitions({"left": "both", "right": "both"}, idle_ms=100)
    >>> source_of, places = {"a": "left", "b": "right"}, [("a", 0), ("b", 0)]
    >>> [empty.admit({("a", 0): 5}, places, source_of, now) for now in (0, 99, 100)]
    [{}, {}, {('a', 0): 5}]
    """

    def __init__(self, group_of: Mapping[str, str], idle_ms: int) -> None:
        self._group_of = group_of
        self._idle_ms = idle_ms
        self._since: dict[TopicPartition, int] = {}

    def admit(
        self,
        waiting: Mapping[TopicPartition, int],
        places: Iterable[TopicPartition],
        source_of: Mapping[str, str],
        now: int,
    ) -> dict[TopicPartition, int]:
        """Return what may be read now of what waits."""
        if self._idle_ms <= 0:
            return dict(waiting)
        held: set[str] = set()
        for place in places:
            if waiting.get(place):
                self._since.pop(place, None)
            elif now - self._since.setdefault(place, now) < self._idle_ms:
                group = self._group_of.get(source_of[place[0]])
                held |= {group} if group is not None else set()
        return {place: n for place, n in waiting.items() if self._group_of.get(source_of[place[0]]) not in held}
