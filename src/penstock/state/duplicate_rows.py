"""The rows of a window store that keeps duplicates, which many records may put at a time, and find at a time.

What was put so stays a *delta* until somebody asks for single rows: the records of a join by column look for their matches in the
deltas of the epoch, and what of them has not expired at the barrier is sealed by column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.batch.fallback import Fallback
from penstock.batch.grouping import key_order
from penstock.state.base import BytesStore, Sealed, ShardState
from penstock.state.batch_delta import ChangelogColumns
from penstock.state.bulk import SortedRows, are_short
from penstock.state.delta import DeltaLayer, StoreDelta, joined
from penstock.state.keys import MAX_TIME
from penstock.state.layer import Entry, Layer
from penstock.state.positions import DUPLICATES
from penstock.state.segment_scan import SegmentScan
from penstock.state.segmented import LogRow, Segmented
from penstock.state.spec import StoreSpec

#: pairs that are looked at in one go; where each record meets so many others columns would only cost memory
MOST_PAIRS = 1 << 22
_BEFORE = -1
#: rows of the base that are read as a whole cost so much less than those of a key that is looked up
_WHOLE = 16
_NO_ROWS = pa.array([], pa.binary()), np.zeros(0, np.int64), pa.array([], pa.binary()), np.zeros(0, np.int64)


class SpanQuery(NamedTuple):
    """What records ask for: the rows of a key that start in a span of time, as they are at a place."""

    keys: pa.Array
    places: Any
    since: Any
    until: Any


class Matches(NamedTuple):
    """Rows that were found: which record asked for each, its start, its value, which of the published ones it is (negative: none of them).

    In the order of the asking records; of each in that of starts, then of putting.
    """

    at: Any
    starts: Any
    values: pa.Array
    published: Any


class DuplicateRows(Segmented):
    """The layers and segments of a store that keeps duplicates; above these, the deltas of the epoch.

    Invariant: a delta is newer than all single rows. Whoever asks for single rows makes them of the deltas first.
    """

    def __init__(self, spec: StoreSpec, state: ShardState) -> None:
        super().__init__(spec, state, DUPLICATES)
        self.deltas: list[StoreDelta] = []

    # ---- single rows

    def spill(self) -> None:
        """Make single rows of those of deltas."""
        deltas, self.deltas = self.deltas, []
        for delta in deltas:
            for key, position, entry in delta.entries():
                super().put(key, position, entry)

    def get(self, key: bytes, position: Any) -> tuple[bytes, int] | None:
        """Return (value, timestamp) of a row."""
        self.spill()
        return super().get(key, position)

    def put(self, key: bytes, position: Any, entry: Entry) -> None:
        """Write a row."""
        if self.deltas:
            self.spill()
        super().put(key, position, entry)

    def of_key(self, key: bytes, since: int, until: int) -> list[tuple[Any, bytes, int]]:
        """Return (position, value, timestamp) of one key's rows."""
        if self.deltas:
            self.spill()
        return super().of_key(key, since, until)

    def _above(self, scan: SegmentScan) -> dict[int, dict[bytes, tuple[bytes, Any, Entry]]]:
        self.spill()
        return super()._above(scan)

    # ---- rows by column

    def limits_of(self, times: Any) -> tuple[Any, Any]:
        """Return from when on, at times of the store, puts are taken, and reads see rows."""
        ends = times - self.retention
        oldest = ends // self.interval * self.interval if self.spec.persistent else ends + 1
        return np.maximum(oldest, 0), ends + self._slack

    def lay(self, delta: StoreDelta) -> None:
        """Write the rows of a delta."""
        self.deltas.append(delta)

    def find(self, asked: SpanQuery, published: StoreDelta | None, times: Any) -> Matches | None:
        """Return the rows that records find, those of ``published`` in front of their places included; None: nobody finds any.

        ``times``: of the store, at each record.
        """
        _, bound = self.limits_of(times)
        since = np.maximum(np.maximum(asked.since, bound), 0)
        first, last = int(since.min()), int(asked.until.max())
        parts = [self._single(asked._replace(since=since))]
        parts += [(s.keys, s.starts, s.values, np.full(len(s.starts), _BEFORE)) for s in self.deltas]
        if published is not None:
            parts.append((published.keys, published.starts, published.values, np.arange(len(published.starts))))
        parts = [part for part in (_between(part, first, last) for part in parts) if len(part[1])]
        if not parts:
            return None
        keys, starts, values, numbers = zip(*parts, strict=True)
        at, chosen = _pairs(pa.concat_arrays(keys), np.concatenate(starts), asked._replace(since=since))
        number = np.concatenate(numbers)[chosen]
        if published is not None and len(published.places):
            in_front = (number < 0) | (published.places[number] < asked.places[at])
            at, chosen, number = at[in_front], chosen[in_front], number[in_front]
        if not len(at):
            return None
        found = pa.concat_arrays(values).take(pa.array(chosen))
        return Matches(at, np.concatenate(starts)[chosen], found, number)

    def _single(self, asked: SpanQuery) -> tuple[pa.Array, Any, pa.Array, Any]:
        """Return the rows of the layers and the base that may be among those that are asked for."""
        below = self._asked_below(asked)
        count = int(below.sum())
        if not count:
            return _NO_ROWS
        since, until = asked.since[below], asked.until[below]
        segments = [segment for _, segment in self.segments.between(max(int(since.min()), 0), int(until.max()))]
        read_whole = not (self.pending or self.dirty.keys)
        if read_whole and sum(segment.count() for segment in segments) <= _WHOLE * count:
            return self._rows_of(segments, int(since.min()), int(until.max()))
        keys = asked.keys.filter(pa.array(below)).to_pylist()
        return self._of_keys(zip(keys, since.tolist(), until.tolist(), strict=True))

    def _rows_of(self, segments: list[BytesStore], since: int, until: int) -> tuple[pa.Array, Any, pa.Array, Any]:
        """Return the rows of segments that start in a span of time, whatever their keys."""
        rows = [row for segment in segments for row in segment.range(None, None)]
        starts = np.frombuffer(b"".join([name[-12:-4] for name, _ in rows]), ">i8").astype(np.int64)
        inside = (starts >= since) & (starts <= until)
        if not inside.all():
            starts, rows = starts[inside], list(compress(rows, inside.tolist()))
        values = [self._unpack(raw)[0] for _, raw in rows] if self.stamped else [raw for _, raw in rows]
        keys = pa.array([name[:-12] for name, _ in rows], pa.binary())
        return keys, starts, pa.array(values, pa.binary()), np.full(len(rows), _BEFORE)

    def _of_keys(self, asked: Iterable[tuple[bytes, int, int]]) -> tuple[pa.Array, Any, pa.Array, Any]:
        """Return the rows of keys, each in a span of time."""
        spans: dict[bytes, tuple[int, int]] = {}
        for key, since, until in asked:
            known = spans.get(key)
            spans[key] = (since, until) if known is None else (min(since, known[0]), max(until, known[1]))
        keys: list[bytes] = []
        found: list[tuple[Any, bytes, int]] = []
        for key, span in spans.items():
            rows = super().of_key(key, *span)
            found += rows
            keys += [key] * len(rows)
        starts = np.array([position[0] for position, _, _ in found], dtype=np.int64)
        values = pa.array([value for _, value, _ in found], pa.binary())
        return pa.array(keys, pa.binary()), starts, values, np.full(len(keys), _BEFORE)

    def _asked_below(self, asked: SpanQuery) -> Any:
        """Return which records ask for single rows: those that are newer than all of these find nothing there."""
        below = asked.since <= self._newest_below()
        if self.dirty.keys:
            known = self.dirty.keys
            below |= np.fromiter((key in known for key in asked.keys.to_pylist()), bool, len(below))
        return below

    def _newest_below(self) -> int:
        """Return a time that no row of the base, nor of a sealed epoch, is newer than; −1: there is none."""
        if self.pending:
            return MAX_TIME
        if not self.segments.live:
            return -1
        last = max(self.segments.live)
        return self.newest if self.newest // self.interval == last else (last + 1) * self.interval - 1

    # ---- the barrier

    def seal(self, *, logged: bool, never_was: Callable[[bytes, Any], bool] | None = None) -> Sealed:
        """Hand out the rows of the epoch; if all of them are of deltas, by column."""
        if super()._has_rows() or any(delta.headers is not None for delta in self.deltas):
            self.spill()
        return super().seal(logged=logged, never_was=never_was)

    def _has_rows(self) -> bool:
        return bool(self.deltas) or super()._has_rows()

    def _newest_row(self) -> int:
        return max((int(delta.starts.max()) for delta in self.deltas), default=super()._newest_row())

    def _take_rows(self) -> Layer:
        deltas, self.deltas = self.deltas, []
        return DeltaLayer(deltas) if deltas else super()._take_rows()

    def _write_rows(self, sealed: Sealed, layer: Layer, logged: bool) -> Collection[LogRow]:
        if not self.deltas:
            return super()._write_rows(sealed, layer, logged)
        whole = joined(self.deltas)
        delta = whole.where(whole.starts >= self._sealable() // self.interval * self.interval)
        names, numbers = delta.names(), delta.starts // self.interval
        for number in np.unique(numbers).tolist():
            mine = pa.array(numbers == number)
            rows, values = names.filter(mine), delta.values.filter(mine)
            order = pa.array(key_order(rows))
            written = SortedRows(rows.take(order), values.take(order))
            plain = are_short(written.names)
            sealed.side[self.segments.name(number)] = written if plain else list(written)
        return ChangelogColumns(names, delta.values, delta.times) if logged and len(names) else []


def _between(part: tuple[pa.Array, Any, pa.Array, Any], first: int, last: int) -> tuple[pa.Array, Any, pa.Array, Any]:
    """Return the rows of a span of time."""
    keys, starts, values, numbers = part
    inside = (starts >= first) & (starts <= last)
    if inside.all():
        return part
    mask = pa.array(inside)
    return keys.filter(mask), starts[inside], values.filter(mask), numbers[inside]


def _pairs(keys: pa.Array, starts: Any, asked: SpanQuery) -> tuple[Any, Any]:
    """Return which records ask for which rows, whatever their places: places of both, by record, start, and place of the row.

    >>> asked = SpanQuery(pa.array([b"a", b"b"]), None, np.array([0, 5]), np.array([4, 9]))
    >>> [found.tolist() for found in _pairs(pa.array([b"a", b"b", b"a", b"a"]), np.array([4, 7, 9, 0]), asked)]
    [[0, 0, 1], [3, 0, 1]]
    """
    codes = pa.concat_arrays([keys, asked.keys]).dictionary_encode().indices.to_numpy().astype(np.int64)
    mine, theirs = codes[: len(keys)], codes[len(keys) :]
    base, span = int(starts.min()), int(starts.max()) - int(starts.min()) + 2
    if (int(codes.max()) + 1) * span >= 1 << 62:
        raise Fallback("span_too_long")
    spots = mine * span + (starts - base)
    order = np.argsort(spots, kind="stable")
    spots = spots[order]
    begin = np.searchsorted(spots, theirs * span + np.clip(asked.since - base, 0, span - 1))
    end = np.searchsorted(spots, theirs * span + np.clip(asked.until - base, -1, span - 2), side="right")
    counts = np.maximum(end - begin, 0)
    total = int(counts.sum())
    if total > MOST_PAIRS:
        raise Fallback("too_many_pairs")
    at = np.repeat(np.arange(len(counts)), counts)
    offsets = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return at, order[offsets + np.repeat(begin, counts)]
