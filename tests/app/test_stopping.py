"""Whoever asks an application to end, and whichever of its processes hear it: it ends at a barrier, in order, and nothing is left.

A program of each kind runs its application once for each way to ask, one after the other, on the same Spark session: that takes longer
to start than all else. At last, with a session of its own, its JVM is killed or has no memory left.
One of the programs has none of the loops in C, as where there is no compiler.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from penstock.dev.watch import await_end, kill_session, session
from penstock.engine.record import read_last
from penstock.log.topics import epochs_name

START = 1_600_000_000_000
#: is in settings, and must not be seen
HUSH = "hush-4711-canary"
PROGRAM = """
import os
import sys
import time
from dataclasses import dataclass

import msgspec

from penstock import App, Serdes, StreamsBuilder
from penstock.engine.executor.spark_session import make_session, stop_session

spark_settings = {{"spark.driver.memory": "512m", "spark.ssl.keyPassword": "{hush}"}}
shared = []


@dataclass
class Total:
    count: int = 0


class Line(msgspec.Struct):
    text: str


def slow(value):
    time.sleep(0.005)
    return Line(value)


def add(key, line, total):
    return Total(total.count + bool(line.text))


def exhaust(step, epoch):
    if os.path.exists("{folder}/exhaust-{application}"):
        from pyspark import SparkContext

        try:
            SparkContext._jvm.java.nio.ByteBuffer.allocate(2**30)
        except Exception:
            pass


def make():
    builder = StreamsBuilder()
    lines = builder.stream("{lines}", key=Serdes.string, value=Serdes.string).map_values(slow)
    totals = lines.group_by_key(value=Serdes.json_of(Line)).aggregate(Total, add, store="counts", value=Serdes.json_of(Total))
    totals.to_stream().map_values(lambda total: total.count).to("{out}", value=Serdes.int64)
    app = App(builder, application_id="{application}", bootstrap_servers="{servers}", master="local[1]", shards=2,
              state_dir="{folder}/state-{application}", kafka={{"sasl.password": "{hush}"}},
              spark_settings=spark_settings, spark=shared[0] if shared else None)
    app.on_step(exhaust)
    return app


def run_again_and_again(run):
    shared.append(make_session("local[1]", "stopping", spark_settings))
    for _ in range({runs}):
        run()
        print("ended", flush=True)
        sys.stdin.readline()
    stop_session(shared.pop())
    run()


if __name__ == "__main__":
    run_again_and_again(lambda: make().run())
"""
#: ``penstock run``, several times in a process; another exit code than 0 ends it
COMMAND = """
import sys
from penstock.cli import main
from penstock.cli.locate import load_module

def run():
    try:
        main()
    except SystemExit as exit:
        if exit.code != 0:
            raise

sys.argv[1:] = ["run", "--plain", "{module}:make"]
load_module("{module}").run_again_and_again(run)
"""


def alone(pid: int) -> Iterable[int]:
    return [pid]


def group(pid: int) -> Iterable[int]:
    return [each for each in session(pid) if os.getpgid(each) == pid]


WAYS: list[tuple[int, Callable[[int], Iterable[int]]]] = [
    (number, who) for who in (alone, group, session) for number in (signal.SIGTERM, signal.SIGINT)
]


class Program:
    """An application in a session of its own, with input that never ends."""

    def __init__(self, cluster, folder: Path, command: str) -> None:
        self._cluster = cluster
        self.application = cluster.name(f"stopping-{command}")
        self.lines, self._out = cluster.topic(f"lines-{command}"), cluster.topic(f"out-{command}")
        module = f"program_{command}"
        names = {"lines": self.lines, "out": self._out, "application": self.application}
        file = folder / f"{module}.py"
        file.write_text(PROGRAM.format(servers=cluster.servers, folder=folder, runs=len(WAYS), hush=HUSH, **names))
        commands = {"python": [str(file)], "penstock": ["-c", COMMAND.format(folder=folder, module=module)]}
        self._said = folder / f"said-{command}"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, *commands[command]],
                cwd=folder,
                env=os.environ | ({"PENSTOCK_NATIVE": "0"} if command == "python" else {}),
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def text(self) -> str:
        return self._said.read_text(errors="replace")

    def epoch(self) -> int:
        """Return the number of the last epoch that is committed."""
        record = read_last(self._cluster.log, self.application)
        return 0 if record is None else record.epoch

    def await_epoch(self, number: int) -> None:
        self._await(lambda: self.epoch() >= number, f"no epoch {number}")

    def await_ended(self, times: int) -> None:
        self._await(lambda: self.text().splitlines().count("ended") == times, f"it has not ended {times} times")

    def _await(self, happened: Callable[[], bool], otherwise: str) -> None:
        for _ in range(1200):
            if happened():
                return
            assert self.process.poll() is None, self.text()
            threading.Event().wait(0.1)
        raise AssertionError(f"{otherwise}:\n{self.text()}")

    def check_secrets(self) -> None:
        """No secret is in what it said, nor on a command line of its processes."""
        assert HUSH not in self.text()
        for pid in session(self.process.pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                assert HUSH.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()

    def kill_jvm(self) -> None:
        (jvm,) = (
            pid
            for pid in session(self.process.pid)
            if b"org.apache.spark.deploy.SparkSubmit" in Path(f"/proc/{pid}/cmdline").read_bytes()
        )
        os.kill(jvm, signal.SIGKILL)

    def exhaust_jvm(self) -> None:
        """Have the JVM asked for more memory than it may have."""
        (self._said.parent / f"exhaust-{self.application}").touch()

    def check_barrier(self) -> None:
        """Results, offsets and the epoch record are those of one barrier, and no epoch was given up."""
        place, log = (self.lines, 0), self._cluster.log
        assert self._cluster.read(epochs_name(self.application))  # waits until the last transaction can be seen
        position = read_last(log, self.application).positions[place]
        self._await(lambda: log.admin.committed(self.application, [place]) == {place: position}, "other offsets")
        assert sum(dict(self._cluster.numbers(self._out)).values()) == position
        for trouble in "left to the next start", "last barrier", "Traceback":
            assert trouble not in self.text(), self.text()

    def go_on(self) -> None:
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


@pytest.fixture
def programs(cluster, tmp_path):
    made = [Program(cluster, tmp_path, command) for command in ("python", "penstock")]
    yield made
    for program in made:
        kill_session(program.process.pid)
        program.process.stdin.close()
        program.process.wait()


@pytest.fixture
def _fed(cluster, programs):
    stop = threading.Event()

    def feed() -> None:
        while not stop.wait(0.1):
            for program in programs:
                cluster.send(program.lines, *((f"k{n}", "v", START) for n in range(4)))

    feeder = threading.Thread(target=feed)
    feeder.start()
    yield
    stop.set()
    feeder.join()


@pytest.mark.usefixtures("_fed")
def test_whichever_processes_are_asked_to_end_it_ends_at_a_barrier_and_without_a_jvm_with_an_error(programs):
    before = dict.fromkeys(programs, 0)

    def await_epochs() -> None:
        for program in programs:
            program.await_epoch(before[program] + 2)

    for times, (number, who) in enumerate(WAYS, 1):
        await_epochs()
        for program in programs:
            for pid in who(program.process.pid):
                with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                    os.kill(pid, number)
        for program in programs:
            program.await_ended(times)
            program.check_barrier()
            before[program] = program.epoch()
            program.go_on()
    await_epochs()
    for program in programs:
        program.check_secrets()
    programs[0].kill_jvm()
    programs[1].exhaust_jvm()
    for program in programs:
        assert program.process.wait(60) == 1, program.text()
        assert "Spark's JVM has ended" in program.text()
        program.check_secrets()
        assert ("it ran out of memory. Give it more" in program.text()) == (program is programs[1])
        left = session(program.process.pid)
        assert await_end(left, timeout=10), f"processes {left} outlive their driver"
