"""Whoever asks an application to end, and whichever of its processes hear it: it ends at a barrier, in order, and nothing is left."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.dev.watch import kill_session, session
from penstock.engine.record import read_last

PROGRAM = """
import time

from penstock import App, Serdes, StreamsBuilder


def slow(value):
    time.sleep(0.005)
    return value


builder = StreamsBuilder()
lines = builder.stream("{lines}", key=Serdes.string, value=Serdes.string).map_values(slow)
lines.group_by_key().count(store="counts").to_stream().to("{out}", value=Serdes.int64)
app = App(builder, application_id="{application}", bootstrap_servers="{servers}", master="local[1]", shards=2,
          state_dir="{folder}/state-{application}", spark_settings={{"spark.driver.memory": "512m"}})

if __name__ == "__main__":
    app.run()
"""
COMMANDS = {
    "penstock run": [sys.executable, "-c", "from penstock.cli import main; main()", "run", "--plain"],
    "python": [sys.executable],
}


def group(pid):
    os.killpg(pid, signal.SIGTERM)


def everything(number):
    def ask(pid):
        for each in session(pid):
            os.kill(each, number)

    return ask


class Program:
    """An application in a session of its own, with input that never ends."""

    def __init__(self, cluster, folder: Path, number: int, command: str) -> None:
        self.application = cluster.name(f"stopping-{number}")
        self.lines, self.out = cluster.topic(f"lines-{number}"), cluster.topic(f"out-{number}")
        file = folder / f"program_{number}.py"
        names = {"lines": self.lines, "out": self.out, "application": self.application}
        file.write_text(PROGRAM.format(servers=cluster.servers, folder=folder, **names))
        self.said = folder / f"said-{number}"
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [*COMMANDS[command], str(file)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def text(self) -> str:
        return self.said.read_text(errors="replace")


@pytest.fixture
def programs():
    made: list[Program] = []
    yield made
    for program in made:
        kill_session(program.process.pid)
        program.process.wait()


def feed(cluster, programs, stop: threading.Event) -> None:
    while not stop.wait(0.1):
        for program in programs:
            cluster.send(program.lines, *((f"k{n}", "v", 1_600_000_000_000) for n in range(4)))


def wait_for_epochs(cluster, program: Program, count: int) -> None:
    for _ in range(1200):
        record = read_last(cluster.log, program.application)
        if record is not None and record.epoch >= count:
            return
        assert program.process.poll() is None, program.text()
        threading.Event().wait(0.1)
    raise AssertionError(f"no epoch {count}:\n{program.text()}")


def test_a_program_whose_processes_are_all_asked_to_end_ends_at_a_barrier(cluster, tmp_path, programs):
    ways = [
        ("penstock run", group),
        ("python", everything(signal.SIGTERM)),
        ("penstock run", everything(signal.SIGINT)),
    ]
    for number, (command, _) in enumerate(ways):
        programs.append(Program(cluster, tmp_path, number, command))
    stop = threading.Event()
    feeder = threading.Thread(target=feed, args=(cluster, programs, stop))
    for program in programs:
        cluster.send(program.lines, ("k", "v", 1_600_000_000_000))
        wait_for_epochs(cluster, program, 1)
    feeder.start()
    try:
        for program in programs:
            wait_for_epochs(cluster, program, 2)
        for program, (_, ask) in zip(programs, ways, strict=True):
            ask(program.process.pid)
        codes = [program.process.wait(60) for program in programs]
    finally:
        stop.set()
        feeder.join()
    assert codes == [0, 0, 0], "\n".join(program.text() for program in programs)
    for program in programs:
        assert "left to the next start" not in program.text()  # the epoch that ran was ended, too
        assert "Traceback" not in program.text()
        place = (program.lines, 0)
        position = read_last(cluster.log, program.application).positions[place]
        assert cluster.log.admin.committed(program.application, [place]) == {place: position}
        assert sum(dict(cluster.numbers(program.out)).values()) == position
        left = session(program.process.pid)
        for _ in range(100):
            if not left:
                break
            threading.Event().wait(0.1)
            left = session(program.process.pid)
        assert not left, f"processes {left} outlive their driver"
