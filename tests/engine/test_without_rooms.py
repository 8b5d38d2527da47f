"""Each of these rooms can be removed: everything is correct, and slower. A quick form of ``.ci/without``, which runs whole suites."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: some tests that go through what takes over: the record path, the twins of the loops, librdkafka's producer, the public interface
TESTS = {
    "kernels": [
        "tests/operators/test_aggregate.py",
        "tests/operators/test_stateless.py",
        "tests/lane/test_many_keys.py",
    ],
    "native": ["tests/lane/test_columns.py", "tests/state/test_runs.py"],
    "kafka_wire": ["tests/log/test_log_contract.py"],
    "spark_fast": ["tests/engine/executor/test_choice.py"],
}


@pytest.mark.parametrize("room", TESTS)
def test_without_a_room_tests_are_green(room):
    done = subprocess.run(
        [".ci/without", room, *TESTS[room]],
        cwd=ROOT,
        env=os.environ | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " failed" not in done.stdout
