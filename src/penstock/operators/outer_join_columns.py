"""Left and outer joins of streams by column: as inner ones, and what waits for a match leaves when its window is closed.

A record that finds nothing waits, until the first record of the other side that finds it, or the first one, of any side, that finds
its window closed. Both are found for all records at once; of those that are still waiting at the end rows are written.

Only where every record brings the time that its partition had reached, so that closed rows leave at once, and time does not go back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.operators.base import Met, ObservedTime
from penstock.operators.join_columns import present
from penstock.operators.stream_join_columns import InnerSide
from penstock.serde.columns import Column, Columns, Commits, Irregular, Spots
from penstock.serde.merge import binary, merge_columns
from penstock.state.kept_rows import Matches
from penstock.state.keys import join_side_key, join_side_value, parse_join_side_key, parse_list
from penstock.state.outer_join import OuterJoinStore
from penstock.state.window_fold import running_time

_NEVER = 1 << 62


class Part(NamedTuple):
    """The records of a side that have a key and a value: the turn of each, the time after it, and which may find closed windows.

    A turn is a place that nobody shares: a source record may have become several.
    """

    side: OuterSide
    columns: Columns
    turns: Any
    now: Any
    looks: Any
    matches: Matches | None

    def lone(self) -> Any:
        """Return which records give a result, or wait for one, because they have found nothing."""
        alone = np.full(len(self.turns), self.side.outer)
        if self.matches is not None:
            alone[self.matches.at] = False
        return np.flatnonzero(alone)


class Waiting(NamedTuple):
    """Records of a part that wait: which of its records they are, the turns of those that find them, the looks that find them closed."""

    part: Part
    at: Any
    found: Any
    closed: Any


#: turn of a record that stays, and (row, value with its side, time)
Staying: TypeAlias = tuple[int, tuple[bytes, bytes, int]]


class Closed(NamedTuple):
    """A row that leaves: which look has found it closed, its time, side and key, its place among those of this key, its value."""

    look: int
    time: int
    left: bool
    key: bytes
    number: int
    value: bytes


#: results, and the turn of each
InTurn: TypeAlias = tuple[Columns, Any]


class Looks(NamedTuple):
    """The records that look for closed windows, in order: their turns, the time after each; part and number of each."""

    turns: Any
    now: Any
    part: Any
    at: Any

    def first(self, due: Any, behind: Any) -> Any:
        """Return which look is the first, behind a turn, that finds the time past ``due``; as many as there are: none."""
        return np.maximum(np.searchsorted(self.now, due, "right"), np.searchsorted(self.turns, behind, "right"))


@dataclass(frozen=True, slots=True)
class OuterSide(InnerSide):
    """One side of a left or outer join. ``outer``: its records give a result without a match, too. ``waits``: right, left."""

    outer: bool
    other_outer: bool
    parked: OuterJoinStore
    clock: ObservedTime
    waits: tuple[int, int]

    def meet(self, parts: Sequence[tuple[Any, Columns]], commits: Commits) -> Met:
        """Join the records of both sides; in the order of their places what each finds closed, and then its own results."""
        known, looks = self._timed(parts, commits)
        waiting = [one for one in (_waiting(part, known, looks) for part in known) if one is not None]
        closed = self._settle(known, waiting, looks, commits)
        found = [_closed_results(part, number, closed, looks) for number, part in enumerate(known)]
        checks: list[Callable[[], None]] = []
        for part in known:
            found += [_matched(part), _alone(part)]
            told = part.columns.spots.told.get(part.side.own)
            met = np.unique(np.concatenate([part.lone(), [] if part.matches is None else part.matches.at]))
            if told is not None:
                checks.append(lambda told=told, met=met.astype(np.int64): told.check(met))  # type: ignore[misc]

        def check() -> None:
            for unchanged in checks:
                unchanged()

        results, turns = [one[0] for one in found if one is not None], [one[1] for one in found if one is not None]
        return Met(merge_columns(results, turns) if results else None, check)

    def _timed(self, parts: Sequence[tuple[Any, Columns]], commits: Commits) -> tuple[list[Part], Looks]:
        """Let all records move the clock; return those that have a key and a value, and what they have found."""
        clock, sizes = self.clock, [len(columns) for _, columns in parts]
        numbers = [[columns.of_source(column) for column in columns.spots.numbers()] for _, columns in parts]
        indexes, floors = (np.concatenate(column) for column in zip(*numbers, strict=True))
        if (floors < 0).any():
            raise Irregular
        reached = np.maximum(np.concatenate([columns.timestamps for _, columns in parts]), floors)
        order = np.argsort(np.concatenate([columns.places for _, columns in parts]), kind="stable")
        now, turns = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
        turns[order] = np.arange(len(order))
        now[order], times = running_time(clock.times, indexes[order], reached[order])
        if (np.diff(now[order], prepend=clock.now) < 0).any():
            raise Irregular

        def commit() -> None:
            for index, time in times.items():
                clock.see(index, time)

        commits.append(commit)
        edges = np.cumsum(sizes)[:-1]
        split = zip(parts, *(np.split(column, edges) for column in (turns, now, floors)), strict=True)
        known = [_part(part, (turn, after, floor), commits) for part, turn, after, floor in split]
        return known, _looks(known)

    def _settle(self, known: list[Part], waiting: list[Waiting], looks: Looks, commits: Commits) -> list[Closed]:
        """Return the rows that leave, in order; the store is told of them, and of those that stay, when all went well."""
        last = int(looks.now[-1]) if len(looks.now) else None
        stored = {} if last is None else self.parked.closed_by(last, self.waits)
        found = _found_before(known)
        stored |= self.parked.waiting(raw_key for raw_key in found if raw_key not in stored)
        closed: list[Closed] = []
        gone: list[tuple[bytes, int]] = []
        for raw_key, raw in stored.items():
            time, left, key = parse_join_side_key(raw_key)
            look = int(looks.first(time + self.waits[left], -1))
            turn, at = found.get(raw_key, (_NEVER, 0))
            if look < len(looks.turns) and int(looks.turns[look]) <= turn:
                gone.append((raw_key, _time_of(known, looks, look)))
                items = (item for item in parse_list(raw) if item is not None)
                closed += [Closed(look, time, left, key, number, item[1:]) for number, item in enumerate(items)]
            else:
                gone.append((raw_key, at))
        staying: list[Staying] = []
        for one in waiting:
            _check_apart(one, stored)
            _part_waiting(one, looks, closed, staying)
        staying.sort()
        parked, waits = self.parked, self.waits

        def commit() -> None:
            parked.settle(gone, [row for _, row in staying])
            for side in (False, True):
                times = [one.part.columns.timestamps[one.at] for one in waiting if one.part.side.left is side]
                parked.note(side, times[0] if times else (), None if last is None else last - waits[side])

        commits.append(commit)
        return sorted(closed)


def _part(part: tuple[Any, Columns], times: tuple[Any, Any, Any], commits: Commits) -> Part:
    (side, columns), (turns, now, floors) = part, times
    if side.outer and columns.keys.has_nulls:  # they give a result of their own
        raise Irregular
    at = present(commits, side.context.drop, null_key=columns.keys, null_value=columns.values)
    if at is not None:
        columns, turns, now, floors = columns.pick(at), turns[at], now[at], floors[at]
    told = columns.spots.told.get(side.own)
    if len(columns) and (told is None or told.serde != side.parked.serdes[1 + side.left]):
        raise Irregular
    looks = (columns.timestamps >= now) | (floors >= now)
    return Part(side, columns, turns, now, looks, side.find(columns) if len(columns) else None)


def _looks(known: list[Part]) -> Looks:
    at = [np.flatnonzero(part.looks) for part in known]
    turns = np.concatenate([part.turns[mine] for part, mine in zip(known, at, strict=True)])
    order = np.argsort(turns, kind="stable")
    now = np.concatenate([part.now[mine] for part, mine in zip(known, at, strict=True)])
    number = np.repeat(np.arange(len(known)), [len(mine) for mine in at])
    return Looks(turns[order], now[order], number[order], np.concatenate(at)[order])


def _time_of(known: list[Part], looks: Looks, look: int) -> int:
    return int(known[looks.part[look]].columns.timestamps[looks.at[look]])


def _waiting(part: Part, known: list[Part], looks: Looks) -> Waiting | None:
    """Return the records that wait, and for how long."""
    side, lone = part.side, part.lone()
    times = part.columns.timestamps[lone]
    lone = lone[np.maximum(times + side.after, 0) >= part.now[lone]]
    if not len(lone):
        return None
    times, wait = part.columns.timestamps[lone], side.waits[side.left]
    told = part.columns.spots.told[side.own]
    if (times < part.now[lone] - wait).any() or not np.isin(
        lone, told.at
    ).all():  # some are not kept: nobody finds them
        raise Irregular
    found = np.full(len(part.turns), _NEVER, dtype=np.int64)
    for other in known:
        if other.side.left is not side.left and other.matches is not None:
            mine = other.matches.told >= 0
            np.minimum.at(found, told.at[other.matches.told[mine]], other.turns[other.matches.at[mine]])
    return Waiting(part, lone, found[lone], looks.first(times + wait, part.turns[lone]))


def _found_before(known: list[Part]) -> dict[bytes, tuple[int, int]]:
    """Return, of rows that may have been waiting before all these records, turn and time of the first one that finds each."""
    found: dict[bytes, tuple[int, int]] = {}
    for part in known:
        matches, side = part.matches, part.side
        if matches is None or not side.other_outer:
            continue
        before = np.flatnonzero(matches.told < 0)
        at = matches.at[before]
        keys = binary(part.columns.keys.pick(at.tolist()).bytes_of(side.parked.serdes[0])).to_pylist()
        times = part.columns.timestamps[at].tolist()
        rows = zip(keys, matches.starts[before].tolist(), part.turns[at].tolist(), times, strict=True)
        for key, start, turn, time in rows:
            found.setdefault(join_side_key(start, not side.left, key), (turn, time))
    return found


def _part_waiting(one: Waiting, looks: Looks, closed: list[Closed], staying: list[Staying]) -> None:
    """Note which of the records that wait leave, and which stay; those that are found do neither."""
    part, side = one.part, one.part.side
    ends = np.append(looks.turns, _NEVER)[one.closed]
    leaves = (ends <= one.found) & (ends < _NEVER)
    chosen = np.flatnonzero(leaves | ((ends == _NEVER) & (one.found == _NEVER)))
    at = one.at[chosen]
    keys = binary(part.columns.keys.pick(at.tolist()).bytes_of(side.parked.serdes[0])).to_pylist()
    values = part.columns.spots.told[side.own].data.take(pa.array(at)).to_pylist()
    times, turns = part.columns.timestamps[at].tolist(), part.turns[at].tolist()
    for number, key, value, time, turn in zip(chosen.tolist(), keys, values, times, turns, strict=True):
        if leaves[number]:
            closed.append(Closed(int(one.closed[number]), time, side.left, key, number, value))
        else:
            row = join_side_key(time, side.left, key), join_side_value(side.left, value), time
            staying.append((turn, row))


def _check_apart(one: Waiting, stored: dict[bytes, bytes]) -> None:
    """Refuse records that come to wait with others of their key, side and time, which were there before, and go."""
    rows = [parse_join_side_key(raw_key) for raw_key in stored]
    side, times = one.part.side, one.part.columns.timestamps
    at = one.at[np.isin(times[one.at], [time for time, left, _ in rows if left is side.left])]
    keys = binary(one.part.columns.keys.pick(at.tolist()).bytes_of(side.parked.serdes[0])).to_pylist()
    if any(join_side_key(time, side.left, key) in stored for key, time in zip(keys, times[at].tolist(), strict=True)):
        raise Irregular


def _closed_results(part: Part, number: int, closed: list[Closed], looks: Looks) -> InTurn | None:
    """Return what the records of a part have found closed, each with the headers of the one that found it."""
    mine = [row for row in closed if looks.part[row.look] == number]
    if not mine:
        return None
    side, columns = part.side, part.columns
    key_serde, right, left = side.parked.serdes
    keys = Column(data=[row.key for row in mine], serde=key_serde)
    results: list[Any] = []
    for row, key in zip(mine, keys.items, strict=True):
        value = (left if row.left else right).deserialize(row.value)
        pair = (value, None) if row.left else (None, value)
        results.append(side.joiner(key, *pair) if side.with_key else side.joiner(*pair))
    at = [int(looks.at[row.look]) for row in mine]
    spread = columns.spread(at, keys, Column(results))
    spread.timestamps = np.array([row.time for row in mine], dtype=np.int64)
    spread.spots = _without_floors(columns.spots)
    return spread, part.turns[at]


def _without_floors(spots: Spots) -> Spots:
    """Return source records that bring no time of their partition: clocks behind go by the rows' own times, they are old."""

    def numbers() -> tuple[Any, Any]:
        indexes, floors = spots.numbers()
        return indexes, np.full_like(floors, -1)

    arrays = None if spots.arrays is None else {**spots.arrays, "floor": np.full_like(spots.arrays["floor"], -1)}
    bare = Spots(lambda at: spots.origin(at)._replace(floor=-1), numbers, spots.times, arrays)
    bare.places, bare.told = spots.places, spots.told
    return bare


def _matched(part: Part) -> InTurn | None:
    matches = part.matches
    return None if matches is None else (part.side.results(part.columns, matches), part.turns[matches.at])


def _alone(part: Part) -> InTurn | None:
    """Return the results of records that have found nothing, and whose window was over when they came."""
    side, lone = part.side, part.lone()
    over = np.maximum(part.columns.timestamps[lone] + side.after, 0) < part.now[lone]
    if not over.any():
        return None
    picked = part.columns.pick(lone[over].tolist())
    values, nothing = picked.values.items, [None] * len(picked)
    pair = (values, nothing) if side.left else (nothing, values)
    results = map(side.joiner, picked.keys.items, *pair) if side.with_key else map(side.joiner, *pair)
    return picked.having(values=Column(list(results))), part.turns[lone[over]]
