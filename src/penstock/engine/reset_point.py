"""Where an application that was reset begins to read: a point in all of its input topics, as Kafka's reset tool has them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.log.base import Admin, Offsets, TopicPartition


class ResetPoint(NamedTuple):
    """A point in every partition. ``kind``: earliest, latest, offset, time; ``number``: the offset, or milliseconds."""

    kind: str
    number: int = 0

    @staticmethod
    def earliest() -> ResetPoint:
        """The first record that there is."""
        return ResetPoint("earliest")

    @staticmethod
    def latest() -> ResetPoint:
        """Behind the last record that there is now."""
        return ResetPoint("latest")

    @staticmethod
    def offset(number: int) -> ResetPoint:
        """This offset, in every partition; the nearest one where there is none such."""
        return ResetPoint("offset", number)

    @staticmethod
    def time(ms: int) -> ResetPoint:
        """The first record that is not older than this; behind the last one where all are."""
        return ResetPoint("time", ms)

    def positions(self, admin: Admin, places: Iterable[TopicPartition]) -> Offsets:
        """Return the next offset to read of each partition."""
        places = list(places)
        first, last = admin.earliest_offsets(places), admin.stable_offsets(places)
        if self.kind == "earliest":
            return first
        if self.kind == "offset":
            return {place: min(max(self.number, first[place]), last[place]) for place in places}
        if self.kind == "time":
            found = admin.offsets_for_times(dict.fromkeys(places, max(0, self.number)))
            return {place: last[place] if at is None else min(at, last[place]) for place, at in found.items()}
        return last
