"""Runs: many rows as one value of LMDB. In C as in Python, and a map of single rows and runs as a dict."""

from __future__ import annotations

import multiprocessing
import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.native import loader, sorted_runs
from penstock.state import lmdb_map, lmdb_write
from penstock.state import sorted_run as runs
from penstock.state.bulk import SortedRows
from penstock.state.lmdb_store import LmdbState

in_c = pytest.mark.skipif(loader.in_c("sorted_runs") is None, reason="the loops in C are not built here, or left out")
keys = (
    st.binary(max_size=2)
    | st.binary(max_size=12)
    | st.builds(lambda n: b"customer-%d" % n, st.integers(0, 40))
    | st.builds(lambda n: b"a" + bytes(n), st.integers(0, 12))
)
rows_of_a_run = st.dictionaries(keys, st.none() | st.binary(max_size=5), max_size=20)
some_runs = st.lists(rows_of_a_run, max_size=5)
edges = st.none() | keys


def packed(rows):
    names = sorted(rows)
    return runs.pack(pa.array(names, pa.binary()), pa.array([rows[name] for name in names], pa.binary()))


def sorted_rows(rows):
    names = sorted(rows)
    return SortedRows(pa.array(names, pa.binary()), pa.array([rows[name] for name in names], pa.binary()))


def model_of(given_runs):
    model = {}
    for run in reversed(given_runs):
        model.update(run)
    return model


# ---- the loops


@in_c
@given(some_runs, st.lists(keys, max_size=30), edges, edges, st.booleans(), st.integers(0, 8), st.booleans())
def test_c_says_of_runs_what_python_says(given_runs, asked, lower, upper, backwards, most, keep):
    given_bytes = [packed(run) for run in given_runs]
    asked += [key for run in given_runs for key in run]
    for column in (pa.array(asked, pa.binary()), pa.array(sorted(asked), pa.binary())[1:]):
        _, offsets, data = column.buffers()
        question = (given_bytes, len(column), offsets, data, column.offset)
        assert runs.loops.find_many(*question) == sorted_runs.find_many(*question)
    for loops in (runs.loops, sorted_runs):
        model = model_of(given_runs)
        assert [loops.find(given_bytes, key) for key in asked] == [model.get(key) for key in asked]
        there = sorted((key, value) for key, value in model.items() if value is not None)
        inside = [r for r in there if (lower is None or r[0] >= lower) and (upper is None or r[0] < upper)]
        assert loops.rows(given_bytes, lower, upper, backwards, most) == inside[:: -1 if backwards else 1][:most]
        assert loops.count(given_bytes) == len(there)
        merged = loops.merge(given_bytes, keep)
        assert merged == packed(model if keep else dict(there))


def test_large_runs_are_merged_and_found():
    some = random.Random(5)
    given_runs = [
        {b"k%d" % some.randrange(30_000): b"%d-%d" % (n, some.randrange(99)) for _ in range(9000)} for n in range(4)
    ]
    given_bytes, model = [packed(run) for run in given_runs], model_of(given_runs)
    asked = [b"k%d" % n for n in range(30_000)]
    wanted = [model.get(key) for key in asked]
    assert runs.find_column(given_bytes, pa.array(asked, pa.binary())).to_pylist() == wanted
    merged = runs.loops.merge(given_bytes, False)
    assert runs.find_column([merged], pa.array(asked, pa.binary())).to_pylist() == wanted
    assert merged == packed(model)


@in_c
@given(rows_of_a_run, st.data())
def test_a_damaged_run_is_an_error_and_never_a_wild_read(rows, data):
    whole = bytearray(packed(rows))
    places = st.integers(0, len(whole) - 1)
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(places)] = data.draw(st.integers(0, 255))
    damaged = bytes(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    column = pa.array([*rows, b"other"], pa.binary())
    _, offsets, held = column.buffers()
    for ask in (
        lambda: runs.loops.find([damaged], b"a"),
        lambda: runs.loops.find_many([damaged, damaged], len(column), offsets, held, 0),
        lambda: runs.loops.rows([damaged], None, None, False, 100),
        lambda: runs.loops.rows([damaged], b"a", b"b", True, 100),
        lambda: runs.loops.count([damaged]),
        lambda: runs.loops.unpack(damaged),
        lambda: runs.loops.merge([damaged, damaged], True),
    ):
        try:
            ask()
        except ValueError as error:
            assert "run" in str(error)  # noqa: PT017 - what is not refused was read within its bounds


@in_c
def test_what_is_asked_for_wrongly_is_refused():
    run = packed({b"a": b"1"})
    _, offsets, data = pa.array([b"a", b"b"], pa.binary()).buffers()
    for wrong in [(99, offsets, data, 0), (2, offsets, data, 99), (-1, offsets, data, 0), (2, offsets, None, 0)]:
        with pytest.raises(ValueError, match="shorter than its rows"):
            runs.loops.find_many([run], *wrong)
    with pytest.raises(OverflowError, match="65 runs are too many"):
        runs.loops.count([run] * 65)
    with pytest.raises(ValueError, match="not as long"):
        runs.loops.count([run[:-1]])
    with pytest.raises(TypeError):
        runs.loops.count([7])


@in_c
@given(rows_of_a_run, st.integers(0, 3), st.booleans())
def test_c_packs_as_python_packs(rows, skipped, stamped):
    names = sorted(rows)
    columns = [
        pa.array(column, pa.binary())[min(skipped, len(names)) :] for column in (names, [rows[name] for name in names])
    ]
    times = np.arange(len(columns[0]), dtype=np.int64) * 1_234_567_890_123 - 7 if stamped else None
    packed_rows = [(name, rows[name]) for name in names[skipped:]]
    made = runs.pack(*columns, times)
    if times is not None:
        stamps = [int(time).to_bytes(8, "big", signed=True) for time in times]
        packed_rows = [
            (name, None if value is None else stamp + value)
            for (name, value), stamp in zip(packed_rows, stamps, strict=True)
        ]
    assert list(runs.SortedRun(made)) == packed_rows == sorted_runs.unpack(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "loops", sorted_runs)
        assert runs.pack(*columns, times) == made


# ---- how many there are


def test_runs_stay_few_and_rows_are_written_few_times():
    sizes: list[int] = []
    written = 0
    for _ in range(1000):
        taken = runs.how_many_to_merge(100, [(size, size * 50) for size in sizes])
        sizes = [100 + sum(sizes[:taken]), *sizes[taken:]]
        written += sizes[0]
        assert len(sizes) <= 10
    assert written <= 10 * 100_000


def test_a_run_that_would_be_too_long_is_not_merged():
    most = runs.MOST_BYTES
    assert runs.how_many_to_merge(100, [(100, most // 2), (100, most // 2 + 1)]) == 1


# ---- a map of single rows and of runs


@pytest.fixture
def bulk_from_one_row(monkeypatch):
    monkeypatch.setattr(lmdb_write, "BULK", 1)


@pytest.fixture(params=["in C", "in Python"])
def either_way(request, monkeypatch, bulk_from_one_row):
    """Runs are read by the loops in C, or without them."""
    if request.param == "in C" and loader.in_c("sorted_runs") is None:
        pytest.skip("the loops in C are not built here, or left out")
    loops = runs.loops if request.param == "in C" else sorted_runs
    for module in (runs, lmdb_map, lmdb_write):
        monkeypatch.setattr(module, "loops", loops)
    monkeypatch.setattr(lmdb_write, "is_built", True)


@pytest.fixture
def lmdb(tmp_path):
    state = LmdbState(tmp_path / "shard")
    yield state
    state.destroy()


long_keys = st.sampled_from([b"", b"\0", b"\0\0", b"x" * 510, b"x" * 511, b"x" * 700, b"\xff"])
writes = st.lists(st.tuples(keys | long_keys, st.none() | st.binary(max_size=3)), max_size=12)
loads = st.dictionaries(keys, st.binary(max_size=3), max_size=12)
steps = st.lists(st.tuples(st.just("write"), writes) | st.tuples(st.just("load"), loads), max_size=8)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps, edges, edges, st.booleans())
def test_a_map_that_is_loaded_and_written_is_an_ordered_dict(lmdb, either_way, steps, lower, upper, reverse):
    lmdb.drop("m")
    rows, model = lmdb.map("m"), {}
    for how, given_rows in steps:
        if how == "load":
            rows.load(sorted_rows(given_rows))
        else:
            rows.write(given_rows)
        for key, value in dict(given_rows).items():
            model.pop(key, None)
            if value is not None:
                model[key] = value
        there = sorted(model.items())
        inside = [r for r in there if (lower is None or r[0] >= lower) and (upper is None or r[0] < upper)]
        assert list(rows.range(lower, upper, reverse)) == inside[:: -1 if reverse else 1]
        assert list(rows.range(None, None)) == there
        assert rows.count() == len(model)
        asked = [*dict(given_rows), *model, b"other"]
        wanted = [model.get(key) for key in asked]
        assert [rows.get(key) for key in asked] == wanted
        assert rows.get_many(asked) == wanted
        assert rows.column(pa.array(asked, pa.binary())).to_pylist() == wanted
        prefixes = [key[:2] for key in asked]
        assert rows.under(prefixes) == [[r for r in there if r[0].startswith(prefix)] for prefix in prefixes]


@in_c
def test_long_ranges_come_in_order_both_ways_through_single_rows_and_runs(lmdb, bulk_from_one_row):
    rows, model = lmdb.map("m"), {}
    for n, (how, start, step) in enumerate([("load", 0, 1), ("write", 3, 7), ("load", 1, 5), ("write", 0, 11)]):
        some = {b"%05d" % i: b"%d" % n for i in range(start, 3000, step)}
        rows.load(sorted_rows(some)) if how == "load" else rows.write(some.items())
        model.update(some)
    rows.write([(b"%05d" % i, None) for i in range(0, 3000, 13)])
    wanted = [row for row in sorted(model.items()) if int(row[0]) % 13]
    assert list(rows.range(None, None)) == wanted
    assert list(rows.range(None, None, reverse=True)) == wanted[::-1]
    assert list(rows.range(b"00100", b"01900")) == [row for row in wanted if b"00100" <= row[0] < b"01900"]
    assert rows.count() == len(wanted)


@in_c
def test_no_row_is_missed_if_single_rows_become_a_run_while_they_are_iterated(lmdb, bulk_from_one_row):
    for reverse in (False, True):
        rows = lmdb.map(f"m{reverse}")
        rows.load(sorted_rows({b"%05d" % i: b"run" for i in range(0, 2000, 2)}))
        rows.write([(b"%05d" % i, b"single") for i in range(1, 2000, 2)])
        seen = []
        for key, _ in rows.range(None, None, reverse):
            seen.append(int(key))
            if len(seen) == 10:
                rows.load(sorted_rows({b"00000": b"more"}))
        assert seen == list(range(2000))[:: -1 if reverse else 1]


@in_c
def test_few_rows_stay_single_ones(lmdb):
    rows = lmdb.map("m")
    rows.load(sorted_rows({b"a": b"1"}))
    assert rows._runs == ()
    rows.load(sorted_rows({b"%05d" % n: b"2" for n in range(lmdb_write.BULK)}))
    assert rows.get(b"a") == b"1"
    assert len(rows._runs) == 1


@in_c
def test_a_dropped_map_leaves_no_run(lmdb, bulk_from_one_row):
    lmdb.map("a").load(sorted_rows({b"k": b"a"}))
    lmdb.map("b").load(sorted_rows({b"k": b"b"}))
    lmdb.drop("a")
    assert lmdb.map("a").get(b"k") is None
    assert lmdb.map("b").get(b"k") == b"b"
    lmdb.map("b").write([(b"k", None)])
    assert lmdb.map("b").count() == 0
    assert lmdb.map("b")._runs == ()
    assert lmdb.look().stat(lmdb._run_values)["entries"] == 0
    lmdb.map("a").load(sorted_rows({b"l": b"again"}))
    assert list(lmdb.map("a").range(None, None)) == [(b"l", b"again")]


@in_c
def test_a_load_that_fails_with_its_batch_leaves_no_run(lmdb, bulk_from_one_row):
    rows = lmdb.map("m")
    rows.load(sorted_rows({b"k": b"before"}))

    def fail():
        with lmdb.batch():
            rows.load(sorted_rows({b"k": b"after"}))
            raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        fail()
    assert list(rows.range(None, None)) == [(b"k", b"before")]


@in_c
def test_loads_larger_than_the_map_find_room(tmp_path):
    state = LmdbState(tmp_path / "small", map_size=1 << 20)
    for round_ in range(3):
        state.map("m").load(sorted_rows({b"%05d" % n: b"%d" % round_ * 400 for n in range(5000)}))
    assert state.map("m").count() == 5000
    assert state.map("m").get(b"04999") == b"2" * 400
    state.destroy()


def _loader(folder, go, done) -> None:
    lmdb_write.BULK = 1
    state = LmdbState(folder)
    while (number := go.get()) is not None:
        state.map("m").load(sorted_rows({b"%05d" % n: b"%d" % number for n in range(3000)}))
        done.put(number)
    state.close()


@in_c
def test_a_view_sees_one_state_while_another_process_loads(tmp_path, bulk_from_one_row):
    spawn = multiprocessing.get_context("spawn")
    go, done = spawn.Queue(), spawn.Queue()
    state = LmdbState(tmp_path / "shard")
    rows = state.map("m")
    rows.load(sorted_rows({b"%05d" % n: b"first" for n in range(3000)}))
    other = spawn.Process(target=_loader, args=(tmp_path / "shard", go, done))
    other.start()
    for number in range(3):
        before = rows.get(b"00007")
        go.put(number)
        assert done.get(timeout=60) == number
        asked = pa.array([b"00007", b"02999"], pa.binary())
        assert rows.column(asked).to_pylist() == [before] * 2
        assert {value for _, value in rows.range(None, None)} == {before}
        state.release()
        assert rows.column(asked).to_pylist() == [b"%d" % number] * 2
        assert rows.count() == 3000
    go.put(None)
    other.join()
    assert other.exitcode == 0
    state.destroy()


def test_where_the_loops_are_not_built_no_run_is_made(lmdb, monkeypatch, bulk_from_one_row):
    monkeypatch.setattr(lmdb_write, "is_built", False)
    lmdb.map("m").load(sorted_rows({b"k": b"v"}))
    assert (lmdb.map("m")._runs, lmdb.map("m").get(b"k")) == ((), b"v")


CHANGING = """
import struct, sys, threading, time
import numpy as np
from penstock.state import sorted_run as runs

ROWS, LARGE = 400_000, 30_000_000
edges = np.arange(ROWS + 1, dtype=np.uint32) * 6
head = struct.pack("=5I", 1, ROWS, 0, ROWS * 6, LARGE)
keys = b"".join(b"%06d" % n for n in range(ROWS))
run = bytearray(head + edges.tobytes() + bytes(4 * (ROWS + 1)) + keys + bytes(LARGE))
begin = len(head) + 4 * (ROWS + 1)
values = np.frombuffer(run, np.uint32, ROWS + 1, begin)  # where values end: at first none has any bytes
other = runs.loops.merge([bytes(run)], False)
ended = set()
for attempt in range(int(sys.argv[1])):
    values[:] = 0
    def change(pause=0.0005 * attempt):
        time.sleep(pause)
        values[1:] = LARGE  # the first one has all of them
    thread = threading.Thread(target=change)
    thread.start()
    try:
        made = runs.loops.merge([run, other], False)
        ended.add(len(runs.loops.unpack(made)))
    except ValueError as error:
        assert "does not lie in it" in str(error), error
        ended.add("refused")
    thread.join()
assert ended <= {ROWS, "refused"}, ended
print(sorted(map(str, ended)))
"""


@in_c
def test_a_run_that_changes_while_it_is_merged_is_an_error_and_writes_nothing_outside():
    """A view of LMDB's memory may change when its transaction ends."""
    ran = subprocess.run([sys.executable, "-c", CHANGING, "12"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, (ran.returncode, ran.stdout[-500:], ran.stderr[-2000:])
