"""Tests of a group run in one process: those that start Spark, those that build the site."""

import subprocess
import sys

TESTS = """
import os, pytest

@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("number", range(8))
def test_it(number):
    print("process", os.getpid())
"""


def test_a_group_runs_in_one_process(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    options = [
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "--rootdir",
        str(tmp_path),
        "-n",
        "2",
        "--dist",
        "loadgroup",
    ]
    command = [sys.executable, "-m", "pytest", *options, "-rP", str(tmp_path)]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    processes = [line for line in said.splitlines() if line.startswith("process ")]
    assert (len(processes), len(set(processes))) == (8, 1), said
