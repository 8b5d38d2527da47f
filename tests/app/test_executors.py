"""All bodies of an executor keep one contract: ``spark``, on PySpark's public interface, ``spark_fast``, on what is below it, and
``in_process``, without Spark's tasks. What they commit is compared with the test driver.

``.ci/spark_versions`` runs this file with other versions of Spark, each in an environment of its own.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from penstock import Serdes, Stores, StreamsBuilder
from penstock.engine.executor.choice import IN_PROCESS, SPARK, SPARK_FAST, TESTED, chosen
from penstock.errors import PenstockError

TEXT = {"key": Serdes.string, "value": Serdes.string}
START = 1_700_000_000_000
#: how each round of input is run: inline by a resident task, or read and exchanged by a Spark job
ROUNDS = {"inline": 20_000, "spark": 0, "inline again": 20_000, "spark again": 0}
SECRET = "hush-4711-canary"


@pytest.fixture(params=[SPARK, SPARK_FAST, IN_PROCESS])
def executor(request, spark_session):
    if request.param == SPARK_FAST and find_spec("penstock.engine.executor.spark_fast") is None:
        pytest.skip("spark_fast was removed")
    if request.param == SPARK_FAST and spark_session.version not in TESTED:
        pytest.skip(
            f"spark_fast is for Spark {', '.join(TESTED)}: to try it with {spark_session.version}, put that into TESTED"
        )
    return request.param


def words_of(key, value):
    """Say the words; a line may ask that the process be lost, once, or that the function fail."""
    if value.startswith("lose ") and not os.path.exists(value.split()[1]):
        Path(value.split()[1]).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if value == "fail":
        raise ValueError("this line is not liked")
    return [(word, word) for word in value.split()]


def program(cluster):
    """Count words by a re-key, and their lengths by a second one: three steps. No cache: a lost worker changes the cut into epochs."""
    builder = StreamsBuilder()
    words = builder.stream(cluster.name("lines"), **TEXT).flat_map(words_of)
    counts = words.group_by_key(**TEXT).count(store=Stores.key_value("counts", cached=False))
    counts.to_stream().to(cluster.name("counts"), key=Serdes.string, value=Serdes.int64)
    lengths = counts.to_stream().map(lambda word, count: (str(len(word)), word))
    long = lengths.group_by_key(**TEXT).count(store=Stores.key_value("lengths", cached=False))
    long.to_stream().to(cluster.name("lengths"), key=Serdes.string, value=Serdes.int64)
    return builder


@pytest.fixture
def lines(cluster):
    cluster.topic("lines", partitions=2)
    cluster.topic("counts")
    cluster.topic("lengths")
    return cluster.name("lines")


def body_of(driven):
    return type(driven.engine.executor._jobs).__name__


def test_inline_and_spark_epochs_commit_the_results_of_the_test_driver(
    executor, cluster, start, twin, by_key, lines, tmp_path
):
    driven, driver = start(program(cluster), executor=executor), twin(program(cluster), partitions=2)
    assert body_of(driven) == {SPARK: "PublicJobs", SPARK_FAST: "FastJobs", IN_PROCESS: "InProcessJobs"}[executor]
    for number, (name, most) in enumerate(ROUNDS.items()):
        driven.engine.executor.inline_epochs.most_records = most
        # a worker is lost in the first two rounds; the file says so to the test driver, which runs in this process, afterwards
        texts = [f"a bb {name}", f"bb word{number} lose", f"lose {tmp_path}/{min(number, 1)}"]
        if executor == IN_PROCESS:  # there is no worker to lose
            (tmp_path / str(min(number, 1))).touch()
        rows = [("k", text, START + 10 * number + n, n % 2) for n, text in enumerate(texts)]
        cluster.send(lines, *rows)
        driven.drain()
        assert (tmp_path / str(min(number, 1))).exists()
        driver.send(lines, *rows)
        driver.driver.commit()
        if number == 1:  # all state comes back from the changelogs
            driven.close()
            start.forget()
            driven = start(program(cluster), executor=executor)
            assert driven.restored > 0
    for topic in ("counts", "lengths"):
        found = by_key(cluster.rows(cluster.name(topic)))
        assert found == by_key(driver.rows(cluster.name(topic)))
        assert len(found) > 3
    assert dict(cluster.numbers(cluster.name("counts")))["bb"] == 2 * len(ROUNDS)
    for store in ("counts", "lengths"):
        assert sorted(driven.view(store).all()) == sorted(driver.driver.store(store).all()) != []


@pytest.mark.parametrize("most", [0, 20_000], ids=["spark epoch", "inline epoch"])
def test_a_function_that_fails_ends_the_epoch_with_its_own_error(executor, most, cluster, start, lines):
    driven = start(program(cluster), executor=executor, inline_epoch_records=most)
    cluster.send(lines, ("k", "good", START), ("k", "fail", START + 1))
    with pytest.raises(PenstockError, match="this line is not liked"):
        driven.drain()
    assert cluster.rows(cluster.name("counts")) == []  # nothing of the epoch is committed


def test_a_version_that_spark_fast_was_not_tested_with_is_run_by_spark_with_one_warning(
    cluster, start, lines, monkeypatch, caplog
):
    monkeypatch.setattr("penstock.engine.executor.choice.TESTED", ("4.2.99",))
    with caplog.at_level(logging.WARNING, "penstock.engine"):
        driven = start(program(cluster))
        cluster.send(lines, ("k", "a", START))
        driven.drain()
    assert body_of(driven) == "PublicJobs"
    assert cluster.numbers(cluster.name("counts")) == [("a", 1)]
    (warning,) = [record.getMessage() for record in caplog.records if "spark_fast" in record.getMessage()]
    assert "4.2.99" in warning
    assert driven.engine._session.version in warning


def test_lanes_in_this_process_leave_it_as_it_was(cluster, start, lines):
    handlers = list(logging.getLogger().handlers)
    builder = StreamsBuilder()
    builder.stream(lines, **TEXT).map_values(lambda value: str(os.getpid())).to(cluster.name("counts"), **TEXT)
    driven = start(builder, executor=IN_PROCESS)
    cluster.send(lines, ("k", "a", START))
    driven.drain()
    assert cluster.texts(cluster.name("counts")) == [("k", str(os.getpid()))]
    assert gc.isenabled()
    assert logging.getLogger().handlers == handlers
    driven.close()


def test_a_body_that_is_asked_for_is_taken_without_a_warning(cluster, start, lines, spark_session, caplog):
    with caplog.at_level(logging.WARNING, "penstock.engine"):
        assert body_of(start(program(cluster), executor=SPARK)) == "PublicJobs"
    assert not [record for record in caplog.records if "spark_fast" in record.getMessage()]
    has_fast = find_spec("penstock.engine.executor.spark_fast") is not None and spark_session.version in TESTED
    assert chosen("auto", spark_session.version) == (SPARK_FAST if has_fast else SPARK)


PUBLIC_SESSION = """
import json, os, sys, threading, urllib.request
from pathlib import Path
from penstock import App, StreamsBuilder

asked = json.load(sys.stdin)
builder = StreamsBuilder()
builder.stream(asked["lines"]).group_by(lambda key, value: value, name="by-value").count(store="counts").to_stream().to(asked["counts"])
app = App(builder, spark_settings=asked["spark"], **asked["settings"])

barrier = threading.Event()
app.on_step(lambda step, epoch: barrier.set() if step == "publish" else None)
with app:
    app.wait_until_running()
    assert barrier.wait(60)
    context = app._session.sparkContext
    with urllib.request.urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/jobs") as answer:
        jobs = [(job["jobGroup"], job.get("description")) for job in json.load(answer)]
    mine = [p for p in Path("/proc").glob("[0-9]*") if f"PPid:\\t{os.getpid()}\\n" in (p / "status").read_text()]
    (jvm,) = [p for p in mine if "java" in os.readlink(p / "exe")]
    blocked = [line for line in (jvm / "status").read_text().splitlines() if line.startswith("SigBlk")][0].split()[1]
    told = {"jobs": jobs, "command": (jvm / "cmdline").read_text(), "blocked": int(blocked, 16)}
    told["secret"] = context.getConf().get("spark.hadoop.some.secret.key")
print(json.dumps(told))
"""


def test_public_names_start_spark_with_its_ui_where_jobs_carry_epochs_and_steps(cluster, start, lines):
    cluster.send(lines, ("k", '"a"', START))
    asked = {
        "lines": lines,
        "counts": cluster.name("counts"),
        "spark": {"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.hadoop.some.secret.key": SECRET},
        "settings": start.settings(executor=SPARK, inline_epoch_records=0, master="local[2]"),
    }
    done = subprocess.run(
        [sys.executable, "-c", PUBLIC_SESSION], input=json.dumps(asked), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    names = [name for _, name in told["jobs"]]
    assert any(
        f"{start.application_id}, epoch 1: step 0 (KSTREAM-SOURCE-" in name and "step 1 (" in name for name in names
    ), names
    assert len({group for group, _ in told["jobs"]}) == 1
    assert told["secret"] == SECRET  # Spark has it, and nobody can read it from a command line
    assert "spark.ui.enabled=true" in told["command"]
    assert SECRET not in told["command"]
    assert all(told["blocked"] >> (number - 1) & 1 for number in (signal.SIGTERM, signal.SIGINT))  # the driver stops it
