"""Values that are put by column: rows, updates and changelog are those of single puts, deletes and old values included."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.provenance import provenance_of
from penstock.kernels import table_rows
from penstock.kernels.table_rows import open_put_to
from penstock.kernels.transaction import BatchTransaction, forwarding
from penstock.record import NO_ORIGIN
from penstock.serde import Serdes
from penstock.state import pending
from penstock.state.memory import MemoryState
from penstock.state.open import open_store
from penstock.state.restore import Standalone
from penstock.state.rows import RowStore
from penstock.state.sorted_run import SortedRun
from penstock.state.spec import Stores

names = st.sampled_from(["a", "b", "c", "", "\0", "\0z", "long" * 200])
puts = st.lists(st.tuples(names, st.none() | st.integers(0, 5), st.integers(0, 50)), min_size=1, max_size=20)
verbs = st.sampled_from(["get", "put", "delete", "scan", "put many", "flush", "nothing", "nothing"])


def opened(state, *, cached=True):
    spec = Stores.key_value("s", key=Serdes.string, value=Serdes.json, timestamped=True, cached=cached)
    store = open_store(spec, state, Standalone())
    assert isinstance(store, RowStore)
    return store


def put_by_column(store, records):
    keys, values = Column([key for key, _, _ in records]), Column([value for _, value, _ in records])
    times = np.array([time for _, _, time in records], dtype=np.int64)
    transaction = BatchTransaction()
    batch = Batch(keys, values, times, None, provenance_of([NO_ORIGIN] * len(records)))
    open_put_to(store)(batch, transaction)
    transaction.commit()


def put_one_by_one(store, records):
    for key, value, time in records:
        store.write(key, value, time)


def do(store, verb, key, put):
    match verb:
        case "get":
            return store.read(key)
        case "put":
            return store.write(key, 7, 9)
        case "delete":
            return store.write(key, None, 9)
        case "scan":
            return list(store.all())
        case "put many":
            return put(store, [(key, 8, 60), ("b", None, 61)])
        case "flush":
            return store.flush()
    return None


class TimeUpdate:
    """What a store has forwarded: (key, new, old, timestamp)."""

    def __init__(self, store, send_old, announce, *, by_column):
        self.rows, self.columns = [], 0
        self._send_old = send_old
        store.on_flush(lambda *row: self.rows.append(row[:4]), send_old=send_old)
        if announce:
            store.announce_vanished()
        if by_column:
            store.on_flush_batch(forwarding(self._take))

    def _take(self, columns, transaction):
        old = columns.old.items if self._send_old else [None] * len(columns)
        rows = list(zip(columns.keys.items, columns.values.items, old, columns.timestamps.tolist(), strict=True))
        transaction.on_commit(lambda: self.rows.extend(rows))
        self.columns += len(rows)


@pytest.mark.parametrize("send_old", [True, False])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(puts, min_size=1, max_size=4), st.lists(st.tuples(verbs, names), max_size=8), st.booleans(), st.booleans()
)
def test_puts_by_column_leave_what_single_puts_leave(state, send_old, given_epochs, steps, late, announce):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_rows, "FEW", 1)
        state.drop("s")
        by_column, single = opened(state), opened(MemoryState())
        seen = TimeUpdate(by_column, send_old, announce, by_column=True)
        wanted = TimeUpdate(single, send_old, announce, by_column=False)
        waiting = []
        for number, records in enumerate(given_epochs):
            put_by_column(by_column, records)
            put_one_by_one(single, records)
            verb, key = steps[number] if number < len(steps) else ("nothing", "")
            assert do(by_column, verb, key, put_by_column) == do(single, verb, key, put_one_by_one)
            for store in (by_column, single):
                while store.flush():
                    pass
            assert seen.rows == wanted.rows
            sealed, wanted_sealed = by_column.seal(), single.seal()
            assert {row[0]: row for row in sealed.changelog} == {row[0]: row for row in wanted_sealed.changelog}
            assert sorted(sealed.writes) == sorted(wanted_sealed.writes)
            waiting.append((sealed, wanted_sealed))
            while waiting and not (late and len(waiting) < 2):  # applied at once, or an epoch later
                one, other = waiting.pop(0)
                by_column.apply(one)
                single.apply(other)
        assert list(by_column.all()) == list(single.all())


def test_rows_that_are_put_and_deleted_stay_columns_up_to_the_state(state, monkeypatch):
    monkeypatch.setattr(table_rows, "FEW", 1)
    state.map("s").write([(b"\0a", bytes(8) + b"1"), (b"b", bytes(8) + b"2")])
    store = opened(state)
    told = TimeUpdate(store, True, False, by_column=True)
    put_by_column(store, [("\0a", None, 5), ("b", 3, 6), ("c", 4, 7), ("d", None, 8)])
    assert store.flush()
    assert told.columns == 3
    assert told.rows == [("\0a", None, 1, 5), ("b", 3, 2, 6), ("c", 4, None, 7)]
    sealed = store.seal()
    assert isinstance(sealed.writes, SortedRun)
    pending.apply(state, pending.pack({"s": sealed}))
    assert [opened(state).read(key) for key in ("\0a", "b", "c", "d")] == [None, (3, 6), (4, 7), None]


def test_rows_below_prefixes_are_found_in_what_was_put_by_column(state, monkeypatch):
    monkeypatch.setattr(table_rows, "FEW", 1)
    state.map("s").write([(b"a1", bytes(8) + b"1"), (b"a2", bytes(8) + b"2"), (b"b1", bytes(8) + b"3")])
    store = opened(state, cached=False)
    put_by_column(store, [("a0", 0, 5), ("a1", None, 6), ("a2", 4, 7)])
    under = store.rows.under
    assert under([b"b", b"a", b"c"]) == [[(b"b1", b"3")], [(b"a0", b"0"), (b"a2", b"4")], []]
    assert isinstance(store.seal().writes, SortedRun)
