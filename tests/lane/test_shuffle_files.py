"""Files of chunks: written over once their epoch is over, and not before."""

import os

import pyarrow as pa
import pytest

from penstock.lane.shuffle_files import ShuffleFiles, shuffle_files_in
from penstock.protocol.chunk import opened_chunk


@pytest.fixture
def shelf(tmp_path):
    return ShuffleFiles(str(tmp_path))


def rows(*numbers):
    return [pa.RecordBatch.from_pydict({"n": [*numbers]})]


def numbers_in(chunk):
    return opened_chunk(chunk)["n"].to_pylist()


def test_rows_of_an_epoch_are_all_there_until_it_is_over(shelf, tmp_path):
    shelf.begin(1, "a")
    chunks = [shelf.stage(rows(number)) for number in range(5)]
    shelf.begin(1, "a")  # another task of the same run
    chunks += [shelf.stage(rows(number)) for number in range(5, 8)]
    assert [numbers_in(chunk) for chunk in chunks] == [[number] for number in range(8)]
    assert len(os.listdir(tmp_path)) == 8


def test_files_of_the_epoch_before_are_written_over_by_shorter_and_longer_ones(shelf, tmp_path):
    shelf.begin(1, "a")
    before = {shelf.stage(rows(*range(size))) for size in (1000, 10)}
    inodes = {entry.stat().st_ino for entry in os.scandir(tmp_path)}
    shelf.begin(2, "b")
    after = [shelf.stage(rows(*range(7, 7 + size))) for size in (20, 2000)]
    assert set(after) == before
    assert {entry.stat().st_ino for entry in os.scandir(tmp_path)} == inodes
    assert [numbers_in(chunk) for chunk in after] == [list(range(7, 27)), list(range(7, 2007))]


def test_files_that_the_last_epoch_had_no_use_for_are_deleted(shelf, tmp_path):
    for epoch, files in ((1, 5), (2, 2), (3, 1)):
        shelf.begin(epoch, f"run-{epoch}")
        for _ in range(files):
            shelf.stage(rows(epoch))
    assert len(os.listdir(tmp_path)) == 2
    shelf.begin(4, "run-4")
    assert len(os.listdir(tmp_path)) == 1


def test_files_of_a_run_that_was_given_up_are_deleted_and_never_written_over(shelf, tmp_path):
    shelf.begin(1, "first try")
    given_up = shelf.stage(rows(1, 2, 3))
    read_still = opened_chunk(given_up)
    shelf.begin(1, "second try")
    assert os.listdir(tmp_path) == []
    assert numbers_in(shelf.stage(rows(9))) == [9]
    assert read_still["n"].to_pylist() == [1, 2, 3]


def test_files_that_the_driver_has_deleted_are_made_anew(shelf, tmp_path):
    shelf.begin(1, "a")
    shelf.stage(rows(1))
    shelf.begin(2, "b")
    for name in os.listdir(tmp_path):
        os.unlink(tmp_path / name)
    assert numbers_in(shelf.stage(rows(2))) == [2]
    shelf.begin(3, "c")
    shelf.begin(4, "d")
    assert os.listdir(tmp_path) == []


def test_a_process_has_one_object_for_a_folder_whoever_asks(tmp_path):
    one, other = shuffle_files_in(str(tmp_path / "a")), shuffle_files_in(str(tmp_path / "b"))
    assert one is not other
    (tmp_path / "b").mkdir()
    shuffle_files_in(str(tmp_path / "c"))
    assert shuffle_files_in(str(tmp_path / "b")) is other
    assert shuffle_files_in(str(tmp_path / "a")) is not one  # its folder was not there: nobody comes back to it
