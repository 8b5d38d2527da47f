"""Without the package `penstock.kernels` everything is correct, and slower."""

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

#: runs a program in the test driver, and as the steps of a lane, over a folder; prints what can be seen of it
PROGRAM = """
import pickle
import sys
from contextlib import closing

from both_ways import Runs
from penstock import JoinWindows, Serdes, SessionWindows, StreamsBuilder, TimeWindows
from penstock.lane import mixed, step_batches
from penstock.plan.batch_paths import has_kernels
from penstock.testing import TopologyTestDriver

step_batches.FEW = mixed.SHORT = mixed.FEW_MIXED = 1  # batches of any size


def shape(builder):
    stream = builder.stream("in", key=Serdes.string, value=Serdes.json)
    side = builder.stream("side", key=Serdes.string, value=Serdes.json)
    table = side.to_table(store="rows")
    stream.join(table, lambda one, other: [one, other]).to("out")
    stream.filter(lambda k, v: v["n"] > 0).map_values(lambda v: v["n"]).group_by_key().reduce(max, store="largest")
    stream.group_by(lambda k, v: str(v["n"])).count(store="counts")
    stream.group_by_key().windowed_by(TimeWindows(10, grace=5)).count(store="windows")
    stream.group_by_key().windowed_by(SessionWindows(3, grace=5)).count(store="sessions")
    stream.outer_join(side, lambda a, b: [a, b], window=JoinWindows(5, grace=5)).to("other")


def driven():
    builder = StreamsBuilder()
    shape(builder)
    with TopologyTestDriver(builder.build()) as driver:
        inputs = {topic: driver.input_topic(topic, value=Serdes.json) for topic in ("in", "side")}
        for topic, _, key, value, time, _ in RECORDS:
            inputs[topic].pipe(key.decode(), {"n": int(value[5:-1])}, timestamp=time)
        outputs = ("out", "other")
        found = driver.metrics()
        for work in found["nodes"].values():
            del work["us"]
        return [driver.output_topic(topic, value=Serdes.json).read_values() for topic in outputs], found


RECORDS = [
    ("side" if at % 3 == 0 else "in", at % 2, b"k%d" % (at % 4), b'{"n":%d}' % (at % 5), 2 * at, None) for at in range(60)
]
print(has_kernels(), file=sys.stderr)
with closing(Runs(shape, sys.argv[1], "fail")) as runs:
    print(pickle.dumps([driven(), runs.epoch(RECORDS[:40]), runs.epoch(RECORDS[40:])]).hex())
"""


def results(folder: Path, source: Path, kernels: str) -> tuple[Any, str]:
    """Return what can be seen of the program, and whether it had kernels."""
    places = [str(source), *(str(ROOT / "tests" / room) for room in ("lane", "operators"))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places), "PENSTOCK_KERNELS": kernels}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)], env=environment, capture_output=True, text=True, cwd=folder.parent
    )
    assert done.returncode == 0, done.stderr
    return pickle.loads(bytes.fromhex(done.stdout)), done.stderr.split()[-1]


@pytest.fixture(scope="module")
def with_kernels(tmp_path_factory):
    found, had = results(tmp_path_factory.mktemp("with") / "state", ROOT / "src", "1")
    assert had == "True"
    return found


def test_with_kernels_switched_off_results_are_equal(tmp_path, with_kernels):
    assert results(tmp_path / "state", ROOT / "src", "0") == (with_kernels, "False")


def test_with_the_package_removed_results_are_equal(tmp_path, with_kernels):
    copy = tmp_path / "src"
    shutil.copytree(
        ROOT / "src" / "penstock", copy / "penstock", ignore=shutil.ignore_patterns("kernels", "__pycache__")
    )
    assert not (copy / "penstock" / "kernels").exists()
    assert results(tmp_path / "state", copy, "1") == (with_kernels, "False")
