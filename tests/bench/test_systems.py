"""Programs are started, watched and ended; the Java one does the job, and a wrong result is found."""

import sys
import time

import pytest
from bench.command import Plan, perform
from bench.measure import members
from bench.peers.java import CompilationFailed, CompilerNotFound, compiled, find_javac
from bench.peers.process import Process, SystemFailed
from bench.peers.system import SYSTEMS
from bench.registry import WORKLOADS
from bench.results import ResultsDiffer
from bench.runs import Run, middles, ratios, said
from bench.stage import Stage, progress_bar
from bench.watch import part_done
from bench.workloads.base import Kind, Size
from bench.writing import write

from bench import rate
from penstock.dev.jars import JavaNotFound
from penstock.errors import ConfigError
from penstock.log.kafka import KafkaLog

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
    assert [told for _, told in process.told("METRICS")] == [{"epochs": 3}]
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
    stage = Stage(kafka_broker, log, progress_bar(), threads=2)
    written = write(log, WORKLOADS["rekey-aggregate"], Size(60_000, 500), prefix="bench-systems-")
    (run,) = rate.measure(stage, written, SYSTEMS["java"], "bench-systems-java", 0)
    assert 500 <= run.figures["outputs"] <= 60_000
    assert 0 < run.figures["from_start"] < run.figures["from_running"]
    assert run.roles["program"]["processes"] == 1
    assert run.figures["peak_mb"] > 50
    written.right.last[b"k1"] = b"{}"
    with pytest.raises(ResultsDiffer, match=r"b'k1': .*instead of b'{}'"):
        stage.check(written, "bench-systems-java-results")
    stage.forget("bench-systems-")
    assert not [topic for topic in log.admin.topics() if topic.startswith("bench-systems-")]
    log.close()


def test_the_stage_that_is_farthest_behind_tells_how_far_a_system_is():
    assert part_done({"": 50}, {"": 100, "inner": 40}) == 0
    assert part_done({"": 100, "inner": 10}, {"": 100, "inner": 40}) == 0.25


def test_penstock_is_compared_with_its_like_by_the_median():
    def run(system, rate):
        return Run("count-sum", system, system, 0, {"steady": rate})

    rounds = [run("java", 10), run("penstock", 30), run("penstock", 20), run("penstock", 10), run("java-alo", 5)]
    assert ratios(middles(rounds), Kind.RATE) == {"penstock/java": {"steady": 2}}
    assert ratios(middles(rounds[:1]), Kind.RATE) == {}


def test_less_is_better_where_time_is_measured():
    times = (("java", 100), ("penstock", 200))
    rounds = [Run("latency-5k", name, name, 0, {"p50_ms": ms, "p99_ms": 2 * ms}) for name, ms in times]
    found = ratios(middles(rounds), Kind.LATENCY)
    assert found == {"penstock/java": {"p50_ms": 2, "p99_ms": 2}}
    assert said(found["penstock/java"], Kind.LATENCY) == "p50 ms 2.00, p99 ms 2.00 (less is better)"


@pytest.mark.parametrize("plan", [Plan(workloads=["flink"]), Plan(systems=["flink"])])
def test_an_unknown_name_is_refused_before_anything_is_started(plan):
    with pytest.raises(ConfigError, match=r"no such (workload|system): flink"):
        perform(plan)
