"""A real Spark cluster: every worker has its own environment, one may be lost, and none outlives who started it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.dev import watch
from penstock.dev.cluster import Cluster, ClusterFailed

#: runs on all executors at once (a barrier stage needs a free core for each of its tasks), as often as it gets a line
JOB = """
import json, os, sys
from pyspark.sql import SparkSession

def look(batches):
    import os, pyarrow, sys
    rows = sum(batch.num_rows for batch in batches)
    yield pyarrow.RecordBatch.from_pydict({
        "folder": [os.environ["PENSTOCK_STATE_DIR"]], "python": [sys.executable], "session": [os.getsid(0)], "rows": [rows]
    })

quick = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.ui.enabled": "false",
}
spark = SparkSession.builder.config(map=json.loads(sys.argv[1]) | quick).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
for line in sys.stdin:
    tasks = int(line)
    schema = "folder string, python string, session long, rows long"
    looked = spark.range(100, numPartitions=tasks).mapInArrow(look, schema, barrier=True).collect()
    print(json.dumps([row.asDict() for row in looked]), flush=True)
spark.stop()
"""

START = """
from penstock.dev.cluster import Cluster
cluster = Cluster(workers=1).start()
print(cluster.worker_pids[0], cluster.folder, flush=True)
input()
"""


@pytest.fixture
def look():
    """Start a program on a cluster; return a function that runs a job of so many tasks and tells what they saw."""
    programs = []

    def start(cluster):
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PENSTOCK_STATE_DIR": "the driver's"}
        program = subprocess.Popen(
            [sys.executable, "-c", JOB, json.dumps(cluster.settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        programs.append(program)

        def run(tasks):
            program.stdin.write(f"{tasks}\n")
            program.stdin.flush()
            return json.loads(program.stdout.readline())

        return run

    yield start
    for program in programs:
        program.stdin.close()
        program.wait(60)


@pytest.mark.skipif(
    not os.environ.get("PENSTOCK_LONG"),
    reason="long form: PENSTOCK_LONG=1 (tests/spark/test_cluster.py runs a cluster)",
)
def test_each_executor_sees_the_environment_of_its_worker_and_the_loss_of_one_leaves_the_other(look, tmp_path):
    folders = [str(tmp_path / "first"), str(tmp_path / "second")]
    with Cluster(workers=2, environments=[{"PENSTOCK_STATE_DIR": folder} for folder in folders]) as cluster:
        files = cluster.folder
        run = look(cluster)
        seen = {row["folder"]: row for row in run(tasks=2)}
        assert sorted(seen) == folders
        assert [seen[folder]["session"] for folder in folders] == cluster.worker_pids
        assert {row["python"] for row in seen.values()} == {sys.executable}
        assert sum(row["rows"] for row in seen.values()) == 100

        lost, kept = cluster.worker_pids
        cluster.kill_worker(0)
        assert cluster.worker_pids == [None, kept]
        assert watch.session(lost) == []
        assert [row["folder"] for row in run(tasks=1)] == folders[1:]

        cluster.start_worker(0)
        assert sorted(row["folder"] for row in run(tasks=2)) == folders
        pids = cluster.worker_pids
    assert not files.exists()
    assert [watch.session(pid) for pid in pids] == [[], []]
    assert cluster.worker_pids == []


def test_a_cluster_ends_when_the_process_that_started_it_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    worker, folder = parent.stdout.readline().split()
    assert watch.session(int(worker))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert watch.await_end([int(worker)], timeout=30)
    pause = threading.Event().wait
    while Path(folder).exists():  # it goes a moment after the processes; the test runner's patience is the limit
        pause(0.05)


def test_environments_are_for_all_workers_or_for_none():
    with pytest.raises(ClusterFailed, match="3 environments for 2 workers"):
        Cluster(workers=2, environments=[{}, {}, {}])


def test_without_a_start_there_is_no_address():
    cluster = Cluster()
    with pytest.raises(ClusterFailed, match="start it first"):
        _ = cluster.master
    cluster.stop()


def test_a_master_that_does_not_start_says_why_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr("penstock.dev.server.free_ports", lambda host, count: [port, port])
        cluster = Cluster()
        with pytest.raises(ClusterFailed, match=r"ended: master: another program listens on that port"):
            cluster.start()
    assert not list(tmp_path.glob("penstock-spark-*"))
