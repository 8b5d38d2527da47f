"""Rows that are restored in bulk are those that are restored one by one, wherever the changelog is cut."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import Serdes
from penstock.state import restore as restoring
from penstock.state.bulk import SLICE, ChangelogBuffer, SortedRows
from penstock.state.lmdb_store import LmdbState
from penstock.state.restore import Restorer, restore
from penstock.state.spec import Stores

RAW = {"key": Serdes.bytes, "value": Serdes.bytes}
SPECS = {
    "plain": Stores.key_value("s", **RAW),
    "timestamped": Stores.key_value("s", timestamped=True, **RAW),
    "shared": Stores.shared("s", **RAW),
    "expiring": Stores.key_value("s", ttl=50, **RAW),
    "windows": Stores.window("s", 60_000, 1000, **RAW),
    "timestamped windows": Stores.window("s", 60_000, 1000, **RAW).with_(timestamped=True, segment_interval=1 << 39),
    "duplicates": Stores.window("s", 60_000, 1000, retain_duplicates=True, **RAW),
    "sessions": Stores.session("s", 60_000, **RAW),
}
BY_TIME = {"windows": 12, "timestamped windows": 12, "duplicates": 12, "sessions": 16}
keys = st.one_of(
    st.binary(max_size=2),
    st.sampled_from([b"", b"\0", b"\0a", b"\1", b"x" * 510, b"x" * 511, b"x" * 700, b"x" * 700 + b"y"]),
)
changes = st.lists(st.tuples(keys, st.none() | st.binary(max_size=3), st.integers(0, 1 << 41)), max_size=40)


def contents(state):
    return {name: list(state.map(name).range(None, None)) for name in state.names()}


def columns(rows):
    return ([key for key, _, _ in rows], [value for _, value, _ in rows], [time for _, _, time in rows])


@pytest.mark.parametrize("kind", SPECS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=changes,
    cuts=st.lists(st.integers(0, 40), max_size=3),
    writes=st.sets(st.integers(0, 4)),
    few=st.sampled_from([0, 10, 40]),
)
def test_a_changelog_restored_in_pieces_gives_what_it_gives_row_by_row(
    make_state, monkeypatch, kind, rows, cuts, writes, few
):
    monkeypatch.setattr(restoring, "FEW", few)
    spec = SPECS[kind]
    if kind in BY_TIME:  # changelog keys end with a time and a number, or with another time
        more = BY_TIME[kind] - 8
        rows = [(key + time.to_bytes(8, "big") + bytes(more), value, time) for key, value, time in rows]
    one, other = make_state(), make_state()
    for row in rows:
        restore(spec, one, [row])
    incoming, places = Restorer(spec), [0, *sorted(cuts), len(rows)]
    for number, (start, end) in enumerate(pairwise(places)):
        incoming.add(*columns(rows[start:end]))
        if number in writes:
            incoming.write_to(other)
    incoming.write_to(other)
    assert len(incoming) == 0
    held = {name: found for name, found in contents(one).items() if found}
    assert {name: found for name, found in contents(other).items() if found} == held
    for state in (one, other):
        state.destroy()


@given(changes)
def test_the_newest_of_each_key_is_kept_in_order(rows):
    gathered = ChangelogBuffer(stamped=False)
    for start in range(0, len(rows), 7):
        gathered.add(*columns(rows[start : start + 7]))
    plain, others = gathered.newest()
    assert gathered.rows == len(rows)
    assert [key for key, _ in plain] == sorted({key for key, _ in plain})
    assert len(plain) == len(list(plain))
    assert dict([*plain, *others]) == {key: value for key, value, _ in rows}


def test_many_rows_are_loaded_over_those_that_are_there(state):
    rows = state.map("m")
    count = 2 * SLICE + 5

    def load(numbers, value):
        keys = sorted(b"%06d" % number for number in numbers)
        rows.load(SortedRows(pa.array(keys, pa.large_binary()), pa.array([value] * len(keys), pa.large_binary())))

    load(range(0, count, 2), b"even")
    load(range(count), b"all")
    load(range(count, count + 3), b"after")
    load((), b"")
    expected = {b"%06d" % number: b"all" for number in range(count)}
    expected |= {b"%06d" % number: b"after" for number in range(count, count + 3)}
    assert dict(rows.range(None, None)) == expected


def test_a_load_larger_than_the_map_finds_room(tmp_path):
    state = LmdbState(tmp_path / "shard", map_size=1 << 20)
    values = [bytes([number % 256]) * 10_000 for number in range(1000)]
    keys = [b"%04d" % number for number in range(1000)]
    rows = SortedRows(pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()))
    with state.batch():
        state.map("m").load(rows)
        state.map("n").write([(b"k", b"v")])
    assert dict(state.map("m").range(None, None)) == dict(zip(keys, values, strict=True))
    assert state.map("n").get(b"k") == b"v"
    state.destroy()


def test_a_load_is_undone_with_its_batch(tmp_path):
    state = LmdbState(tmp_path / "shard")
    rows = SortedRows(pa.array([b"a"], pa.large_binary()), pa.array([b"1"], pa.large_binary()))

    def half_way():
        with state.batch():
            state.map("m").load(rows)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        half_way()
    assert state.names() == []
    state.destroy()


def test_rows_are_written_when_there_are_many_of_them_or_they_are_large(monkeypatch):
    monkeypatch.setattr(restoring, "MOST_ROWS", 3)
    monkeypatch.setattr(restoring, "MOST_BYTES", 1000)
    monkeypatch.setattr(restoring, "MOST_SINGLE_ROWS", 2)
    incoming = Restorer(SPECS["plain"])
    incoming.add([b"a", b"b"], [b"1", b"2"], [0, 0])
    assert not incoming.is_full()
    incoming.add([b"c"], [b"3"], [0])
    assert incoming.is_full()
    large = Restorer(SPECS["plain"])
    large.add([b"a"], [bytes(1000)], [0])
    assert large.is_full()
    single = Restorer(SPECS["duplicates"])
    single.add([bytes(12), bytes(12)], [b"1", b"2"], [0, 0])
    assert single.is_full()
