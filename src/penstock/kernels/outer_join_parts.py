"""The records of a left or outer join of streams by column: which of them wait, for how long, and what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.fallback import Fallback
from penstock.batch.merge import binary
from penstock.state.duplicate_rows import Matches
from penstock.state.keys import join_side_key, join_side_value, parse_join_side_key

if TYPE_CHECKING:
    from penstock.kernels.join_window import PublishedRecords
    from penstock.kernels.outer_join import OuterJoinSide

#: no turn is as late
NEVER = 1 << 62


class Part(NamedTuple):
    """The records of a side that have a key and a value: the turn of each, and the time with it.

    A turn is a place that nobody shares: a source record may have become several.
    """

    side: OuterJoinSide
    batch: Batch
    turns: Any
    now: Any
    matches: Matches | None
    #: what its own window has published of it
    published: PublishedRecords | None

    def lone(self) -> Any:
        """Return which records give a result, or wait for one, because they have found nothing."""
        alone = np.full(len(self.turns), self.side.outer)
        if self.matches is not None:
            alone[self.matches.at] = False
        return np.flatnonzero(alone)


class UnmatchedRows(NamedTuple):
    """Records of a part that wait: which of its records they are, the turns of those that find them, the looks that find them closed."""

    part: Part
    at: Any
    found: Any
    closed: Any


#: turn of a record that stays, and (row, value with its side, time)
Staying: TypeAlias = tuple[int, tuple[bytes, bytes, int]]


class ClosedRow(NamedTuple):
    """A row that leaves: which look has found it closed, the time that closed it, its time, side and key, its number, its value.

    In this order they leave, as one by one: at the move of time that closes them, by time, side and key.
    """

    look: int
    reached: int
    time: int
    left: bool
    key: bytes
    number: int
    value: bytes


#: results, and the turn of each
InOrder: TypeAlias = tuple[Batch, Any]


class Looks(NamedTuple):
    """The records that look for closed windows, in order: their turns, the time after each; part and number of each."""

    turns: Any
    now: Any
    part: Any
    at: Any

    def first(self, due: Any, behind: Any) -> Any:
        """Return which look is the first, behind a turn, that finds the time past ``due``; as many as there are: none."""
        return np.maximum(np.searchsorted(self.now, due, "right"), np.searchsorted(self.turns, behind, "right"))


def waiting_of(part: Part, known: list[Part], looks: Looks) -> UnmatchedRows | None:
    """Return the records that wait, and for how long."""
    side, lone = part.side, part.lone()
    times = part.batch.timestamps[lone]
    lone = lone[np.maximum(times + side.after, 0) >= part.now[lone]]
    if not len(lone):
        return None
    times, wait = part.batch.timestamps[lone], side.waits[side.left]
    published = part.published
    assert published is not None
    if (times < part.now[lone] - wait).any() or not np.isin(
        lone, published.at
    ).all():  # some are not kept: nobody finds them
        raise Fallback("expired_record")
    found = np.full(len(part.turns), NEVER, dtype=np.int64)
    for other in known:
        if other.side.left is not side.left and other.matches is not None:
            mine = other.matches.published >= 0
            np.minimum.at(found, published.at[other.matches.published[mine]], other.turns[other.matches.at[mine]])
    return UnmatchedRows(part, lone, found[lone], looks.first(times + wait, part.turns[lone]))


def found_before(known: list[Part]) -> dict[bytes, tuple[int, int]]:
    """Return, of rows that may have been waiting before all these records, turn and time of the first one that finds each."""
    found: dict[bytes, tuple[int, int]] = {}
    for part in known:
        matches, side = part.matches, part.side
        if matches is None or not side.other_outer:
            continue
        before = np.flatnonzero(matches.published < 0)
        at = matches.at[before]
        keys = binary(part.batch.keys.pick(at.tolist()).bytes_of(side.parked.serdes[0])).to_pylist()
        times = part.batch.timestamps[at].tolist()
        rows = zip(keys, matches.starts[before].tolist(), part.turns[at].tolist(), times, strict=True)
        for key, start, turn, time in rows:
            found.setdefault(join_side_key(start, not side.left, key), (turn, time))
    return found


def note_waiting(one: UnmatchedRows, looks: Looks, closed: list[ClosedRow], staying: list[Staying]) -> None:
    """Note which of the records that wait leave, and which stay; those that are found do neither."""
    part, side = one.part, one.part.side
    ends = np.append(looks.turns, NEVER)[one.closed]
    leaves = (ends <= one.found) & (ends < NEVER)
    chosen = np.flatnonzero(leaves | ((ends == NEVER) & (one.found == NEVER)))
    at = one.at[chosen]
    keys = binary(part.batch.keys.pick(at.tolist()).bytes_of(side.parked.serdes[0])).to_pylist()
    assert part.published is not None
    values = part.published.data.take(pa.array(at)).to_pylist()
    times, turns = part.batch.timestamps[at].tolist(), part.turns[at].tolist()
    for number, key, value, time, turn in zip(chosen.tolist(), keys, values, times, turns, strict=True):
        if leaves[number]:
            reached = side.closed_at(time, side.left)
            closed.append(ClosedRow(int(one.closed[number]), reached, time, side.left, key, number, value))
        else:
            row = join_side_key(time, side.left, key), join_side_value(side.left, value), time
            staying.append((turn, row))


def check_disjoint(one: UnmatchedRows, stored: dict[bytes, bytes]) -> None:
    """Refuse records that come to wait with others of their key, side and time, which were there before, and go."""
    rows = [parse_join_side_key(raw_key) for raw_key in stored]
    side, times = one.part.side, one.part.batch.timestamps
    at = one.at[np.isin(times[one.at], [time for time, left, _ in rows if left is side.left])]
    keys = binary(one.part.batch.keys.pick(at.tolist()).bytes_of(side.parked.serdes[0])).to_pylist()
    if any(join_side_key(time, side.left, key) in stored for key, time in zip(keys, times[at].tolist(), strict=True)):
        raise Fallback("same_time_twice")


def closed_results(part: Part, number: int, closed: list[ClosedRow], looks: Looks) -> InOrder | None:
    """Return what the records of a part have found closed."""
    mine = [row for row in closed if looks.part[row.look] == number]
    if not mine:
        return None
    side, batch = part.side, part.batch
    right, left = side.parked.side_serdes
    keys = Column(data=[row.key for row in mine], serde=side.parked.serdes[0])
    results: list[Any] = []
    for row, key in zip(mine, keys.items, strict=True):
        value = (left if row.left else right).deserialize(row.value)
        pair = (value, None) if row.left else (None, value)
        results.append(side.joiner(key, *pair) if side.with_key else side.joiner(*pair))
    at = [int(looks.at[row.look]) for row in mine]
    spread = batch.spread(at, keys, Column(results))
    spread.timestamps = np.array([row.time for row in mine], dtype=np.int64)
    spread.headers = None
    return spread, part.turns[at]


def matched(part: Part) -> InOrder | None:
    """Return the results of records that have found rows of the other side."""
    matches = part.matches
    return None if matches is None else (part.side.results(part.batch, matches), part.turns[matches.at])


def results_alone(part: Part) -> InOrder | None:
    """Return the results of records that have found nothing, and whose window was over when they came."""
    side, lone = part.side, part.lone()
    over = np.maximum(part.batch.timestamps[lone] + side.after, 0) < part.now[lone]
    if not over.any():
        return None
    picked = part.batch.pick(lone[over].tolist())
    values, nothing = picked.values.items, [None] * len(picked)
    pair = (values, nothing) if side.left else (nothing, values)
    results = map(side.joiner, picked.keys.items, *pair) if side.with_key else map(side.joiner, *pair)
    return picked.having(values=Column(list(results))), part.turns[lone[over]]
