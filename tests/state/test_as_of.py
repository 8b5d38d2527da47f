"""Rows put and read by column are those put and read one by one."""

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.fallback import Fallback
from penstock.batch.provenance import provenance_of
from penstock.kernels.table_rows import open_put_to, open_read, rows_as_of
from penstock.kernels.transaction import BatchTransaction
from penstock.record import Origin
from penstock.serde import Serdes
from penstock.state.delta import StoreDelta
from penstock.state.memory import MemoryState
from penstock.state.open import Standalone, open_store
from penstock.state.spec import Stores
from penstock.state.write_back import WriteBack


class Item(msgspec.Struct):
    n: int


SERDES = [Serdes.json, Serdes.json_of(Item), Serdes.string]
updates = st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 3), st.integers(0, 9)), max_size=8)


def value_of(serde, n):
    if n is None:
        return None
    return str(n) if serde == Serdes.string else Item(n) if serde == Serdes.json_of(Item) else {"n": n}


def columns_of(serde, rows):
    keys, values = Column([row[0] for row in rows]), Column([value_of(serde, row[1]) for row in rows])
    headers = [(("t", b"%d" % row[2]),) for row in rows]
    return Batch(keys, values, np.array([row[2] for row in rows]), headers, provenance_of(origins(rows)))


def origins(rows):
    return [Origin("t", 0, at, time, None, None, (), 0, at) for at, (_, _, time) in enumerate(rows)]


def seen_of(store):
    """Return what a store tells at the barrier, and what it hands out; a row that came and went is announced."""
    told = []
    store.on_flush(lambda *update: told.append((*update, store._context.origin)), send_old=True)
    store.announce_vanished()
    store.flush()
    return told, store.seal()


def read_of(store):
    return open_read(store.rows, store.name, store.serdes)


@pytest.mark.parametrize("cached", [True, False])
@given(serde=st.sampled_from(SERDES), before=updates, batches=st.lists(updates, max_size=3))
def test_rows_that_are_put_by_column_are_those_put_one_by_one(cached, serde, before, batches):
    seen = []
    for by_column in (True, False):
        spec = Stores.key_value("s", key=Serdes.string, value=serde, cached=cached, timestamped=True)
        store = open_store(spec, MemoryState(), Standalone())
        for key, n, time in before:
            store.write(key, value_of(serde, n), time)
        store.apply(store.seal())
        for rows in batches:
            if by_column and rows:
                transaction = BatchTransaction()
                open_put_to(store)(columns_of(serde, rows), transaction)
                assert not store.rows.dirty or rows is not batches[0], "nothing is written before the commit"
                transaction.commit()
            elif not by_column:
                for (key, n, time), origin in zip(rows, origins(rows), strict=True):
                    store._context.origin = origin
                    store.write(key, value_of(serde, n), time, (("t", b"%d" % time),))
        store._context.origin = None
        seen.append(seen_of(store))
    assert seen[0] == seen[1]


@given(serde=st.sampled_from(SERDES), before=updates, asked=st.lists(st.sampled_from("abcd"), min_size=1))
def test_rows_that_are_read_by_column_are_those_read_one_by_one(serde, before, asked):
    store = open_store(Stores.key_value("s", key=Serdes.string, value=serde), MemoryState(), Standalone())
    for key, n, time in before:
        store.write(key, value_of(serde, n), time)
    found = read_of(store)(Column(list(asked)), columns_of(serde, [(key, 0, 0) for key in asked]), BatchTransaction())
    rows = [store.read(key) for key in asked]
    assert found.rows == [None if row is None else row[0] for row in rows]
    assert found.gaps == (None in rows)


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([b"a", b"b", b"c"]), st.none() | st.sampled_from([b"x", b"y"])),
        min_size=1,
    )
)
def test_a_row_is_as_the_last_update_in_front_has_left_it(events):
    """Each event is an update of a key or a question for it, at its place."""
    rows = WriteBack(MemoryState(), "s", stamped=False)
    rows.base.write([(b"a", b"before")])
    now, wanted = {b"a": b"before"}, []
    for is_update, key, row in events:
        if is_update:
            now[key] = row
        else:
            wanted.append(now.get(key))
    told = [(place, key, row) for place, (is_update, key, row) in enumerate(events) if is_update]
    asked = [(place, key) for place, (is_update, key, _) in enumerate(events) if not is_update]
    if not told or not asked:
        return
    places, keys, new = zip(*told, strict=True)
    questions = pa.array([key for _, key in asked]), np.array([place for place, _ in asked])
    found, at = rows_as_of(
        rows.get_many, *questions, StoreDelta(pa.array(keys), pa.array(new, pa.binary()), None, places=np.array(places))
    )
    assert [found[place] for place in at] == wanted


def test_a_row_that_reads_as_none_is_not_for_columns():
    store = open_store(Stores.key_value("s", key=Serdes.string, value=Serdes.json), MemoryState(), Standalone())
    store.rows.base.write([(b"a", b"null")])
    with pytest.raises(Fallback):
        read_of(store)(Column(["a"]), columns_of(Serdes.json, [("a", 0, 0)]), BatchTransaction())
