"""What a run of the tests says at its end: a test that fails how to run it alone, and what the processes needed; too much fails the run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests import limits
limits.MOST_FILES, limits.MOST_MB = {files}, {megabytes}
def pytest_configure(config):
    config.pluginmanager.register(limits.Limits())
"""
TESTS = """
held = []

def test_that_passes():
    pass

def test_that_opens_files():
    held.extend(open("/dev/null") for _ in range(300))

def test_whose_child_needs_memory():
    import subprocess, sys
    subprocess.run([sys.executable, "-c", "len(bytearray(250_000_000))"])
"""


def run(folder: Path, tests: str, *options: str, files: int = 1000, megabytes: int = 2048) -> tuple[int, str]:
    (folder / "conftest.py").write_text(CONFTEST.format(files=files, megabytes=megabytes))
    (folder / "test_some.py").write_text(tests)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            "/dev/null",
            "--rootdir",
            ".",
            *options,
            "test_some.py",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return done.returncode, done.stdout


def test_a_test_that_fails_says_how_to_run_it_alone(tmp_path):
    code, said = run(tmp_path, "def test_it():\n    assert False\n")
    assert code == 1
    assert ".venv/bin/pytest 'test_some.py::test_it'" in said


def test_what_the_processes_needed_is_in_the_summary(tmp_path):
    code, said = run(tmp_path, TESTS)
    assert code == 0
    assert "peaks, " in said
    assert "memory of a child" in said


@pytest.mark.parametrize(
    ("options", "limits", "what"),
    [((), {"files": 300}, "opens_files"), (("-n", "1"), {"megabytes": 200}, "child_needs_memory")],
    ids=["files", "memory, in a worker of pytest-xdist"],
)
def test_a_run_that_needs_too_much_fails_and_names_the_test(tmp_path, options, limits, what):
    code, said = run(tmp_path, TESTS, *options, **limits)
    assert code == 1, said
    assert "too much for an ordinary machine" in said
    assert what in said.partition("too much for an ordinary machine")[2]
