"""The least time of several indexes, against a computation that goes move by move."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.lane.least_time import least_times

moves = st.lists(st.tuples(st.integers(0, 6), st.integers(-3, 30)), max_size=40)
bases = st.dictionaries(st.integers(0, 8), st.integers(-1, 20), max_size=6)


def one_by_one(base: dict[int, int], rows: list[tuple[int, int]]) -> list[int]:
    now = {index: time for index, time in base.items() if time >= 0}
    least = []
    for index, time in rows:
        if max(time, now.get(index, -1)) >= 0:
            now[index] = max(time, now.get(index, -1))
        least.append(min(now.values(), default=-1))
    return least


@given(bases, moves)
def test_the_least_time_is_what_going_move_by_move_gives(base, rows):
    indexes, times = (np.array([row[at] for row in rows], dtype=np.int64) for at in (0, 1))
    assert least_times(base, indexes, times).tolist() == one_by_one(base, rows)


def test_moves_of_many_indexes_in_order_of_time():
    rng = np.random.default_rng(7)
    indexes, times = rng.integers(0, 300, 20_000), np.arange(20_000)
    base = dict.fromkeys(range(0, 300, 2), 0)
    rows = list(zip(indexes.tolist(), times.tolist(), strict=True))
    assert least_times(base, indexes, times).tolist() == one_by_one(base, rows)
