"""Rows on their way between two steps: what is for a later step goes to the lane of its shard, all else is final."""

import pyarrow as pa
import pytest

from penstock.protocol.envelope import CHANGELOG, CHANGES, COUNTED, FAILURE, NOTE, PENDING, RECORD, SINK, batch_of
from penstock.protocol.shuffle import _FINAL, _by_lane

LANES = 2


@pytest.mark.parametrize("kind", [RECORD, COUNTED, PENDING, CHANGES])
def test_rows_for_a_later_step_go_to_the_lane_of_their_shard(kind):
    columns = [["s"] * 4, [0, 1, 2, 3], [None] * 4, [b"v"] * 4, [0] * 4]
    found = list(_by_lane(batch_of(kind, pa.array([0, 1, 2, 3], pa.int64()), columns), LANES))
    assert {lane: batch["partition"].to_pylist() for lane, batch in found} == {0: [0, 2], 1: [1, 3]}


@pytest.mark.parametrize("kind", [SINK, CHANGELOG, NOTE, FAILURE])
def test_rows_for_the_driver_are_final(kind):
    batch = batch_of(kind, pa.array([7], pa.int64()), [["t"], [0], [None], [b"v"], [0]])
    assert [lane for lane, _ in _by_lane(batch, LANES)] == [_FINAL]
