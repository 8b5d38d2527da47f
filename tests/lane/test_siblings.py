"""Which row is the first of its record: the same by batch as record by record, whatever sinks the rows leave through."""

from random import Random

import numpy as np
import pytest

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.provenance import provenance_of
from penstock.lane.siblings import Siblings, are_first, is_first
from penstock.record import NO_ORIGIN

ORIGINS = [NO_ORIGIN._replace(topic="t", partition=0, offset=offset) for offset in range(20)]


def batch(provenance, rows):
    count = len(rows)
    column = Column([None] * count)
    return Batch(column, column, np.zeros(count, dtype=np.int64), None, provenance, np.array(rows, dtype=np.int64))


def by_batch(sinks, *, alone):
    """The rows of all records leave through one sink after the other."""
    siblings, provenance, number, found = Siblings(), provenance_of(ORIGINS), 1, []
    for sink, rows in enumerate(sinks):
        positions = siblings.positions(number, batch(provenance, rows), 0, alone=alone)
        found += [(row, sink, is_first((position,))) for row, position in zip(rows, positions.tolist(), strict=True)]
        assert are_first(positions.reshape(-1, 1)).tolist() == [first for *_, first in found[-len(rows) :]]
        number += len(rows)
    return sorted(found)


def by_record(sinks):
    """The rows of a record leave through all sinks before those of the next one."""
    siblings, number, found = Siblings(), 0, []
    for row, origin in enumerate(ORIGINS):
        for sink, rows in enumerate(sinks):
            for _ in range(rows.count(row)):
                number += 1
                found.append((row, sink, is_first((siblings.position(number, origin, 0),))))
    return sorted(found)


@pytest.mark.parametrize("sinks", [1, 2, 3])
def test_the_first_row_of_a_record_is_the_same_by_batch_and_by_record(sinks):
    random = Random(sinks)
    for _ in range(50):
        left = [sorted(random.choices(range(20), k=random.randrange(1, 40))) for _ in range(sinks)]
        assert by_batch(left, alone=sinks == 1) == by_record(left)


def test_rows_of_one_record_for_two_sub_topologies_are_first_in_each():
    siblings = Siblings()
    assert [is_first((siblings.position(n, ORIGINS[0], part),)) for n, part in ((1, 0), (2, 1), (3, 0))] == [
        True,
        True,
        False,
    ]
