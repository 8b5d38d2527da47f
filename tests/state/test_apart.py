"""Whether no two objects are one: in C as in Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.state import fold

pool: list[object] = [[], [], {}, object(), (), None, 7, "text", b"bytes", 1.5, True, 1 << 80]


@pytest.fixture(params=["in C", "in Python"])
def either_way(request, monkeypatch):
    if request.param == "in C" and fold.objects is None:
        pytest.skip("the loops in C are not built here, or left out")
    if request.param == "in Python":
        monkeypatch.setattr(fold, "objects", None)


@given(places=st.lists(st.integers(0, len(pool) - 1), max_size=30))
def test_objects_that_can_be_changed_must_be_apart(places):
    items = [pool[place] for place in places]
    wanted = all(places.count(place) < 2 for place in places if place < 5)
    with pytest.MonkeyPatch.context() as patch:
        assert fold.are_apart(items) is wanted
        patch.setattr(fold, "objects", None)
        assert fold.are_apart(items) is wanted


def test_one_among_many_is_found(either_way):
    items = [[number] for number in range(100_000)]
    assert fold.are_apart(items)
    items[99_999] = items[3]
    assert not fold.are_apart(items)
    assert fold.are_apart([])


@pytest.mark.skipif(fold.objects is None, reason="the loops in C are not built here, or left out")
def test_what_is_asked_wrongly_is_refused():
    for wrong in [((), frozenset()), ([], set()), ([],), (None, None)]:
        with pytest.raises(TypeError):
            fold.objects.are_apart(*wrong)
