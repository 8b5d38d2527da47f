"""The checksums of LMDB's pages: kept commit by commit they are those of all pages, and any damage is found."""

from __future__ import annotations

import multiprocessing
import random

import pyarrow as pa
import pytest

from penstock.state import lmdb_pages
from penstock.state.lmdb_pages import Damaged, PageSums, heal
from penstock.state.lmdb_store import LmdbState
from penstock.state.sorted_run import SortedRun, pack


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "shard"
    yield path
    LmdbState.at(path).destroy()


def some_writes(state: LmdbState, chosen: random.Random) -> None:
    """Write, delete and drop: single rows, long keys, values with pages of their own, runs, new maps."""
    name = chosen.choice(["a", "b", "c", f"segment-{chosen.randrange(6)}"])
    kind = chosen.randrange(6)
    if kind == 0:
        state.drop(name)
    elif kind == 1:
        keys = sorted({b"%05d" % chosen.randrange(20_000) for _ in range(3000)})
        values = [chosen.randbytes(8)] * len(keys)
        state.map(name).load(SortedRun(pack(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))))
    else:
        size = chosen.choice([3, 40, 5000, 30_000])
        rows_of = {
            b"%04d" % chosen.randrange(2000) + b"x" * chosen.choice([0, 0, 600]): chosen.choice(
                [None, chosen.randbytes(size)]
            )
            for _ in range(chosen.randrange(1, 60))
        }
        state.map(name).write(rows_of.items())


def table_of(folder) -> tuple[int, list[int]]:
    """Return the checksums as one who reads all pages makes them."""
    sums = PageSums(str(folder))
    (folder / lmdb_pages.NAME).rename(folder / "away")
    sums.follow()
    (folder / "away").rename(folder / lmdb_pages.NAME)
    return sums._transaction, list(sums._table)


@pytest.mark.parametrize("seed", range(4))
def test_commit_by_commit_they_are_those_of_all_pages(folder, seed):
    chosen = random.Random(seed)
    state = LmdbState(folder, checksums=True)
    for _ in range(120):
        if chosen.random() < 0.3:
            state.look()  # an open view keeps the pages of its moment
        if chosen.random() < 0.05:
            state.close()
            state = LmdbState(folder, checksums=True)
        some_writes(state, chosen)
        kept = PageSums(str(folder))
        kept.check()
        transaction, table = table_of(folder)
        assert kept._transaction == transaction
        in_use = list(kept._table)
        assert in_use[: len(table)] == table
        assert not any(in_use[len(table) :])


def _writes(folder, seed: int) -> None:
    state = LmdbState(folder, checksums=True)
    some_writes(state, random.Random(seed))
    state.close()


def test_processes_that_write_in_turn_keep_them_together(folder):
    state = LmdbState(folder, checksums=True)
    chosen = random.Random(9)
    for turn in range(3):
        some_writes(state, chosen)
        state.release()
        process = multiprocessing.get_context("spawn").Process(target=_writes, args=(folder, turn))
        process.start()
        process.join()
        assert process.exitcode == 0
        PageSums(str(folder)).check()


def test_a_process_that_ends_before_they_are_written_leaves_them_behind_and_the_next_write_makes_them_anew(folder):
    state = LmdbState(folder, checksums=True)
    state.map("a").write([(b"k", b"v")])
    before = (folder / lmdb_pages.NAME).read_bytes()
    state.map("a").write([(b"k", b"w")])
    state.close()
    (folder / lmdb_pages.NAME).write_bytes(before)
    with pytest.raises(Damaged, match="transaction"):
        PageSums(str(folder)).check()
    state = LmdbState(folder, checksums=True)
    state.map("a").write([(b"l", b"x")])
    PageSums(str(folder)).check()
    assert state.map("a").get(b"k") == b"w"


def test_every_flipped_byte_of_a_page_in_use_is_found_before_lmdb_sees_it(folder):
    state = LmdbState(folder, checksums=True)
    chosen = random.Random(1)
    for _ in range(20):
        some_writes(state, chosen)
    state.close()
    whole = (folder / "data.mdb").read_bytes()
    sums = PageSums(str(folder))
    sums.check()
    in_use = [number for number, known in enumerate(sums._table) if known]
    for _ in range(300):
        at = 4096 * chosen.choice(in_use) + chosen.randrange(4096)
        with open(folder / "data.mdb", "r+b") as file:
            file.seek(at)
            file.write(bytes([whole[at] ^ 1 << chosen.randrange(8)]))
        with pytest.raises(Damaged):
            PageSums(str(folder)).check()
        with open(folder / "data.mdb", "r+b") as file:
            file.seek(at)
            file.write(whole[at : at + 1])
    PageSums(str(folder)).check()


def test_damage_is_looked_for_once_in_a_run(folder, caplog):
    state = LmdbState(folder, checksums=True)
    state.map("a").write([(b"k", b"v")])
    state.close()
    assert not heal(folder, "run 1")
    (folder / lmdb_pages.NAME).unlink()
    assert not heal(folder, "run 1")
    assert heal(folder, "run 2")
    assert not folder.exists()
    assert "restored from its changelog: it has no checksums" in caplog.text
