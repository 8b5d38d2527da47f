"""Positions of rows that were made of one record: their order, and which of them is the first for its sub-topology.

Time moves with a record. Of the rows that a record becomes on the way to a later step, the first one has its effect at the moment when
time moves, and the others behind it: what is due by then has left before them. Which row is the first must not depend on the shard that
it goes to, so it is part of its position::

    position    2 * (number of the row among those of its task, from 2) + (0: the first of its record for its sub-topology, 1: another)

A row that is carried over to a later step (``plan.node_levels``) stands for the record itself: it comes before all that the record
became behind a re-key, so a 2 is put in front of its position.

>>> from penstock.record import NO_ORIGIN
>>> numbers = Siblings()
>>> one, other = NO_ORIGIN._replace(offset=7), NO_ORIGIN._replace(offset=8)
>>> [numbers.position(number, origin, 0) for number, origin in enumerate([one, one, other], 1)]
[2, 5, 6]
>>> is_first(()), is_first((2,)), is_first((2, 5))
(True, True, False)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.batch.batch import Batch
from penstock.batch.provenance import Provenance
from penstock.record import Origin

#: number of the first row of a task
FIRST_ROW = 2
#: stands in front of the position of a row that is carried over
CARRIED = 2


class Siblings:
    """Gives rows their positions; those of one record follow each other."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[Any, ...]] = {}
        self._seen: dict[tuple[int, int], tuple[Provenance, Any]] = {}

    def position(self, number: int, origin: Origin, subtopology: int) -> int:
        """Return the position of a row, given its number among all rows of the task."""
        of = origin.topic, origin.partition, origin.offset, origin.sub
        is_other = self._last.get(subtopology) == of
        self._last[subtopology] = of
        return 2 * number + is_other

    def placed(
        self, number: int, origin: Origin, subtopology: int, *, carried: bool, returning: bool
    ) -> tuple[int, ...]:
        """Return where a row is among all that its source record became.

        ``carried``: it stands for the record itself. ``returning``: its source record was in its sub-topology before it.
        """
        if returning:
            return (*origin.sub, 2 * number + 1)
        position = self.position(number, origin, subtopology)
        return (*origin.sub, CARRIED, position) if carried else (*origin.sub, position)

    def positions(self, number: int, columns: Batch, subtopology: int, *, alone: bool, returning: bool = False) -> Any:
        """Return the positions of the rows of a batch from this number on; ``alone``: no other sink leads to the sub-topology."""
        numbers = 2 * np.arange(number, number + len(columns), dtype=np.int64)
        if returning:
            return numbers + 1
        if columns.rows is None and alone:
            return numbers
        rows = np.arange(len(columns)) if columns.rows is None else columns.rows
        _, at = np.unique(rows, return_index=True)
        first = np.zeros(len(columns), dtype=bool)
        first[at] = True
        if not alone:
            _, seen = self._seen.setdefault(
                (subtopology, id(columns.provenance)),
                (columns.provenance, np.zeros(columns.provenance.count, dtype=bool)),
            )
            first &= ~seen[rows]
            seen[rows] = True
        return numbers + ~first


def is_first(sub: tuple[int, ...]) -> bool:
    """Whether a row is the first that was made of its record, at every step since."""
    return not any(number & 1 for number in sub)


def are_first(subs: Any) -> Any:
    """Return the same for many positions, one a row; numbers that are not there are negative.

    >>> are_first(np.array([[2, 4], [2, -1], [2, 5]])).tolist()
    [True, True, False]
    """
    return ((subs & 1 == 0) | (subs < 0)).all(axis=1)
