"""Rows in the order of a lane, cut into what is run at a time: batches, short runs, and rows of several sources together.

Rows of a shard that alternate between its sources make many short runs, each too short for columns. Where their nodes allow it they are
*mixed*: sorted by source, thousands at a time, each row with its place in the order of the lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from penstock.lane.ordering import WINDOW, ShortRun, SourceBatch, starts_of

#: rows of a batch: those of a shard in an epoch are mostly one, and what a fold makes of them can then stay columns
MOST = 1 << 17
#: rows that are mixed at a time, for the same reason
MOST_MIXED = MOST
#: a run of fewer rows is not worth columns of its own: count-and-sum of 37 rows a shard is a fifth quicker one by one, of 125 as quick
SHORT = 64
#: so few rows of a shard are not mixed
FEW_MIXED = 64


@dataclass(frozen=True, slots=True)
class Mixed:
    """Rows of one shard and several sources: a batch of each, and the places of its rows among all of them."""

    shard: int
    batches: list[SourceBatch]
    places: list[Any]
    #: makes rows apart, in the order of the lane: those from one place to another
    between: Callable[[int, int], Iterator[SourceBatch | ShortRun]]
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin

    def split(self) -> Iterator[SourceBatch | ShortRun]:
        """Return the same rows apart, in the order of the lane."""
        return self.between(self.begin, self.end)

    def parts(self, size: int) -> Iterator[Mixed]:
        """Yield the rows, so many at a time."""
        for begin in range(self.begin, self.end, size):
            end = min(begin + size, self.end)
            edges = [np.searchsorted(places, (begin, end)).tolist() for places in self.places]
            some = [
                (b, p, slice(*at)) for b, p, at in zip(self.batches, self.places, edges, strict=True) if at[0] < at[1]
            ]
            batches = [batch.part(at, self.shard, batch.source) for batch, _, at in some]
            yield Mixed(self.shard, batches, [places[at] for _, places, at in some], self.between, begin, end)


#: what is run at a time
Work: TypeAlias = SourceBatch | ShortRun | Mixed
#: whether rows of a shard may be mixed: (shard, sources)
Mixes: TypeAlias = Callable[[int, Sequence[str]], bool]


def never(shard: int, sources: Sequence[str]) -> bool:
    """Mix nothing."""
    return False


class Taken(Protocol):
    """Rows in some order, of which batches are cut."""

    def batch(self, part: slice, shard: int, source: str) -> SourceBatch:
        """Return rows that follow each other."""
        ...

    def cut(self, batch: SourceBatch, runs: list[SourceRun]) -> Iterator[SourceBatch | ShortRun]:
        """Yield a batch that is one run, or the short runs that it holds."""
        ...


class SourceRun(NamedTuple):
    """Rows of a batch that are of one shard and one source."""

    begin: int
    end: int
    shard: int
    source: str
    #: number of the source, by which it was sorted
    code: int


@dataclass(frozen=True, slots=True)
class Sorted:
    """Rows in the order of a lane: where each is, its shard, the number of its source; the sources; and what takes rows from there."""

    order: Any
    shard: Any
    code: Any
    sources: list[str]
    take: Callable[[Any], Taken]

    def work(self, mixes: Mixes) -> Iterator[Work]:
        """Return the rows as work, shard by shard."""
        pieces = list(self._pieces(mixes))
        arranged = np.arange(len(self.order))
        for begin, end, mixed in pieces:
            if mixed:
                arranged[begin:end] = begin + np.argsort(self.code[begin:end].astype(np.int16), kind="stable")
        taken = self.take(self.order[arranged] if any(mixed for _, _, mixed in pieces) else self.order)
        for begin, end, mixed in pieces:
            if mixed:
                yield self._mixed(taken, slice(begin, end), arranged[begin:end] - begin)
            else:
                yield from self._plain(taken, begin, end, begin)

    def _pieces(self, mixes: Mixes) -> Iterator[tuple[int, int, bool]]:
        """Cut the rows into those of a shard that are mixed, and those in between."""
        plain = 0
        for begin, end in pairwise(starts_of(self.shard)):
            if end - begin < FEW_MIXED or (self.code[begin:end] == self.code[begin]).all():
                continue
            sources = [self.sources[code] for code in np.unique(self.code[begin:end]).tolist()]
            if not mixes(int(self.shard[begin]), sources):
                continue
            if plain < begin:
                yield plain, begin, False
            for at in range(begin, end, MOST_MIXED):
                yield at, min(at + MOST_MIXED, end), True
            plain = end
        if plain < len(self.order):
            yield plain, len(self.order), False

    def _mixed(self, taken: Taken, part: slice, places: Any) -> Mixed:
        shard, edges = int(self.shard[part.start]), starts_of(self.code[part][places])
        batches = [
            taken.batch(slice(part.start + begin, part.start + end), shard, self._name_at(part.start + places[begin]))
            for begin, end in pairwise(edges)
        ]

        def between(begin: int, end: int) -> Iterator[SourceBatch | ShortRun]:
            begin, end = part.start + begin, part.start + end
            return self._plain(self.take(self.order[begin:end]), begin, end, 0)

        places_of_each = [places[begin:end] for begin, end in pairwise(edges)]
        return Mixed(shard, batches, places_of_each, between, 0, len(places))

    def _plain(self, taken: Taken, begin: int, end: int, at: int) -> Iterator[SourceBatch | ShortRun]:
        """Return rows, which begin in ``taken`` at that place, run by run."""
        edges = starts_of(self.shard[begin:end], self.code[begin:end])
        for first, last, runs in stretches(edges):
            batch = taken.batch(
                slice(at + first, at + last), int(self.shard[begin + first]), self._name_at(begin + first)
            )
            yield from taken.cut(
                batch, [self._run(r - first, e - first, begin + r) for r, e in runs or [(first, last)]]
            )

    def _run(self, begin: int, end: int, at: int) -> SourceRun:
        return SourceRun(begin, end, int(self.shard[at]), self._name_at(at), int(self.code[at]))

    def _name_at(self, at: int) -> str:
        return self.sources[int(self.code[at])]


def stretches(edges: Sequence[int]) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """Return runs one by one, the longest in pieces, and short ones that follow each other together: (begin, end, short runs).

    >>> list(stretches([0, 2, 3, 3 + SHORT, 4 + SHORT + MOST]))
    [(0, 3, [(0, 2), (2, 3)]), (3, 67, []), (67, 131139, []), (131139, 131140, [])]
    """
    short: list[tuple[int, int]] = []
    for begin, end in pairwise(edges):
        if short and (end - begin >= SHORT or end - short[0][0] > WINDOW):
            yield short[0][0], short[-1][1], short
            short = []
        if end - begin < SHORT:
            short.append((begin, end))
            continue
        for at in range(begin, end, MOST):
            yield at, min(at + MOST, end), []
    if short:
        yield short[0][0], short[-1][1], short


def split_runs(batch: SourceBatch, runs: list[SourceRun]) -> Iterator[SourceBatch | ShortRun]:
    """Yield a batch that is one run, or the short runs that it holds: their objects are made together."""
    if len(runs) == 1:
        yield batch
        return
    keys, values, times, headers, origins = batch.keys, batch.values, batch.timestamps, batch.headers, batch.origins
    for begin, end, shard, source, _ in runs:
        run = slice(begin, end)
        yield ShortRun(shard, source, keys[run], values[run], times[run], headers[run], origins[run])
