"""A disk without space is an error that says so, not a signal."""

import subprocess
import sys

import pytest

SMALL_DISK = "mount -t tmpfs -o size={size} none {folder} && exec {python} -c '{program}' {folder}"

GROWING = """
import os, sys
from pathlib import Path
from penstock.errors import StoreError
from penstock.state import pending
from penstock.state.lmdb_store import LmdbState
state = LmdbState(sys.argv[1] + "/shard", checksums=True)
rows = 0
try:
    while True:
        state.map("a").write([(b"%08d" % n, os.urandom(100)) for n in range(rows, rows + 1000)])
        rows += 1000
except StoreError as error:
    print(error)
assert state.map("a").count() == rows > 1000  # what was written is there
try:
    pending.write(Path(sys.argv[1]), "pending-1", bytes(1 << 23))
except StoreError as error:
    print(error)
"""


def on_a_small_disk(folder, size: str, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program over a disk of this size, which only it sees."""
    made = SMALL_DISK.format(size=size, folder=folder, python=sys.executable, program=program)
    return subprocess.run(["unshare", "-rm", "sh", "-c", made], capture_output=True, text=True, timeout=120)


def test_state_that_has_no_space_is_an_error_that_names_the_file_and_the_remedy(tmp_path):
    if on_a_small_disk(tmp_path, "1m", "pass").returncode:
        pytest.skip("a small disk cannot be made here: unshare and mount are not allowed")
    done = on_a_small_disk(tmp_path, "6m", GROWING)
    assert done.returncode == 0, (done.returncode, done.stderr)
    state, pending = done.stdout.splitlines()
    assert f"no space left on the disk: {tmp_path}/shard/data.mdb needs 8.4 MB" in state
    assert "set state_dir" in state
    assert "pending-1" in pending
