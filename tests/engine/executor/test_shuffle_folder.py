"""The folder of chunks on their way: what is left in it, and by whom, is deleted."""

import os
import subprocess
import sys

from penstock.engine.executor.shuffle_folder import ShuffleFolder


def test_the_folders_of_processes_that_have_ended_are_deleted_and_others_are_not(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    gone, alive = tmp_path / "staging" / f"{ended.pid}-a", tmp_path / "staging" / f"{os.getppid()}-a"
    for folder in (gone, alive):
        folder.mkdir(parents=True)
        (folder / "chunk").write_bytes(b"")
    staging = ShuffleFolder(tmp_path)
    assert not gone.exists()
    assert (alive / "chunk").exists()
    staging.close()
    assert not staging.folder.exists()


def test_all_files_are_deleted_when_an_epoch_has_failed(tmp_path):
    staging = ShuffleFolder(tmp_path)
    (staging.folder / "chunk").write_bytes(b"rows")
    staging.clear()
    assert list(staging.folder.iterdir()) == []
    staging.close()


def test_two_runs_of_one_process_have_a_folder_each(tmp_path):
    one, other = ShuffleFolder(tmp_path), ShuffleFolder(tmp_path)
    assert one.folder != other.folder
    one.close()
    assert other.folder.exists()
    other.close()


def test_files_of_workers_that_are_no_more_are_swept_and_others_stay(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    staging = ShuffleFolder(tmp_path)
    for name in (f"{ended.pid}.0", f"{ended.pid}.1", f"{os.getpid()}.0"):
        (staging.folder / name).write_bytes(b"rows")
    staging.sweep()
    assert [path.name for path in staging.folder.iterdir()] == [f"{os.getpid()}.0"]
    staging.close()
