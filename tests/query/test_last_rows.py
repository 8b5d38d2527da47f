"""The last row of each key by column is what a dictionary holds."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.sql import last_rows
from penstock.sql.last_rows import LastRows, numbers_at_end

ROWS = st.lists(st.tuples(st.one_of(st.none(), st.binary(max_size=3)), st.one_of(st.none(), st.binary(max_size=3))))


@given(st.lists(ROWS, max_size=5), st.integers(1, 8))
def test_the_last_row_of_each_key_is_kept(parts, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(last_rows, "MOST_ROWS", most)
        rows, wanted, time = LastRows(), {}, 0
        for part in parts:
            times = np.arange(time, time + len(part))
            rows.add(pa.array([k for k, _ in part], pa.binary()), pa.array([v for _, v in part], pa.binary()), times)
            for at, (key, value) in zip(times.tolist(), part, strict=True):
                if key is not None:
                    wanted[key] = (value, at)
            time += len(part)
        found = rows.newest()
    kept = zip(found.values.to_pylist(), found.times.tolist(), strict=True)
    assert found.keys.to_pylist() == sorted(key for key, (value, _) in wanted.items() if value is not None)
    assert dict(zip(found.keys.to_pylist(), kept, strict=True)) == {k: v for k, v in wanted.items() if v[0] is not None}


def test_a_key_that_is_too_short_for_a_time_is_refused():
    with pytest.raises(ValueError, match="too short"):
        numbers_at_end(pa.array([b"short"]), 12)
