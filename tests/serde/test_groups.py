"""Records by key, keys in order."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serde.columns import Irregular
from penstock.serde.groups import Groups, key_order

#: keys that have much in common, that end where others go on, and that differ only far behind
keys = (
    st.binary(max_size=3)
    | st.binary(max_size=12)
    | st.builds(lambda n: b"customer-%d" % n, st.integers(0, 300))
    | st.builds(lambda n: b"a" + bytes(n), st.integers(0, 12))
    | st.builds(lambda last: b"much-in-common" + last, st.binary(max_size=2))
)


@given(st.lists(keys, unique=True), st.integers(0, 3))
def test_keys_are_in_the_order_of_their_bytes(given_keys, skipped):
    column = pa.array(given_keys, pa.binary())[skipped:]
    assert [column[place].as_py() for place in key_order(column).tolist()] == sorted(given_keys[skipped:])


@given(st.lists(keys), st.integers(0, 2))
def test_each_group_has_the_records_of_its_key_in_order(given_keys, skipped):
    column = pa.array(given_keys, pa.binary())[skipped:]
    groups = Groups(column)
    assert groups.keys == sorted(set(given_keys[skipped:])) == groups.names.to_pylist()
    for key, begin, end, last in zip(groups.keys, groups.starts, groups.ends, groups.last, strict=True):
        places = [place for place, other in enumerate(given_keys[skipped:]) if other == key]
        assert groups.order[begin:end].tolist() == places
        assert last == places[-1]


@given(st.lists(st.tuples(st.integers(0, 3), keys), min_size=1))
def test_parts_come_in_order_and_their_keys_within_them(given_rows):
    parts, column = np.array([part for part, _ in given_rows]), pa.array([key for _, key in given_rows], pa.binary())
    groups = Groups(column, parts)
    assert list(zip(groups.parts, groups.keys, strict=True)) == sorted(set(given_rows))
    for part, key, begin, end in zip(groups.parts, groups.keys, groups.starts, groups.ends, strict=True):
        assert groups.order[begin:end].tolist() == [at for at, row in enumerate(given_rows) if row == (part, key)]


def test_many_keys_are_grouped_as_few():
    column = pa.array([b"%d" % (n % 70_001) for n in range(70_020)], pa.binary())
    groups = Groups(column)
    assert groups.keys == sorted({b"%d" % n for n in range(70_001)})
    assert groups.ends.tolist()[-1] == 70_020
    of = dict(zip(groups.keys, groups.last.tolist(), strict=True))
    assert (of[b"3"], of[b"70000"]) == (70_004, 70_000)


def test_records_without_a_key_are_not_grouped():
    with pytest.raises(Irregular):
        Groups(pa.array([b"a", None]))
