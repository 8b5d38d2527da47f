"""Rows by key and time: the bytes below window and session stores.

::

    dirty     this epoch's rows                            ┐ the first layer that
    pending   sealed epochs that are not applied yet       │ knows a row speaks
    base      one map per segment of time (``segments``)   ┘

A *position* names a row among those of its key (``positions``): the start of a window, (start, sequence) where
duplicates are kept, (end, start) of a session. A segment expires as a whole, by dropping its map.

Which rows are live is Kafka Streams' rule, by the store's time: the greatest time that was ever put, over all shards. A task tells it
(``clock``, and the time of a put at such a time); a store that is opened by itself goes by what was put into it:

- in the default (persistent) store a put is refused once its *segment* is wholly older than the retention, and reads
  end at exactly the retention; a ``time_ordered`` window store reads one millisecond further back;
- in an in-memory store both end at exactly the retention;
- a cached window store reads on to the end of its oldest segment, a cached session store to the end of the oldest
  segment of *twice* the retention: what is past the retention is still in Kafka's cache, and the operators count on it.
  A store of sessions is kept for gap + grace, but a record that is behind by gap + grace is not late yet, and belongs
  to a session that ended another gap earlier.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

from penstock.record import Headers
from penstock.state.base import Sealed, ShardState
from penstock.state.event_time import EventTime
from penstock.state.keys import MAX_TIME, pack_time, unpack_time
from penstock.state.layer import Entry, Found, Layer
from penstock.state.partition_times import pack_times
from penstock.state.positions import WINDOW, Positions
from penstock.state.segment_scan import SegmentScan
from penstock.state.segments import EMITTED, OBSERVED, SEQUENCE, Segments
from penstock.state.spec import StoreKind, StoreSpec

#: a row of the changelog: (key, value or None, timestamp, headers)
LogRow: TypeAlias = tuple[bytes, bytes | None, int, Headers]


#: segments with so many rows for each key that is asked for are read as a whole
_WHOLE = 4


class Segmented:
    """The layers and segments of one store of one shard."""

    def __init__(self, spec: StoreSpec, state: ShardState, positions: Positions) -> None:
        assert spec.retention is not None, f"store {spec.name!r} needs a retention"
        self.spec = spec
        self.name = spec.name
        self.retention = spec.retention
        self.positions = positions
        self.stamped = spec.timestamped
        #: iteration over several keys goes by time (Kafka: in-memory, time-ordered), not by segment and key
        self.by_time = spec.time_ordered or not spec.persistent
        self.dirty = Layer()
        self.pending: list[tuple[Sealed, Layer]] = []
        #: rows of single keys read from the base: (since, positions, rows); empty again whenever an epoch ends. A reader that many
        #: threads ask, for any time, keeps none
        self.keeps_read = True
        self._read: dict[bytes, tuple[int, list[Any], list[tuple[Any, bytes, int]]]] = {}
        #: changelog rows of puts that left nothing in the store; Kafka logs these too, where duplicates are kept
        self.only_logged: list[LogRow] = []
        self.sequence = 0
        #: position up to which windows were emitted on close
        self.emitted = -1
        #: whether somebody asks for ``earliest``; no row after ``emitted`` is older than ``_least`` (None: not known)
        self.watched = False
        self._least: int | None = None
        #: the greatest time of a row that was ever written
        self.newest = -1
        #: the time of the nodes that write here, and that of their writes at such a time; None: time is the greatest that was put
        self.clock: EventTime | None = None
        self.put_time: Callable[[int], int] = _same
        self._slack = 0 if spec.time_ordered and spec.persistent and spec.kind is StoreKind.WINDOW else 1
        self._reads_on = bool(spec.cached) and spec.persistent and not spec.retain_duplicates
        self._kept_for = self.retention * (2 if self._reads_on and spec.kind is StoreKind.SESSION else 1)
        #: from when on rows are sealed, if later steps of the epoch read them, at earlier times than that at its end
        self._sealed_from: int | None = None
        self.segments = Segments(spec, state, positions)
        self.interval = self.segments.interval
        self._reach(-1)
        self._read_numbers()
        self._stored = self._numbers()
        if self.observed < 0 and self.segments.live:  # restored from the changelog
            self._reach(self.segments.newest())

    # ---- time

    def observe(self, time: int) -> bool:
        """Observe the time of a put; say whether a row of that time may still be put."""
        if self.clock is not None:
            self.reach()
        elif time > self.observed:
            self._reach(time)
        return time >= self.oldest

    def reach(self) -> None:
        """Advance the store to the time of the clock."""
        if self.clock is not None and self.clock.now >= 0:
            time = self.put_time(self.clock.now)
            if time != self.observed:
                self._reach(time)

    def _reach(self, time: int) -> None:
        self.observed = time
        #: puts are taken, rows are in the base, and reads see rows from here on
        self.oldest, self.kept, self.bound = self.limits(time)

    def limits(self, time: int) -> tuple[int, int, int]:
        """Return from when on, at a time of the store, puts are taken, rows are in the base, and reads see rows."""
        end = time - self.retention
        oldest = max(0, end // self.interval * self.interval if self.spec.persistent else end + 1)
        kept = max(0, (time - self._kept_for) // self.interval * self.interval) if self._reads_on else oldest
        return oldest, kept, min(kept, end + self._slack) if self._reads_on else end + self._slack

    def keep_for_later(self) -> None:
        """Seal what is kept now: later steps of the epoch begin at this time again."""
        self._sealed_from = self.kept

    def _sealable(self) -> int:
        return self.kept if self._sealed_from is None else self._sealed_from

    def earliest(self) -> int | None:
        """Return the time of the first row after ``emitted``, or an older one; None if there is no row."""
        if self._least is None or self._least <= self.emitted:
            first = next(self.scan(self.emitted + 1, MAX_TIME, by_time=True, expired=True), None)
            self._least = MAX_TIME if first is None else self.positions.time(first[1])
        return None if self._least == MAX_TIME else self._least

    # ---- one row

    def get(self, key: bytes, position: Any) -> tuple[bytes, int] | None:
        """Return (value, timestamp) of a row; −1 where the base keeps no timestamp. The caller checks ``bound``."""
        rows = self.dirty.keys.get(key)
        if rows is not None:
            entry = rows[1].get(position)
            if entry is not None:
                return None if entry[0] is None else (entry[0], entry[1])
        return self.before(key, position)

    def get_many(self, keys: list[bytes], position: Any) -> list[tuple[bytes, int] | None]:
        """Return what ``get`` returns of each key, at one position; the segment is asked once."""
        if self.pending:
            return [self.get(key, position) for key in keys]
        known = self.dirty.keys
        above = (
            [rows[1].get(position) if (rows := known.get(key)) is not None else None for key in keys] if known else []
        )
        if not any(above):
            return self._base_of_many(keys, position)
        below = iter(
            self._base_of_many([key for key, entry in zip(keys, above, strict=True) if entry is None], position)
        )
        return [next(below) if e is None else None if e[0] is None else (e[0], e[1]) for e in above]

    def _base_of_many(self, keys: list[bytes], position: Any) -> list[tuple[bytes, int] | None]:
        segment = self.segments.live.get(self.positions.time(position) // self.interval)
        if segment is None:
            return [None] * len(keys)
        suffix, unpack = self.positions.suffix(position), self._unpack
        found = segment.get_many([key + suffix for key in keys])
        return [None if raw is None else unpack(raw) for raw in found]

    def before(self, key: bytes, position: Any) -> tuple[bytes, int] | None:
        """Return what a reader saw before this epoch."""
        for _, layer in reversed(self.pending):
            entry = layer.find(key, position)
            if entry is not None:
                return None if entry[0] is None else (entry[0], entry[1])
        segment = self.segments.live.get(self.positions.time(position) // self.interval)
        if segment is None:
            return None
        raw = segment.get(key + self.positions.suffix(position))
        return None if raw is None else self._unpack(raw)

    def put(self, key: bytes, position: Any, entry: Entry) -> None:
        """Write a row (or, with an entry without a value, delete it) into the dirty layer."""
        dirty = self.dirty
        rows = dirty.keys.get(key)
        if rows is None:
            dirty.keys[key] = [position], {position: entry}
        else:
            positions, entries = rows
            if position in entries:
                entries[position] = entry
                return
            if position > positions[-1]:
                positions.append(position)
            else:
                insort(positions, position)
            entries[position] = entry
        if self.watched and self._least is not None:
            self._least = min(self._least, self.positions.time(position))
        if self.spec.time_ordered:
            dirty.index(self.positions.time(position), key, position)

    def put_many(self, keys: list[bytes], positions: list[Any], entries: list[Entry]) -> None:
        """Write many rows as ``put`` does."""
        put, known = self.put, self.dirty.keys
        plain = not self.spec.time_ordered and not self.watched
        for key, position, entry in zip(keys, positions, entries, strict=True):
            if plain and key not in known:
                known[key] = [position], {position: entry}
            else:
                put(key, position, entry)

    # ---- the rows of one key

    def of_key(self, key: bytes, since: int, until: int) -> list[tuple[Any, bytes, int]]:
        """Return (position, value, timestamp) of one key's rows with since <= time <= until, in order of position."""
        if since < self.bound:
            since = self.bound
        if until < since:
            return []
        first, last = self.positions.first(max(since, 0)), self.positions.last(until)
        found = self._base_of_key(key, first, last, since) if self.segments.live else []
        layers = [layer.keys[key] for _, layer in self.pending if key in layer.keys]
        rows = self.dirty.keys.get(key)
        if rows is not None:
            layers.append(rows)
        if not layers:
            return found
        if not found and len(layers) == 1:
            positions, entries = layers[0]
            span = positions[bisect_left(positions, first) : bisect_right(positions, last)]
            return [(p, e[0], e[1]) for p in span if (e := entries[p])[0] is not None]
        merged: dict[Any, tuple[bytes | None, int]] = {p: (value, timestamp) for p, value, timestamp in found}
        for positions, entries in layers:
            for p in positions[bisect_left(positions, first) : bisect_right(positions, last)]:
                merged[p] = entries[p][:2]
        return [(p, value, timestamp) for p, (value, timestamp) in sorted(merged.items()) if value is not None]

    def _base_of_key(self, key: bytes, first: Any, last: Any, since: int) -> list[tuple[Any, bytes, int]]:
        """Return the base's rows of a key. They are read once, from ``since`` on, and kept until the base changes."""
        kept = self._read.get(key)
        if kept is None or since < kept[0]:
            rows = self._read_key(key, first, since)
            kept = since, [row[0] for row in rows], rows
            if self.keeps_read:
                self._read[key] = kept
        _, positions, rows = kept
        return rows[bisect_left(positions, first) : bisect_right(positions, last)]

    def _read_key(self, key: bytes, first: Any, since: int) -> list[tuple[Any, bytes, int]]:
        suffix, parse, size = self.positions.suffix, self.positions.parse, len(key) + self.positions.suffix_size
        lower, upper = key + suffix(first), key + suffix(self.positions.last(MAX_TIME)) + b"\0"
        # every row between the two bounds begins with the key; one of the same length has this very key
        return [
            (parse(row)[1], *self._unpack(raw))
            for _, segment in self.segments.between(since, MAX_TIME)
            for row, raw in segment.range(lower, upper)
            if len(row) == size
        ]

    # ---- the rows of many keys

    def of_keys(self, keys: list[bytes], since: list[int]) -> list[list[tuple[Any, bytes, int]]]:
        """Return what ``of_key`` returns of each key from a time on; segments that are not much larger are read as a whole."""
        segments = [segment for _, segment in self.segments.between(max(min(since), 0), MAX_TIME)]
        few = sum(segment.count() for segment in segments) <= _WHOLE * len(keys)
        if self.pending or self.dirty.keys or not few:
            return [self.of_key(key, time, MAX_TIME) for key, time in zip(keys, since, strict=True)]
        found: dict[bytes, list[tuple[Any, bytes, int]]] = {key: [] for key in keys}
        parse, unpack = self.positions.parse, self._unpack
        for segment in segments:
            for row, raw in segment.range(None, None):
                key, position = parse(row)
                if key in found:
                    found[key].append((position, *unpack(raw)))
        time_of, bound = self.positions.time, self.bound
        for key, time in zip(keys, since, strict=True):
            least = max(time, bound)
            if found[key] and time_of(found[key][0][0]) < least:
                found[key] = [row for row in found[key] if time_of(row[0]) >= least]
        return list(found.values())

    def scan(
        self,
        since: int,
        until: int,
        lower: bytes | None = None,
        upper: bytes | None = None,
        *,
        reverse: bool = False,
        by_time: bool | None = None,
        expired: bool = False,
    ) -> Iterator[Found]:
        """Iterate the rows with since <= time <= until and lower <= key <= upper, as of the call.

        Order: by time, then key (session: start, then key) where ``by_time``; else by segment, then the row's bytes.
        ``expired``: rows past the retention too, as long as their segment is there.
        """
        since = max(since, 0 if expired else self.bound, 0)
        if until < since or (lower is not None and upper is not None and lower > upper):
            return iter(())
        by_time = self.by_time if by_time is None else by_time
        found = SegmentScan(
            self.segments,
            self.positions,
            self._unpack,
            self.spec.time_ordered,
            since,
            until,
            lower,
            upper,
            reverse,
            by_time,
        )
        return found.rows(self._above(found))

    def _above(self, scan: SegmentScan) -> dict[int, dict[bytes, tuple[bytes, Any, Entry]]]:
        """Collect the rows of the layers above the base, by segment and sort key."""
        found: dict[int, dict[bytes, tuple[bytes, Any, Entry]]] = {}
        time_of, interval, sort_key = self.positions.time, self.interval, scan.sort_key
        since, until, lower, upper = scan.since, scan.until, scan.lower, scan.upper
        for layer in [*(layer for _, layer in self.pending), self.dirty]:
            for key, position in layer.between(since, until) if self.spec.time_ordered else layer.rows():
                time = time_of(position)
                if since <= time <= until and (lower is None or lower <= key) and (upper is None or key <= upper):
                    row = key, position, layer.keys[key][1][position]
                    found.setdefault(time // interval, {})[sort_key(key, position)] = row
        return found

    # ---- the barrier

    def snapshot(self) -> dict[str, Any]:
        """Return the store's time, the last sequence number and how far windows were emitted on close.

        And, for whoever cuts the changelog: the time of the newest row, and from when on rows are kept.
        """
        numbers = {"time": self.observed, "sequence": self.sequence, "emitted": self.emitted}
        numbers |= {"newest": self.newest, "kept": self.kept}
        if self.watched and self._least is not None:
            numbers["least"] = self._least
        return numbers

    def resume(self, snapshot: Mapping[str, Any]) -> None:
        """Restore what ``snapshot`` returned, of this store or of another step's: what is further counts."""
        times = (
            [snapshot["time"]] if "time" in snapshot else [time for _, time in snapshot["times"]]
        )  # of versions before
        self._reach(max(self.observed, min(times, default=-1)))
        self.sequence = max(self.sequence, snapshot["sequence"])
        self.emitted = max(self.emitted, snapshot["emitted"])
        self.newest = max(self.newest, snapshot["newest"])
        least = snapshot.get("least")
        self._least = least if self._least is None or least is None else min(self._least, least)

    def seal(self, *, logged: bool, never_was: Callable[[bytes, Any], bool] | None = None) -> Sealed:
        """Hand out the dirty rows, keep them readable, and start an empty layer; a delete that ``never_was`` leaves nothing."""
        sealed, layer = Sealed(), self.dirty
        numbers = self._numbers()
        if numbers == self._stored and not self._has_rows():
            return sealed
        if never_was is not None:
            self._forget(layer, never_was)
        sealed.changelog = self._write_rows(sealed, layer, logged)
        self.newest = max(self.newest, self._newest_row())
        kept = self._sealable() // self.interval
        for number in [n for n in self.segments.live if n < kept]:
            sealed.drops += self.segments.name(number), self.segments.time_name(number)
        writes: list[tuple[bytes, bytes | None]] = [(OBSERVED, numbers[0])]
        sealed.writes = writes
        if self.spec.retain_duplicates:
            writes.append((SEQUENCE, pack_time(self.sequence)))
        if self.emitted >= 0:
            writes.append((EMITTED, pack_time(self.emitted)))
        self._stored = numbers
        self.pending.append((sealed, self._take_rows()))
        self._read.clear()
        return sealed

    def _has_rows(self) -> bool:
        return bool(self.dirty.keys or self.only_logged)

    def _newest_row(self) -> int:
        """Return the time of the newest row of the epoch; −1: there is none."""
        newest = max((positions[-1] for positions, _ in self.dirty.keys.values() if positions), default=None)
        return -1 if newest is None else self.positions.time(newest)

    def _take_rows(self) -> Layer:
        """Return the rows of the epoch, and start anew."""
        return self.dirty.take()

    @staticmethod
    def _forget(layer: Layer, never_was: Callable[[bytes, Any], bool]) -> None:
        deletes = [(k, p) for k, (_, entries) in layer.keys.items() for p, entry in entries.items() if entry[0] is None]
        for key, position in deletes:
            if never_was(key, position):
                positions, entries = layer.keys[key]
                positions.remove(position)
                del entries[position]

    def _write_rows(self, sealed: Sealed, layer: Layer, logged: bool) -> Collection[LogRow]:
        """Put the rows of a layer into the segments of a seal; return those for the changelog."""
        stamped, by_time, log_headers = self.stamped, self.positions.by_time, self.spec.log_headers
        changelog, place_of = list(self.only_logged) if logged else [], self._places(sealed)
        self.only_logged.clear()
        for key, (positions, entries) in layer.keys.items():
            for position in positions:
                rows, index, suffix = place_of(position)
                if rows is None:  # its segment expired after it was written
                    continue
                value, timestamp, headers, _, _ = entries[position]
                row = key + suffix
                if logged:
                    changelog.append((row, value, timestamp, headers if log_headers else ()))
                rows.append((row, pack_time(timestamp) + value if stamped and value is not None else value))
                if index is not None:
                    index.append((by_time(key, position), None if value is None else b""))
        if self.spec.retain_duplicates:  # the last row must carry the last sequence number: restore relies on it
            changelog.sort(key=_sequence)
        return changelog

    def _places(self, sealed: Sealed) -> Callable[[Any], tuple[list[Any] | None, list[Any] | None, bytes]]:
        """Return what says where a row is written: its segment (None: it has expired), the index by time, the row's suffix."""
        time_of, suffix, segments = self.positions.time, self.positions.suffix, self.segments
        interval, kept = self.interval, self._sealable() // self.interval

        @cache
        def of_segment(number: int) -> tuple[list[Any] | None, list[Any] | None]:
            if number < kept:
                return None, None
            rows: list[Any] = []
            index: list[Any] | None = [] if self.spec.time_ordered else None
            sealed.side[segments.name(number)] = rows
            if index is not None:
                sealed.side[segments.time_name(number)] = index
            return rows, index

        def place_of(position: Any) -> tuple[list[Any] | None, list[Any] | None, bytes]:
            return *of_segment(time_of(position) // interval), suffix(position)

        return cache(place_of) if self.positions is WINDOW else place_of  # many keys have the same windows

    def apply(self, sealed: Sealed) -> None:
        """Bring a committed epoch into the base; its rows are read from there from now on."""
        self.segments.apply(sealed)
        self._read.clear()
        self.pending = [(mine, layer) for mine, layer in self.pending if mine is not sealed]
        self._read_numbers()

    def _read_numbers(self) -> None:
        self._reach(max(self.observed, min((time for _, time in self.segments.times()), default=-1)))
        self.emitted = max(self.emitted, self.segments.number(EMITTED, -1))
        self.sequence = max(self.sequence, self.segments.number(SEQUENCE, 0))

    def _numbers(self) -> tuple[bytes, int]:
        return pack_times([(0, self.observed)]), self.emitted

    def _unpack(self, raw: bytes) -> tuple[bytes, int]:
        return (raw[8:], unpack_time(raw)) if self.stamped else (raw, -1)


def _same(time: int) -> int:
    return time


def _sequence(row: LogRow) -> bytes:
    return row[0][-4:]
