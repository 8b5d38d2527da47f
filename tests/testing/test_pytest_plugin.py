"""The pytest plugin is there where Penstock is installed, costs nothing where it is not used, and leaves other plugins alone."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(folder: Path, program: str, *options: str) -> str:
    """Run tests of another project, with what is installed here; return what pytest says."""
    (folder / "test_some.py").write_text(program)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", ".", *options]
    done = subprocess.run([*command, "test_some.py"], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_fixtures_are_there_without_a_word_in_conftest(tmp_path):
    said = run(tmp_path, "def test_it(): pass", "--fixtures", "-q")
    for fixture in (
        "topology_driver",
        "kafka_broker [session scope]",
        "schema_registry [session scope]",
        "spark_session [session scope]",
    ):
        assert fixture in said


def test_drivers_are_made_and_closed(tmp_path):
    program = """
from penstock import Serdes, StreamsBuilder

made = []

def test_two_drivers(topology_driver):
    builder = StreamsBuilder()
    builder.stream("in", value=Serdes.string).to("out")
    for lanes in 1, 2:
        driver = topology_driver(builder, lanes=lanes)
        driver.input_topic("in", value=Serdes.string).pipe("k", "v")
        assert driver.output_topic("out").read().value == "v"
        made.append(driver)

def test_they_are_closed():
    import pytest
    with pytest.raises(Exception, match="the driver is closed"):
        made[0].input_topic("in", value=Serdes.string).pipe("k", "v")
"""
    assert "2 passed" in run(tmp_path, program)


def test_a_run_that_does_not_use_it_imports_nothing_of_penstock(tmp_path):
    program = """
import sys

def test_it():
    assert "penstock_pytest" in sys.modules
    assert not [name for name in sys.modules if name.split(".")[0] in ("penstock", "pyspark", "pyarrow", "numpy")]
"""
    assert "1 passed" in run(tmp_path, program)


def test_it_is_left_out_if_pytest_is_told_so(tmp_path):
    said = run(tmp_path, "def test_it(kafka_broker): pass", "-p", "no:penstock_pytest")
    assert "fixture 'kafka_broker' not found" in said


def test_the_spark_session_of_pytest_spark_stays_its_own(tmp_path):
    (tmp_path / "pytest_spark.py").write_text(
        "import pytest\n\n@pytest.fixture\ndef spark_session():\n    return 'of pytest-spark'\n"
    )
    (tmp_path / "pytest_spark-0.0.dist-info").mkdir()
    (tmp_path / "pytest_spark-0.0.dist-info" / "METADATA").write_text("Name: pytest-spark\nVersion: 0.0\n")
    (tmp_path / "pytest_spark-0.0.dist-info" / "entry_points.txt").write_text("[pytest11]\nspark = pytest_spark\n")
    said = run(tmp_path, "def test_it(spark_session):\n    assert spark_session == 'of pytest-spark'\n")
    assert "1 passed" in said


#: a plugin that says of which group of pytest-xdist each test is, and runs none
GROUPS = """
import sys
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    groups = [mark.args[0] for mark in item.iter_markers("xdist_group")]
    print("GROUPS", item.name, *groups, file=sys.stderr)
    return True
"""


def test_in_this_repository_it_is_loaded_once_and_the_marks_of_groups_are_kept(tmp_path):
    """It is there by its entry point, and named by conftest.py; the marks are those that the workers of pytest-xdist see."""
    (tmp_path / "groups.py").write_text(GROUPS)
    options = ["-p", "groups", "-p", "no:cacheprovider", "-n", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests/examples/test_payments.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    seen = {words[1]: words[2:] for line in done.stderr.splitlines() if (words := line.split())[:1] == ["GROUPS"]}
    assert len(seen) == 7, done.stdout + done.stderr
    assert [groups for name, groups in seen.items() if "on_spark" in name] == [["spark"]]
    assert not [groups for name, groups in seen.items() if groups and "on_spark" not in name]
