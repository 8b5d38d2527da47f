"""Records by key, keys in order: in C as in Python."""

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.batch import grouping
from penstock.batch.fallback import Fallback
from penstock.batch.grouping import KeyGroups, key_order

WAYS = [pytest.param(True, id="in C"), pytest.param(False, id="in Python")]
in_c = pytest.mark.skipif(grouping.loops is None, reason="the loops in C are not built here, or left out")
#: keys that have much in common, that end where others go on, and that differ only far behind
keys = (
    st.binary(max_size=3)
    | st.binary(max_size=12)
    | st.builds(lambda n: b"customer-%d" % n, st.integers(0, 300))
    | st.builds(lambda n: b"a" + bytes(n), st.integers(0, 12))
    | st.builds(lambda last: b"much-in-common" + last, st.binary(max_size=2))
    | st.builds(lambda n, last: b"ab" * n + last, st.integers(0, 20), st.binary(max_size=1))
)
#: any number, and few that come often
parts = st.integers(-(1 << 40), 1 << 40) | st.integers(-1, 2)


@pytest.fixture(autouse=True)
def way(request, monkeypatch):
    """Run a test that asks for it both ways."""
    wanted = getattr(request, "param", None)
    if wanted is True and grouping.loops is None:
        pytest.skip("the loops in C are not built here, or left out")
    if wanted is False:
        monkeypatch.setattr(grouping, "loops", None)


def in_python(column, part=None):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "loops", None)
        return KeyGroups(column, part)


def all_of(groups):
    numbers = (groups.order, groups.starts, groups.ends, groups.last)
    assert {column.dtype for column in numbers} == {np.dtype(np.int64)}
    groups.names.validate(full=True)
    assert groups.names.type == pa.binary()
    assert groups.names.to_pylist() == groups.keys
    assert len(groups) == len(groups.keys)
    return groups.keys, groups.parts, *(column.tolist() for column in numbers)


@given(st.lists(keys, unique=True), st.integers(0, 3))
def test_keys_are_in_the_order_of_their_bytes(given_keys, skipped):
    column = pa.array(given_keys, pa.binary())[skipped:]
    assert [column[place].as_py() for place in key_order(column).tolist()] == sorted(given_keys[skipped:])


@pytest.mark.parametrize("way", WAYS, indirect=True)
@given(st.lists(keys), st.integers(0, 2))
def test_each_group_has_the_records_of_its_key_in_order(given_keys, skipped):
    column = pa.array(given_keys, pa.binary())[skipped:]
    groups = KeyGroups(column)
    assert groups.keys == sorted(set(given_keys[skipped:])) == groups.names.to_pylist()
    for key, begin, end, last in zip(groups.keys, groups.starts, groups.ends, groups.last, strict=True):
        places = [place for place, other in enumerate(given_keys[skipped:]) if other == key]
        assert groups.order[begin:end].tolist() == places
        assert last == places[-1]


@pytest.mark.parametrize("way", WAYS, indirect=True)
@given(st.lists(st.tuples(st.integers(0, 3), keys), min_size=1))
def test_parts_come_in_order_and_their_keys_within_them(given_rows):
    parts, column = np.array([part for part, _ in given_rows]), pa.array([key for _, key in given_rows], pa.binary())
    groups = KeyGroups(column, parts)
    assert list(zip(groups.parts, groups.keys, strict=True)) == sorted(set(given_rows))
    for part, key, begin, end in zip(groups.parts, groups.keys, groups.starts, groups.ends, strict=True):
        assert groups.order[begin:end].tolist() == [at for at, row in enumerate(given_rows) if row == (part, key)]


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_many_keys_are_grouped_as_few():
    column = pa.array([b"%d" % (n % 70_001) for n in range(70_020)], pa.binary())
    groups = KeyGroups(column)
    assert groups.keys == sorted({b"%d" % n for n in range(70_001)})
    assert groups.ends.tolist()[-1] == 70_020
    of = dict(zip(groups.keys, groups.last.tolist(), strict=True))
    assert (of[b"3"], of[b"70000"]) == (70_004, 70_000)


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_records_without_a_key_are_not_grouped():
    with pytest.raises(Fallback):
        KeyGroups(pa.array([b"a", None]))


@in_c
@given(st.lists(keys), st.integers(0, 3), st.integers(0, 3))
def test_groups_in_c_are_those_in_python(given_keys, skipped, cut):
    column = pa.array(given_keys, pa.binary())[skipped : max(skipped, len(given_keys) - cut)]
    assert all_of(KeyGroups(column)) == all_of(in_python(column))


@in_c
@given(st.lists(st.tuples(parts, keys)), st.integers(0, 3))
def test_groups_with_parts_in_c_are_those_in_python(given_rows, skipped):
    column = pa.array([key for _, key in given_rows], pa.binary())[skipped:]
    part = np.array([part for part, _ in given_rows], dtype=np.int64)[skipped:]
    assert all_of(KeyGroups(column, part)) == all_of(in_python(column, part))


def some_keys(kind):
    """Return a hundred thousand keys of a kind."""
    some = random.Random(kind)
    make = {
        "numbers": lambda: b"customer-%07d" % some.randrange(5_000_000),
        "few": lambda: b"%d" % some.randrange(3000),
        "bytes": lambda: some.randbytes(some.randrange(12)),
        "bits": lambda: some.randbytes(8),
        "regions": lambda: b"region-%d-of-the-world-%d-shop-%d" % tuple(some.randrange(n) for n in (3, 9, 4000)),
        "zeros": lambda: bytes(some.randrange(300)),
        "letters": lambda: bytes(some.choices(b"ab", k=some.randrange(40))),
        "one": lambda: b"the only one",
        "none": lambda: b"",
    }[kind]
    return [make() for _ in range(100_000)]


@in_c
@pytest.mark.parametrize("kind", ["numbers", "few", "bytes", "bits", "regions", "zeros", "letters", "one", "none"])
def test_many_keys_are_grouped_in_c_as_in_python(kind):
    column = pa.array(some_keys(kind), pa.binary())[7:]
    part = np.random.default_rng(1).integers(0, 5, len(column))
    assert all_of(KeyGroups(column)) == all_of(in_python(column))
    assert all_of(KeyGroups(column, part)) == all_of(in_python(column, part))


@in_c
def test_keys_that_are_all_of_another_key_and_more_are_grouped_in_time():
    column = pa.array([b"a" * (n * 7919 % 6007) for n in range(6007)], pa.binary())
    assert [len(key) for key in KeyGroups(column).keys] == list(range(6007))


@pytest.mark.parametrize("way", WAYS, indirect=True)
@pytest.mark.parametrize("column", [pa.array([], pa.binary()), pa.array([b"a"], pa.binary())[1:]])
def test_no_records_are_no_groups(column):
    for part in (None, np.array([], dtype=np.int64)):
        assert all_of(KeyGroups(column, part)) == ([],) * 6


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_parts_of_other_numbers_will_do(way):
    part = np.array([9, 1, 9, 0, 9, 1], dtype=np.int32)[::2]
    assert KeyGroups(pa.array([b"b", b"a", b"b"]), part).parts == [9, 9]


def test_keys_of_other_types_are_grouped_in_python():
    assert KeyGroups(pa.array(["b", "a", "b"])).keys == ["a", "b"]
    assert KeyGroups(pa.array([b"b", b"a", b"b"], pa.large_binary())).keys == [b"a", b"b"]


@in_c
def test_columns_that_are_too_short_are_refused():
    _, offsets, data = pa.array([b"a", b"b"], pa.binary()).buffers()
    backwards = np.array([0, 2, 1], dtype=np.int32)
    numbers = np.arange(2)
    for wrong in [
        (99, offsets, data, 0, None),
        (2, offsets, data, 99, None),
        (2, offsets, data, -1, None),
        (-1, offsets, data, 0, None),
        (2, offsets, None, 0, None),
        (2, None, data, 0, None),
        (2, offsets, data, 0, numbers[:1]),
        (2, backwards, data, 0, None),
        (2, -backwards, data, 0, None),
    ]:
        with pytest.raises(ValueError, match="shorter than its rows"):
            grouping.loops.group(*wrong)
    with pytest.raises(OverflowError, match="too many"):
        grouping.loops.group(1 << 40, offsets, data, 0, None)


@in_c
def test_numbers_need_not_lie_at_even_places():
    array, part = pa.array([b"b", b"", b"a", b"b"], pa.binary()), np.array([1, 0, 1, 1])
    _, offsets, data = array.buffers()
    odd = memoryview(b"-" + offsets.to_pybytes())[1:]
    odd_part = memoryview(b"-" + part.tobytes())[1:]
    assert grouping.loops.group(4, odd, data, 0, odd_part) == grouping.loops.group(4, offsets, data, 0, part)


@in_c
def test_threads_do_not_share_the_room_of_a_call():
    columns = [pa.array([b"%d" % (n * 7 % size) for n in range(size * 2)], pa.binary()) for size in (50, 3000, 20_000)]
    wanted = [all_of(KeyGroups(column)) for column in columns]
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(all_of, threads.map(KeyGroups, columns * 10)))
    assert found == wanted * 10
