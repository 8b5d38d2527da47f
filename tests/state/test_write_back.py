"""The layers of a store are read key by key and many at a time alike."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.state.base import prefix_end
from penstock.state.write_back import WriteBack

keys = st.binary(max_size=2) | st.sampled_from([b"x" * 511, b"\0"])
layers = st.dictionaries(keys, st.none() | st.binary(max_size=2), max_size=6)


@pytest.mark.parametrize("stamped", [True, False])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(layers, max_size=3), st.lists(keys, max_size=8))
def test_many_rows_are_looked_up_as_one_by_one(state, stamped, epochs, more):
    """The first epoch is in the base, the second is pending, the third is being written."""
    state.drop("m")
    rows, asked = WriteBack(state, "m", stamped=stamped), list(more)
    for number, written in enumerate(epochs):
        rows.dirty.update((key, (value, 7 + number, (), None, 0)) for key, value in written.items())
        asked += written
        if number < 2:
            sealed = rows.seal(rows.dirty.items(), logged=True)
            if number == 0:
                rows.apply(sealed)
    wanted = [rows.lookup(key) for key in asked]
    assert rows.lookup_many(asked) == wanted
    assert rows.get_many(asked) == [None if row is None else row.value for row in wanted]
    before = [rows.before(key) for key in asked]
    assert rows.before_many(asked) == [None if row is None else row.value for row in before]
    scanned = [[row[:2] for row in rows.scan(key, prefix_end(key))] for key in asked]
    assert rows.under(asked) == scanned
