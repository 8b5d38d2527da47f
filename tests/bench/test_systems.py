"""Programs are started, watched and ended; the Java one does the job, and a wrong result is found."""

import sys
import time

import pytest
from bench.data import DataSet, progress_bar, write
from bench.measure import members
from bench.peers.java import CompilationFailed, CompilerNotFound, compiled, find_javac
from bench.peers.run import Bench, check
from bench.peers.system import SYSTEMS, Process, SystemFailed
from bench.throughput import names, ratios

from penstock.dev.jars import JavaNotFound
from penstock.log.kafka import KafkaLog
from penstock.log.memory import MemoryLog

PROGRAM = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("RUNNING", flush=True)
print('METRICS {"epochs": 3}', flush=True)
sys.stdin.read()
sys.exit(4)
"""


def has_compiler():
    try:
        find_javac()
    except (CompilerNotFound, JavaNotFound):
        return False
    return True


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def test_a_program_ends_with_its_input_and_leaves_no_child(tmp_path):
    process = Process([sys.executable, "-c", PROGRAM], tmp_path / "log")
    until(lambda: process.told("METRICS"))
    assert process.heard["RUNNING"] >= process.started
    assert process.told("METRICS") == {"epochs": 3}
    assert len(members(process.pid)) == 2
    process.check()
    assert process.stop() == 4
    until(lambda: not members(process.pid))


def test_a_program_that_fails_is_quoted(tmp_path):
    command = [sys.executable, "-c", "print('REBALANCING', flush=True); raise OSError('no such broker')"]
    with Process(command, tmp_path / "log") as process:
        until(lambda: not members(process.pid) or "Z" in state(process.pid))
        with pytest.raises(SystemFailed, match=r"exit code 1[\s\S]*REBALANCING[\s\S]*no such broker"):
            process.check()


def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


def test_without_a_compiler_the_java_side_says_what_to_install(tmp_path, monkeypatch):
    runtime = tmp_path / "bin" / "java"
    runtime.parent.mkdir()
    runtime.write_text("#!/bin/sh\n")
    runtime.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(CompilerNotFound, match=r"skipped.*Install a JDK"):
        compiled()


@pytest.mark.skipif(not has_compiler(), reason="needs a JDK")
def test_a_source_that_does_not_compile_is_quoted_and_leaves_nothing(tmp_path):
    source = tmp_path / "Wrong.java"
    source.write_text("public class Wrong { int x = nonsense; }")
    with pytest.raises(CompilationFailed, match="nonsense"):
        compiled(source, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.skipif(not has_compiler(), reason="needs a JDK")
def test_java_counts_and_sums_exactly_once_and_its_rate_is_measured(kafka_broker):
    log = KafkaLog(kafka_broker.bootstrap_servers)
    data = DataSet("bench-systems", records=60_000, keys=500)
    bench = Bench(kafka_broker, log, data, write(log, data), threads=2, warm_up=0, settings=["commit.interval.ms=20"])
    run = bench.run(SYSTEMS["java"], "bench-systems-java", progress_bar())
    assert 500 <= run.outputs <= 60_000
    assert 0 < run.from_start < run.from_running
    assert run.steady > 0
    assert run.roles["program"].processes == 1
    assert run.peak_bytes > 50_000_000
    wrong = bench.written.totals | {b"k1": (1, -1)}
    with pytest.raises(SystemFailed, match=r"1 of 500 results .*b'k1': .*instead of count 1, sum -1"):
        check(log, "bench-systems-java-totals", data.partitions, wrong)
    log.close()


def test_a_missing_and_a_surplus_result_are_both_wrong():
    log = MemoryLog()
    written = write(log, DataSet("in", records=1))
    producer = log.producer(None)
    producer.produce([("in", 0, b"stranger", b'{"count": 1, "sum": 1}', 1, ())])
    producer.flush()
    with pytest.raises(SystemFailed, match=r"k\d+': .* instead of"):
        check(log, "in", 4, written.totals)


def test_penstock_is_compared_with_every_system_by_the_median():
    class Run:
        def __init__(self, system, rate):
            self.system, self.steady, self.from_running, self.from_start = system, rate, rate, rate / 2

    rounds = [Run("java", 10), Run("penstock", 30), Run("penstock", 20), Run("penstock", 10), Run("java", 10)]
    assert ratios(rounds) == {"java": {"steady": 2, "from_running": 2, "from_start": 2}}
    assert ratios(rounds[:1]) == {}


def test_an_unknown_system_is_refused_by_name():
    with pytest.raises(Exception, match="no such system: flink"):
        names("java,flink")
