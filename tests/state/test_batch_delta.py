"""Rows that a fold by column has written: whoever looks at them, and whenever, sees what single rows would show."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.batch.batch import Batch
from penstock.batch.column import Column
from penstock.batch.fallback import Fallback
from penstock.batch.provenance import provenance_of
from penstock.kernels.aggregate import fold_values
from penstock.kernels.fold import Folding, open_fold
from penstock.kernels.transaction import BatchTransaction, forwarding
from penstock.record import NO_ORIGIN
from penstock.serde import Serdes
from penstock.state import pending
from penstock.state.batch_delta import ChangelogColumns, int64_sums
from penstock.state.memory import MemoryState
from penstock.state.open import open_store
from penstock.state.overlay import OverlayState
from penstock.state.restore import Standalone
from penstock.state.rows import RowStore
from penstock.state.sorted_run import SortedRun, pack
from penstock.state.spec import Stores

#: keys of one epoch: new, rare and repeated ones, some that LMDB does not take as they are
names = st.sampled_from(["a", "b", "c", "d", "", "\0", "long" * 200]) | st.integers(0, 40).map(str)
epochs = st.lists(st.lists(st.tuples(names, st.integers(0, 50)), min_size=1, max_size=30), min_size=1, max_size=4)
verbs = st.sampled_from(["get", "put", "delete", "scan", "count", "fold", "nothing", "nothing"])


def opened(state, *, timestamped=True, value=Serdes.int64):
    spec = Stores.key_value("s", key=Serdes.string, value=value, timestamped=timestamped, cached=True)
    store = open_store(spec, state, Standalone())
    assert isinstance(store, RowStore)
    return store


def columns_of(records):
    keys = Column([key for key, _ in records])
    times = np.array([time for _, time in records], dtype=np.int64)
    return Batch(keys, Column([1] * len(records)), times, None, provenance_of([NO_ORIGIN] * len(records)))


def count_by_column(store, records):
    fold_by_column(store, lambda: 0, None, records)


def fold_by_column(store, initializer, fold, records):
    transaction = BatchTransaction()
    folding = Folding(*store.serdes, initializer, fold)
    open_fold(store.rows, folding, store.next_number)(columns_of(records), transaction)
    transaction.commit()


def count_one_by_one(store, records):
    fold = store.make_fold(lambda: 0, lambda key, value, count: count + 1, pytest.fail)
    for key, time in records:
        fold(key, 1, time, ())


def do(store, verb, key, count):
    """Do something to a store between two folds; return what it shows."""
    match verb:
        case "get":
            return store.read(key)
        case "put":
            return store.write(key, 7, 9)
        case "delete":
            return store.write(key, None, 9)
        case "scan":
            return list(store.all())
        case "count":
            return store.approximate_num_entries()
        case "fold":
            return count(store, [(key, 60)])
    return None


def barrier(store):
    """Go through a barrier; return what was forwarded, and the changelog by key."""
    told = []
    store.on_flush(lambda *row: told.append(row), send_old=False)
    while store.flush():
        pass
    sealed = store.seal()
    return told, {key: row for key, *row in sealed.changelog}, sealed


@pytest.mark.parametrize("timestamped", [True, False])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(epochs, st.lists(st.tuples(verbs, names), max_size=8), st.booleans())
def test_folds_by_column_leave_what_folds_one_by_one_leave(state, timestamped, given_epochs, steps, late):
    state.drop("s")
    by_column, single = opened(state, timestamped=timestamped), opened(MemoryState(), timestamped=timestamped)
    waiting = []
    for number, records in enumerate(given_epochs):
        count_by_column(by_column, records)
        count_one_by_one(single, records)
        verb, key = steps[number] if number < len(steps) else ("nothing", "")
        assert do(by_column, verb, key, count_by_column) == do(single, verb, key, count_one_by_one)
        (told, log, sealed), (wanted, wanted_log, wanted_sealed) = barrier(by_column), barrier(single)
        assert (told, log) == (wanted, wanted_log)
        assert sorted(sealed.writes) == sorted(wanted_sealed.writes)
        waiting.append((sealed, wanted_sealed))
        while waiting and not (late and len(waiting) < 2):  # applied at once, or an epoch later
            one, other = waiting.pop(0)
            by_column.apply(one)
            single.apply(other)
        verb, key = steps[-number - 1] if number < len(steps) else ("nothing", "")
        if verb in ("get", "scan"):
            assert do(by_column, verb, key, None) == do(single, verb, key, None)
    assert list(by_column.all()) == list(single.all())


def test_rows_of_one_fold_stay_columns_up_to_the_pending_file_and_the_state(state):
    store = opened(state)
    store.on_flush(pytest.fail, send_old=False)
    forwarded = []
    store.on_flush_batch(forwarding(lambda batch, _: forwarded.append(batch)))
    count_by_column(store, [("b", 1), ("a", 2), ("b", 3)])
    assert store.flush()
    assert not store.flush()
    (columns,) = forwarded
    assert (columns.keys.items, columns.values.items, columns.timestamps.tolist()) == (["a", "b"], [1, 2], [2, 3])
    sealed = store.seal()
    assert isinstance(sealed.writes, SortedRun)
    assert isinstance(sealed.changelog, ChangelogColumns)
    pending.apply(state, pending.pack({"s": sealed}))
    assert [opened(state).read(key) for key in "abc"] == [(1, 2), (2, 3), None]


@given(st.dictionaries(st.binary(min_size=1), st.binary(), min_size=1), st.integers(0, 2))
def test_a_pending_file_gives_back_rows_in_columns(given_rows, skipped):
    keys = sorted(given_rows)
    column = pa.array(keys, pa.binary())[skipped:], pa.array([given_rows[key] for key in keys], pa.binary())[skipped:]
    data = pending.pack({"s": pending.Sealed(SortedRun(pack(*column)))})
    wanted = [(key, given_rows[key]) for key in keys[skipped:]]
    found = pending.unpack(data)
    assert list(found["s"].writes if wanted else ()) == wanted
    assert list(OverlayState(MemoryState(), found).map("s").range(None, None)) == wanted


def test_what_was_forwarded_by_column_is_what_those_downstream_know():
    """A row that is deleted after its update was forwarded in the same epoch is owed its delete."""
    store = opened(MemoryState())
    told = []
    store.on_flush(lambda *row: told.append(row), send_old=False)
    store.on_flush_batch(
        forwarding(lambda batch, then: then.on_commit(lambda: told.append((batch.keys.items, batch.values.items))))
    )
    count_by_column(store, [("a", 1), ("b", 1)])
    assert store.flush()
    store.write("a", None, 5)
    store.write("c", None, 5)
    assert store.flush()
    assert told == [(["a", "b"], [1, 1]), (["a"], [None])]
    assert {key: value for key, value, *_ in store.seal().changelog} == {b"a": None, b"b": Serdes.int64.serialize(1)}


@pytest.mark.parametrize("keys", ["ab", "abb", "aab"])
def test_an_object_that_two_groups_share_is_not_for_columns(keys):
    shared = []

    def gather(_key, _value, so_far):
        so_far.append(1)
        return so_far

    store = opened(MemoryState(), value=Serdes.json)
    records = [(key, 0) for key in keys]
    with pytest.raises(Fallback):
        fold_by_column(store, lambda: shared, fold_values(gather), records)
    fold_by_column(store, list, fold_values(gather), records)
    assert [store.get(key).value for key in "ab"] == [[1] * keys.count(key) for key in "ab"]


@given(st.lists(st.tuples(st.none() | st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 1 << 40)), min_size=1))
def test_counts_are_added_as_numbers_or_refused(given_rows):
    rows = pa.array([None if old is None else Serdes.int64.serialize(old) for old, _ in given_rows], pa.binary())
    sums = [(old or 0) + count for old, count in given_rows]
    if any(total >= 1 << 63 for total in sums):
        with pytest.raises(Fallback):
            int64_sums(rows, np.array([count for _, count in given_rows]))
    else:
        found = int64_sums(rows, np.array([count for _, count in given_rows]))
        assert [Serdes.int64.deserialize(row) for row in found.to_pylist()] == sums


def test_a_row_of_another_length_is_no_count():
    with pytest.raises(Fallback):
        int64_sums(pa.array([b"1234"]), np.array([1]))
