"""The identity check of a fold: whether no two new values are one object that can be changed."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernels import fold

pool: list[object] = [[], [], {}, object(), (), None, 7, "text", b"bytes", 1.5, True, 1 << 80]


@given(places=st.lists(st.integers(0, len(pool) - 1), max_size=30))
def test_objects_that_can_be_changed_must_be_apart(places):
    items = [pool[place] for place in places]
    assert fold.are_distinct(items) is all(places.count(place) < 2 for place in places if place < 5)


def test_one_among_many_is_found():
    items = [[number] for number in range(100_000)]
    assert fold.are_distinct(items)
    items[99_999] = items[3]
    assert not fold.are_distinct(items)
    assert fold.are_distinct([])
