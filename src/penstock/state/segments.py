"""Segments: the base maps of a window or session store, one per span of time, found again by their names.

::

    <store>               numbers: the store's times, the last sequence number, the last window emitted on close
    <store>/<segment>     key position → value; ``segment`` is time // interval
    <store>/<segment>/t   the same rows, time first, without values (only where ``time_ordered``)
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.state.base import BytesStore, Sealed, ShardState
from penstock.state.keys import pack_time, unpack_time
from penstock.state.partition_times import parse_times
from penstock.state.positions import Positions
from penstock.state.spec import StoreSpec

OBSERVED, SEQUENCE, EMITTED = b"observed", b"sequence", b"emitted"


def segment_interval(spec: StoreSpec) -> int:
    """Return the length of a segment: half the retention, at least a minute."""
    return spec.segment_interval or max((spec.retention or 0) // 2, 60_000)


class Segments:
    """The segments of one store in one shard. ``live`` holds them by number."""

    def __init__(self, spec: StoreSpec, state: ShardState, positions: Positions) -> None:
        self.interval = segment_interval(spec)
        self.live: dict[int, BytesStore] = {}
        self._name = spec.name
        self._state = state
        self._positions = positions
        for name in state.names():
            self._add(name)

    def between(self, since: int, until: int) -> list[tuple[int, BytesStore]]:
        """Return the segments that may hold rows of this span, oldest first."""
        first, last = since // self.interval, until // self.interval
        return [(number, self.live[number]) for number in sorted(self.live) if first <= number <= last]

    def by_time(self, number: int) -> BytesStore:
        """Return a segment's index by time."""
        return self._state.map(self.time_name(number))

    def apply(self, sealed: Sealed) -> None:
        """Write a committed epoch and learn which segments there are now."""
        sealed.write_to(self._state, self._name)
        for name in sealed.drops:
            self.live.pop(self._number(name), None)
        for name in sealed.side:
            self._add(name)

    def number(self, name: bytes, default: int) -> int:
        """Return one of the store's numbers as of the last barrier."""
        stored = self._state.map(self._name).get(name)
        return default if stored is None else unpack_time(stored)

    def times(self) -> Iterable[tuple[int, int]]:
        """Return the store's time by partition index as of the last barrier."""
        return parse_times(self._state.map(self._name).get(OBSERVED))

    def newest(self) -> int:
        """Find the time of the newest row; −1 where there is none. It reads a whole segment: only after a restore."""
        parse, time_of = self._positions.parse, self._positions.time
        for number in sorted(self.live, reverse=True):
            times = [time_of(parse(row)[1]) for row, _ in self.live[number].range(None, None)]
            if times:
                return max(times)
        return -1

    def name(self, number: int) -> str:
        """Return the name of a segment's map."""
        return f"{self._name}/{number}"

    def time_name(self, number: int) -> str:
        """Return the name of the map that holds a segment's index by time."""
        return f"{self._name}/{number}/t"

    def _add(self, name: str) -> None:
        number = self._number(name)
        if number >= 0 and number not in self.live:
            self.live[number] = self._state.map(name)

    def _number(self, name: str) -> int:
        tail = name[len(self._name) + 1 :] if name.startswith(self._name + "/") else ""
        return int(tail) if tail.isdigit() else -1


def restore_rows(
    spec: StoreSpec, positions: Positions, row: bytes, value: bytes | None, timestamp: int
) -> list[tuple[str, bytes, bytes | None]]:
    """Return what a changelog row is in the base: (map name, key, value or None) each."""
    key, position = positions.parse(row)
    segment = f"{spec.name}/{positions.time(position) // segment_interval(spec)}"
    kept = pack_time(timestamp) + value if spec.timestamped and value is not None else value
    # without its number, the store finds its time again from the newest row
    rows: list[tuple[str, bytes, bytes | None]] = [(segment, row, kept), (spec.name, OBSERVED, None)]
    if spec.time_ordered:
        rows.append((segment + "/t", positions.by_time(key, position), None if value is None else b""))
    if spec.retain_duplicates:
        rows.append((spec.name, SEQUENCE, pack_time(position[1])))
    return rows
