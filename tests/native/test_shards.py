"""The shards of a column of keys are those of its keys, in C and in Python."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.native.columns import column_of
from penstock.native.loader import in_c
from penstock.state import shards as placing
from penstock.state.shards import shard_column, shard_of

BODIES = [in_c("grouping"), None]


@given(
    st.lists(st.none() | st.binary(max_size=40)), st.integers(1, 64), st.integers(0, 5), st.integers(0, 3),
    st.sampled_from(BODIES),
)  # fmt: skip
def test_shards_are_those_of_single_keys(keys, shards, partition, cut, loops):
    array = pa.array(keys, pa.binary())[cut:]
    wanted = [shard_of(key, shards, partition) for key in keys[cut:]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placing, "loops", loops)
        assert shard_column(array, shards, partition % shards).tolist() == wanted


def test_no_shards_are_refused():
    keys = pa.array([b"a", None], pa.binary())
    for shards in (0, -1):
        with pytest.raises(ValueError, match="at least one shard"):
            shard_column(keys, shards, 0)


@pytest.mark.skipif(BODIES[0] is None, reason="the loops in C are not built here")
def test_columns_that_are_too_short_are_refused():
    column = column_of(pa.array([b"a", b"b"], pa.binary()))
    with pytest.raises(ValueError, match="shorter than its rows"):
        BODIES[0].shards(5, column, 4, 0)
