"""``penstock run --reload`` with an application on Spark and a broker: the new program goes on at the barrier where the old one ended.

The long form: it starts Spark twice.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.app.conftest import Cluster

from penstock.dev.watch import await_end, session

pytestmark = [
    pytest.mark.skipif(not os.environ.get("PENSTOCK_LONG"), reason="the long form: set PENSTOCK_LONG=1"),
    pytest.mark.xdist_group("spark"),
]
PROGRAM = """
from penstock import App, Serdes, Stores, StreamsBuilder

builder = StreamsBuilder()
numbers = builder.stream("{lines}", key=Serdes.string, value=Serdes.string).group_by_key()
last = Stores.key_value("last", value=Serdes.string, cached=False)
added = numbers.aggregate(lambda: "0", lambda key, value, before: f"{{int(before.split()[0]) + 1}} {{value}}", store=last)
added.to_stream().map_values(lambda value: f"{{value}} VERSION").to("{out}", value=Serdes.string)
app = App(builder, application_id="{application}", master="local[2]", lanes=2, shards=2)
"""
SPARK, LAUNCHER = b"org.apache.spark.deploy.SparkSubmit", b"org.apache.spark.launcher.Main"
KEYS = ("ant", "bee", "cow")


class Sender(threading.Thread):
    """Sends numbered records of some keys until it is told to stop."""

    def __init__(self, cluster, topic):
        super().__init__(daemon=True)
        self._cluster, self._topic = cluster, topic
        self._over = threading.Event()
        self.sent = 0

    def run(self):
        while not self._over.wait(0.02):
            rows = [(key, str(self.sent), 1_600_000_000_000 + self.sent) for key in KEYS]
            self._cluster.send(self._topic, *rows)
            self.sent += 1

    def stop(self):
        self._over.set()
        self.join()


def words(pid):
    """The command of a process; nothing, if it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def children(pid):
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def parent(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def is_program(pid):
    """Whether it is what the reloader runs: not the shell that watches it, nor what still has the reloader's name."""
    found = words(pid)
    return b"run" in found and b"--reload" not in found


def is_jvm(pid):
    """Whether it is the JVM of a Spark driver; the launcher, a JVM too, and scripts only name its class."""
    found = words(pid)
    return SPARK in found and LAUNCHER not in found and found[0].endswith(b"/java")


class Below(threading.Thread):
    """Watches the programs that a process has started, and their JVMs: which there are, and how many at a time."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self._pid = pid
        self._over = threading.Event()
        self.programs, self.jvms, self.most = set(), set(), {"programs": 0, "JVMs": 0}

    def run(self):
        while not self._over.wait(0.05):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                self._look()

    def _look(self):
        programs = set(filter(is_program, children(self._pid)))
        self.programs |= programs
        jvms = {pid for program in self.programs for pid in session(program) if is_jvm(pid)}
        jvms = {pid for pid in jvms if parent(pid) not in jvms}  # what a JVM starts has its name for a moment
        self.jvms |= jvms
        self.most = {"programs": max(self.most["programs"], len(programs)), "JVMs": max(self.most["JVMs"], len(jvms))}

    def stop(self):
        self._over.set()
        self.join()


@pytest.fixture
def cluster(kafka_broker):
    made = Cluster(kafka_broker.bootstrap_servers, f"reload-{os.getpid()}")
    yield made
    made.close()


@pytest.fixture
def program(cluster, tmp_path):
    """The program's file, and how to write a version of it."""
    names = {"lines": cluster.topic("lines"), "out": cluster.topic("out"), "application": cluster.name("app")}
    file = tmp_path / "reloaded.py"

    def write(version):
        file.write_text(PROGRAM.format(**names).replace("VERSION", version))
        return file

    return write


@pytest.fixture
def reloader(cluster, program, tmp_path):
    """``penstock run --reload``, what it says, and what is below it."""
    file, said = program("one"), tmp_path / "said"
    command = [
        sys.executable,
        "-c",
        "from penstock.cli import main; main()",
        "run",
        "--reload",
        f"{file}:app",
        "--plain",
    ]
    environment = {"PENSTOCK_BOOTSTRAP_SERVERS": cluster.servers, "PENSTOCK_STATE_DIR": str(tmp_path / "state")}
    with said.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | environment)
    below = Below(process.pid)
    below.start()
    yield process, said, below
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    process.wait()
    below.stop()


def values(cluster):
    """What came out, by key, in order: number, value, version."""
    found = {}
    for key, value in cluster.texts(cluster.name("out")):
        found.setdefault(key, []).append(tuple(value.split()))
    return found


def await_version(cluster, process, said, version, rows):
    for _ in range(1200):
        if sum(row[2] == version for row in values(cluster).get(KEYS[0], ())) >= rows:
            return
        assert process.poll() is None, said.read_text()
        threading.Event().wait(0.1)
    raise AssertionError(said.read_text())


def test_a_new_program_goes_on_at_the_barrier_where_the_one_before_has_ended(cluster, program, reloader):
    process, said, below = reloader
    sender = Sender(cluster, cluster.name("lines"))
    sender.start()
    await_version(cluster, process, said, "one", 100)
    program("two")
    await_version(cluster, process, said, "two", 100)
    sender.stop()
    of_one = sum(row[2] == "one" for row in values(cluster)[KEYS[0]])
    await_version(cluster, process, said, "two", sender.sent - of_one)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0, said.read_text()
    assert len(re.findall("reloaded.py has changed: starting again", said.read_text())) == 1

    for key in KEYS:  # every record once, in order, counted by a store that both have written to
        rows = values(cluster)[key]
        assert [row[:2] for row in rows] == [(str(number + 1), str(number)) for number in range(sender.sent)]
        versions = [row[2] for row in rows]
        assert versions == sorted(versions)
        assert set(versions) == {"one", "two"}
    below.stop()
    assert await_end(below.jvms, 30)
    assert below.most == {"programs": 1, "JVMs": 1}
    assert (len(below.programs), len(below.jvms)) == (2, 2)
    assert [session(program) for program in below.programs] == [[], []]
