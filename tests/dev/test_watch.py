"""What was launched ends with the process that launched it, with all its children; what is released stays."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from penstock.dev import watch

#: says that it is ready; says so when it is asked to end
POLITE = 'trap "echo asked; exit 0" TERM; echo ready; while :; do sleep 0.05; done'
#: has a child in a process group of its own, as Spark's Python daemon is
CHILD = "import os, time\nif not os.fork(): os.setpgid(0, 0)\nprint('ready', flush=True)\ntime.sleep(600)"
FAMILY = [sys.executable, "-c", CHILD]

LAUNCH = """
import sys
from pathlib import Path
from penstock.dev.watch import Watch
folder, log, script = sys.argv[1:]
made = Watch(Path(folder) if folder else None)
print(made.launch(["sh", "-c", script], Path(log)).pid, flush=True)
input()
"""


def until(condition, seconds=30):
    """Ask again and again; there is no event to wait for in a process that is not our child."""
    wait = threading.Event().wait
    for _ in range(seconds * 50):
        if condition():
            return
        wait(0.02)
    pytest.fail("it did not happen")


def launched(tmp_path, folder=""):
    """Start a process that launches another one; return both."""
    command = [sys.executable, "-c", LAUNCH, str(folder), str(tmp_path / "log"), POLITE]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    until(lambda: "ready" in (tmp_path / "log").read_text())
    return parent, pid


def test_when_the_parent_is_killed_its_process_is_asked_to_end(tmp_path):
    parent, pid = launched(tmp_path)
    parent.kill()
    parent.wait()
    until(lambda: not watch.session(pid))
    assert "asked" in (tmp_path / "log").read_text()


def test_with_a_temporary_folder_it_ends_at_once_and_the_folder_goes(tmp_path):
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a folder" / "file").write_text("")
    parent, pid = launched(tmp_path, tmp_path / "a folder")
    parent.kill()
    parent.wait()
    until(lambda: not watch.session(pid))
    until(lambda: not (tmp_path / "a folder").exists())
    assert "asked" not in (tmp_path / "log").read_text()


def test_what_is_released_is_left_alone(tmp_path):
    guard = watch.Watch(tmp_path)
    process = guard.launch(["sleep", "600"], tmp_path / "log")
    guard.release()
    guard.release()
    assert process.poll() is None
    assert tmp_path.exists()
    watch.kill_session(process.pid)
    assert process.wait() == -signal.SIGKILL


def test_a_session_is_killed_with_children_that_left_the_process_group(tmp_path):
    guard = watch.Watch()
    process = guard.launch(FAMILY, tmp_path / "log", {**os.environ, "SOME": "thing"})
    until(lambda: (tmp_path / "log").read_text().count("ready") == 2)
    members = watch.session(process.pid)
    assert len(members) == 2
    assert not watch.await_end(members, timeout=0)
    watch.kill_session(process.pid)
    assert watch.await_end(members, timeout=0)
    assert watch.session(process.pid) == []
    process.wait()
    guard.release()
