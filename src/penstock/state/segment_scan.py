"""One look over the rows of many keys in a segmented store: segment by segment, the layers of the epoch above the base."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.state.base import BytesStore
from penstock.state.keys import MAX_TIME, pack_time
from penstock.state.layer import Entry, Found, merge
from penstock.state.positions import Positions
from penstock.state.segments import Segments

#: rows of the layers above the base: segment → sort key → (key, position, entry)
Above: TypeAlias = Mapping[int, Mapping[bytes, tuple[bytes, Any, Entry]]]


@dataclass(frozen=True, slots=True)
class SegmentScan:
    """Which rows are looked for, bounds included, and in which order.

    ``by_time``: by time, then key (session: start, then key); else by segment, then the row's bytes.
    """

    segments: Segments
    positions: Positions
    #: value and timestamp of a base row
    unpack: Callable[[bytes], tuple[bytes, int]]
    #: there is an index by time
    indexed: bool
    since: int
    until: int
    lower: bytes | None
    upper: bytes | None
    reverse: bool
    by_time: bool

    def sort_key(self, key: bytes, position: Any) -> bytes:
        """Return what a row of a segment is ordered by."""
        return self.positions.by_time(key, position) if self.by_time else key + self.positions.suffix(position)

    def rows(self, above: Above) -> Iterator[Found]:
        """Iterate the rows, as of the call."""
        numbers = {number for number, _ in self.segments.between(self.since, self.until)}.union(above)
        return self._rows(sorted(numbers, reverse=self.reverse), above)

    def _rows(self, numbers: list[int], above: Above) -> Iterator[Found]:
        for number in numbers:
            upper = sorted(above.get(number, {}).items(), key=_first, reverse=self.reverse)
            segment = self.segments.live.get(number)
            yield from merge(upper, iter(()) if segment is None else self._base(number, segment), self.reverse)

    def _base(self, number: int, segment: BytesStore) -> Iterator[tuple[bytes, Found]]:
        """Iterate a segment's rows as (sort key, row)."""
        if self.by_time and self.indexed:
            return self._base_by_time(number, segment)
        rows = self._base_by_key(number, segment)
        if not self.by_time:
            return rows
        return iter(sorted(((self.sort_key(r[0], r[1]), r) for _, r in rows), key=_first, reverse=self.reverse))

    def _base_by_key(self, number: int, segment: BytesStore) -> Iterator[tuple[bytes, Found]]:
        since, until, lower, upper = self.since, self.until, self.lower, self.upper
        last = min(until, (number + 1) * self.segments.interval - 1)
        end = None if upper is None else self._last_row(upper, last) + b"\0"
        parse, time_of, unpack = self.positions.parse, self.positions.time, self.unpack
        for row, raw in segment.range(lower, end, self.reverse and not self.by_time):
            key, position = parse(row)
            if (
                since <= time_of(position) <= until
                and (lower is None or lower <= key)
                and (upper is None or key <= upper)
            ):
                yield row, (key, position, *unpack(raw))

    def _base_by_time(self, number: int, segment: BytesStore) -> Iterator[tuple[bytes, Found]]:
        lower, upper, unpack = self.lower, self.upper, self.unpack
        parse, suffix = self.positions.parse_by_time, self.positions.suffix
        end = None if self.until >= MAX_TIME else pack_time(self.until + 1)
        for row, _ in self.segments.by_time(number).range(pack_time(self.since), end, self.reverse):
            key, position = parse(row)
            if (lower is None or lower <= key) and (upper is None or key <= upper):
                raw = segment.get(key + suffix(position))
                name = self.segments.name(number)
                assert raw is not None, f"{name!r}: the index by time names a row that is not there"
                yield row, (key, position, *unpack(raw))

    def _last_row(self, key: bytes, time: int) -> bytes:
        """Return a row that no row of a key <= ``key`` sorts behind: the suffix of a shorter key may reach past it."""
        suffix = self.positions.suffix(self.positions.last(time))
        return max(key[:size] + suffix for size in range(len(key) + 1))


def _first(row: tuple[Any, Any]) -> Any:
    return row[0]
