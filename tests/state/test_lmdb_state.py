from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

import pytest

from penstock.errors import StoreError
from penstock.state import lmdb_format, lmdb_store
from penstock.state.lmdb_store import LmdbState


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "shard"
    yield path
    LmdbState.at(path).destroy()


def test_rows_outlive_the_process_object(folder):
    first = LmdbState(folder)
    first.map("a").write([(b"k", b"v")])
    first.close()
    assert LmdbState(folder).map("a").get(b"k") == b"v"


def test_a_map_that_is_asked_for_between_two_views_has_its_rows(folder):
    first = LmdbState(folder)
    first.map("a").write([(b"k", b"v")])
    first.map("b").write([(b"k", b"w")])
    first.close()
    state = LmdbState(folder)
    assert state.map("a").get(b"k") == b"v"
    state.release()
    other = state.map("b")
    assert other.get(b"k") == b"w"
    assert list(other.range(None, None)) == [(b"k", b"w")]


def test_one_process_opens_a_folder_once(folder):
    state = LmdbState(folder)
    assert LmdbState.at(folder) is state
    with pytest.raises(StoreError, match="already open"):
        LmdbState(folder)


def test_a_folder_that_was_deleted_and_made_anew_is_opened_anew(folder, tmp_path):
    before = LmdbState.at(folder)
    before.map("a").write([(b"k", b"old")])
    assert LmdbState.at(folder) is before
    folder.rename(tmp_path / "away")
    other = LmdbState.at(folder)
    assert other is not before
    assert other.map("a").get(b"k") is None
    with pytest.raises(StoreError, match="closed"):
        before.map("a").get(b"k")


def test_the_map_grows_by_itself(folder):
    state = LmdbState(folder, map_size=1 << 20)
    value = os.urandom(100_000)
    with state.batch():
        for i in range(100):
            state.map("a").write([(b"%03d" % i, value)])
    assert state.map("a").count() == 100
    assert state.map("a").get(b"099") == value


def test_a_folder_of_an_earlier_boot_is_discarded(folder):
    state = LmdbState(folder)
    state.map("a").write([(b"k", b"v")])
    state.close()
    if lmdb_format.boot_id() is None:
        pytest.skip("this system has no boot id")
    (folder / "boot-id").write_text("another boot")
    assert LmdbState(folder).map("a").get(b"k") is None


def test_a_forked_process_must_open_the_folder_anew(folder):
    state = LmdbState(folder)
    state.map("a").write([(b"k", b"v")])
    assert state.map("a").get(b"k") == b"v"
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            state.map("a").get(b"k")
            os.write(writer, b"read")
        except StoreError:
            os.write(writer, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 10) == b"refused"
    os.close(reader)
    os.close(writer)


def _other_process(folder) -> None:
    state = LmdbState(folder)
    state.drop("old")
    state.map("new").write([(b"k", b"new"), *((b"%06d" % i, b"x" * 1000) for i in range(3000))])
    state.map("old").write([(b"k2", b"again")])
    state.close()


def test_after_release_one_sees_what_another_process_wrote_and_dropped(folder):
    state = LmdbState(folder, map_size=1 << 20)
    old = state.map("old")
    old.write([(b"k", b"old")])
    assert old.get(b"k") == b"old"
    process = multiprocessing.get_context("spawn").Process(target=_other_process, args=(folder,))
    process.start()
    process.join()
    assert process.exitcode == 0
    state.release()
    assert state.map("new").get(b"k") == b"new"
    assert list(old.range(None, None)) == [(b"k2", b"again")]
    old.write([(b"k3", b"ours")])
    assert [key for key, _ in old.range(None, None)] == [b"k2", b"k3"]


def _reader(folder, questions, answers) -> None:
    state = LmdbState(folder, readonly=True)
    while (name := questions.get()) is not None:
        answers.put((list(state.map(name).range(None, None)), state.map(name).count(), state.names()))
        state.release()
    state.close()


def test_a_reader_in_another_process_follows_the_writer(folder):
    spawn = multiprocessing.get_context("spawn")
    questions, answers = spawn.Queue(), spawn.Queue()
    state = LmdbState(folder, map_size=1 << 20)
    state.map("a").write([(b"k", b"1")])
    reader = spawn.Process(target=_reader, args=(folder, questions, answers))
    reader.start()
    questions.put("a")
    assert answers.get(timeout=60) == ([(b"k", b"1")], 1, ["a"])
    state.map("b").write([(b"%04d" % i, b"x" * 1000) for i in range(3000)])
    state.map("a").write([(b"k", b"2")])
    questions.put("a")
    assert answers.get(timeout=60) == ([(b"k", b"2")], 1, ["a", "b"])
    state.drop("a")
    questions.put("b")
    assert answers.get(timeout=60)[1:] == (3000, ["b"])
    questions.put("a")
    assert answers.get(timeout=60) == ([], 0, ["b"])
    questions.put(None)
    reader.join()
    assert reader.exitcode == 0


def test_a_closed_state_says_so(folder):
    state = LmdbState(folder)
    state.close()
    with pytest.raises(StoreError, match="closed"):
        state.map("a").get(b"k")


def test_a_failed_batch_writes_nothing(folder):
    state = LmdbState(folder)

    def fail() -> None:
        with state.batch():
            state.map("a").write([(b"k", b"v")])
            raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        fail()
    assert state.map("a").get(b"k") is None


BESIDE = """
import os, subprocess, sys
from penstock.state.lmdb_store import LmdbState
opening = "import sys; from penstock.state.lmdb_store import LmdbState; LmdbState(sys.argv[1], map_size=1 << 20).map('a').get(b'k')"
state = LmdbState(sys.argv[1], map_size=1 << 20)
state.map("a").write([(b"k", b"v")])
state.make_room(8 << 20)
subprocess.run([sys.executable, "-c", opening, sys.argv[1]], check=True)
state.map("a").write([(b"%04d" % n, os.urandom(1000)) for n in range(6000)])
print(state.map("a").count())
"""


def test_a_process_that_opens_it_does_not_cut_off_the_file_of_one_whose_map_is_larger(folder):
    done = subprocess.run([sys.executable, "-c", BESIDE, folder], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "6001\n"), done


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_many_environments_need_few_descriptors_and_all_can_be_read_and_written(tmp_path, monkeypatch):
    monkeypatch.setattr(lmdb_store, "MOST_OPEN", 10)
    before = open_files()
    states = [LmdbState(tmp_path / str(n)) for n in range(40)]
    for turn in range(2):
        for n, state in enumerate(states):
            state.map("a").write([(b"%d" % turn, b"%d" % n)])
            state.release()
            assert open_files() <= before + 2 * 10
    for n, state in enumerate(states):
        assert list(state.map("a").range(None, None)) == [(b"0", b"%d" % n), (b"1", b"%d" % n)]
        assert state.map("b").get(b"k") is None
        state.release()
        assert open_files() <= before + 2 * 10
    for state in states:
        state.destroy()
    assert open_files() <= before  # tests before this one may have left some, which are closed meanwhile


def test_a_view_that_somebody_reads_is_not_closed_for_others_unless_it_may_be(tmp_path, monkeypatch):
    left_open = [LmdbState(tmp_path / f"left{n}") for n in range(30)]  # as by tests before this one
    monkeypatch.setattr(lmdb_store, "MOST_OPEN", 2)
    read, again, *others = [LmdbState(tmp_path / str(n)) for n in range(6)]
    again.may_reopen = True
    for state in (read, again):
        state.map("a").write([(b"%04d" % n, b"v") for n in range(1000)])
    rows, rows_again = read.map("a").range(None, None), again.map("a").range(None, None)
    next(rows)
    next(rows_again)
    for state in others:
        state.map("a").write([(b"k", b"v")])
    assert read._environment is not None
    assert again._environment is None
    assert len(list(rows)) == len(list(rows_again)) == 999
    for state in (read, again, *others, *left_open):
        state.destroy()
