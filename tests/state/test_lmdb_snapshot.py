"""A snapshot of a shard: what is there at a moment, for any thread; runs and long keys, too."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SnapshotClosed
from penstock.state.lmdb_store import LmdbState, NothingThere
from penstock.state.sorted_run import SortedRun, pack

keys = st.binary(min_size=0, max_size=3) | st.binary(min_size=509, max_size=513)
writes = st.lists(st.lists(st.tuples(keys, st.none() | st.binary(max_size=3)), max_size=6), min_size=1, max_size=5)


def run_of(count: int, value: bytes) -> SortedRun:
    names = [b"%06d" % n for n in range(count)]
    return SortedRun(pack(pa.array(names), pa.array([value] * count)))


@pytest.fixture
def state(tmp_path):
    made = LmdbState(tmp_path / "state")
    yield made
    made.destroy()


@given(writes)
def test_each_snapshot_has_the_rows_of_its_moment(tmp_path_factory, batches):
    state, model, taken = LmdbState(tmp_path_factory.mktemp("state") / "s", map_size=1 << 22), {}, []
    for rows in batches:
        taken.append((state.snapshot(), dict(model)))
        state.map("m").write(rows)
        for key, value in rows:
            model.pop(key, None) if value is None else model.update({key: value})
    taken.append((state.snapshot(), model))
    for snapshot, rows in taken:
        found = snapshot.map("m")
        assert list(found.range(None, None)) == sorted(rows.items())
        assert list(found.range(b"\x01", None, True)) == sorted(
            (r for r in rows.items() if r[0] >= b"\x01"), reverse=True
        )
        assert found.count() == len(rows)
        asked = [b"?", *rows]
        assert found.get_many(asked) == list(map(rows.get, asked)) == list(map(found.get, asked))
        assert found.under([b""]) == [sorted(rows.items())]
        snapshot.close()
    state.destroy()


def test_runs_are_those_of_the_moment(state):
    state.map("m").load(run_of(3000, b"old"))
    before = state.snapshot()
    state.map("m").load(run_of(3000, b"new"))
    state.map("m").write([(b"000007", b"single")])
    after = state.snapshot()
    assert (before.map("m").get(b"000007"), after.map("m").get(b"000007")) == (b"old", b"single")
    assert {value for _, value in before.map("m").range(None, None)} == {b"old"}
    assert before.map("m").count() == after.map("m").count() == 3000
    before.close()
    assert after.map("m").get(b"000008") == b"new"
    after.close()


def test_maps_come_and_go_and_a_snapshot_keeps_its_own(state):
    state.map("first").write([(b"k", b"1")])
    before = state.snapshot()
    state.drop("first")
    state.map("second").write([(b"k", b"2")])  # takes the place of the first
    after = state.snapshot()
    assert (before.names(), after.names()) == (["first"], ["second"])
    assert (before.map("first").get(b"k"), before.map("second").get(b"k")) == (b"1", None)
    assert (after.map("first").get(b"k"), after.map("second").get(b"k")) == (None, b"2")
    before.close()
    after.close()


def test_a_closed_snapshot_gives_nothing_more(state):
    state.map("m").write([(b"%04d" % n, b"v") for n in range(1000)])
    snapshot = state.snapshot()
    rows = snapshot.map("m").range(None, None)
    next(rows)
    snapshot.close()
    snapshot.close()
    with pytest.raises(SnapshotClosed, match="is closed"):
        list(rows)
    with pytest.raises(SnapshotClosed):
        snapshot.map("m").get(b"0001")


def test_a_map_that_grows_ends_the_snapshots_of_its_writer_and_says_so(state):
    state.map("m").write([(b"k", b"v")])
    snapshot = state.snapshot()
    state.make_room(8 << 20)
    with pytest.raises(SnapshotClosed, match="the file had to grow"):
        snapshot.map("m").get(b"k")
    snapshot.close()


def write_elsewhere(path, count: int, value: str) -> None:
    """Write from another process: a process opens an environment once."""
    rows = f"[(b'k', b'{value}'), *((b'%d' % n, bytes(1000)) for n in range({count}))]"
    code = f"from penstock.state.lmdb_store import LmdbState; LmdbState({str(path)!r}).map('m').write({rows})"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_reader_with_a_large_map_reads_on_while_the_file_grows(tmp_path):
    path = tmp_path / "state"
    write_elsewhere(path, 0, "1")
    reader = LmdbState(path, readonly=True, map_size=1 << 34, max_maps=8)
    snapshot = reader.snapshot()
    write_elsewhere(path, 5000, "2")
    assert path.joinpath("data.mdb").stat().st_size > 1 << 20
    assert list(snapshot.map("m").range(None, None)) == [(b"k", b"1")]
    newer = reader.snapshot()
    assert (newer.map("m").get(b"k"), newer.map("m").count()) == (b"2", 5001)
    snapshot.close()
    newer.close()
    reader.close()


def test_what_is_only_read_must_be_there(tmp_path):
    with pytest.raises(NothingThere):
        LmdbState(tmp_path / "nowhere", readonly=True)


def test_threads_share_a_snapshot(state):
    state.map("m").write([(b"%05d" % n, b"%d" % n) for n in range(5000)])
    snapshot, wrong = state.snapshot(), []

    def read(seed: int) -> None:
        found = snapshot.map("m")
        for n in range(seed, 5000, 7):
            if found.get(b"%05d" % n) != b"%d" % n:
                wrong.append(n)
        if sum(1 for _ in found.range(None, None)) != 5000:
            wrong.append("range")

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    snapshot.close()


def test_a_forked_process_cannot_use_nor_end_the_snapshot_of_its_parent(state):
    state.map("m").write([(b"k", b"1")])
    snapshot = state.snapshot()
    child = os.fork()
    if child == 0:
        try:
            snapshot.map("m").get(b"k")
        except SnapshotClosed:
            snapshot.close()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    for n in range(50):  # its pages are not used again
        state.map("m").write([(b"k", b"%d" % n)])
    assert snapshot.map("m").get(b"k") == b"1"
    snapshot.close()
