"""One epoch's rows of a segmented store, above its base: by key, and by time where the store keeps an index by time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, TypeAlias

from penstock.record import Headers

#: (value bytes or None for a delete, timestamp, headers, origin of the writer, number of the write); as in ``write_back``
Entry: TypeAlias = tuple[bytes | None, int, Headers, Any, int]
#: the rows of one key in one layer: sorted positions, and the entry of each
KeyRows: TypeAlias = tuple[list[Any], dict[Any, Entry]]
#: (key bytes, position, value bytes, timestamp)
Found: TypeAlias = tuple[bytes, Any, bytes, int]


class Layer:
    """The rows of one epoch. ``times`` is filled only where there is an index by time.

    Invariant: the dict ``keys`` is the same object for ever, so that closures may hold its bound methods.
    """

    __slots__ = ("at", "keys", "times")

    def __init__(self) -> None:
        self.keys: dict[bytes, KeyRows] = {}
        self.times: list[int] = []  # sorted, each once
        self.at: dict[int, list[tuple[bytes, Any]]] = {}

    def take(self) -> Layer:
        """Move all rows to a new layer and return it."""
        taken = Layer()
        taken.keys.update(self.keys)
        taken.times, taken.at = self.times, self.at
        self.keys.clear()
        self.times, self.at = [], {}
        return taken

    def find(self, key: bytes, position: Any) -> Entry | None:
        """Return the entry of a row, or None where this epoch did not touch it."""
        rows = self.keys.get(key)
        return None if rows is None else rows[1].get(position)

    def index(self, time: int, key: bytes, position: Any) -> None:
        """Remember a new row by its time."""
        rows = self.at.get(time)
        if rows is None:
            self.at[time] = [(key, position)]
            insort(self.times, time)
        else:
            rows.append((key, position))

    def between(self, since: int, until: int) -> Iterator[tuple[bytes, Any]]:
        """Iterate the rows of a span of time, where there is an index."""
        for time in self.times[bisect_left(self.times, since) : bisect_right(self.times, until)]:
            yield from self.at[time]

    def rows(self) -> Iterator[tuple[bytes, Any]]:
        """Iterate all rows."""
        for key, (positions, _) in self.keys.items():
            for position in positions:
                yield key, position


def merge(
    upper: list[tuple[bytes, tuple[bytes, Any, Entry]]], base: Iterator[tuple[bytes, Found]], reverse: bool
) -> Iterator[Found]:
    """Merge two runs sorted alike; where both know a row, the upper one speaks."""
    below = next(base, None)
    for sort_key, (key, position, entry) in upper:
        while below is not None and (below[0] > sort_key if reverse else below[0] < sort_key):
            yield below[1]
            below = next(base, None)
        if below is not None and below[0] == sort_key:
            below = next(base, None)
        if entry[0] is not None:
            yield key, position, entry[0], entry[1]
    while below is not None:
        yield below[1]
        below = next(base, None)
