"""Without a compiler the product is installed and works: what is in C is done in Python.

Each loop and its twin in Python are compared in ``tests/native``, ``tests/log/test_native.py``, ``tests/serde/test_groups.py`` and
``tests/state/test_runs.py``; an application on Spark runs without them in ``tests/app/test_stopping.py``.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = """
import runpy
import sys

import setuptools

given = {}
setuptools.setup = lambda **options: given.update(options)
runpy.run_path("setup.py")
build = setuptools.Distribution(given).get_command_obj("build_ext")
build.build_lib = build.build_temp = sys.argv[1]
build.ensure_finalized()
build.run()
print(len(given["ext_modules"]))
"""
PROGRAM = """
import sys

from penstock import Serdes, StreamsBuilder, TimeWindows
from penstock.testing import TopologyTestDriver

builder = StreamsBuilder()
words = builder.stream("lines", value=Serdes.string).flat_map_values(str.split)
words.group_by(lambda _, word: word).count(store="counts").to_stream().to("counts", value=Serdes.int64)
words.group_by(lambda _, word: word).windowed_by(TimeWindows(1000)).count(store="windows")
with TopologyTestDriver(builder, auto_commit=False) as driver:
    lines = driver.input_topic("lines", value=Serdes.string)
    for n in range(1000):
        lines.pipe(None, f"w{n % 7} w{n % 11}", timestamp=n)
    driver.commit()
    print(sorted(driver.store("counts").all()))
    print(sum(count for _, count in driver.store("windows").all()))
    print(len(driver.output_topic("counts", value=Serdes.int64).read_values()))
print([name for name in sys.modules if "penstock." in name and (sys.modules[name].__file__ or "").endswith(".so")])
"""


def said(code: str, *arguments: str, **environment: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_build_goes_on_without_a_compiler_and_leaves_the_loops_out(tmp_path):
    pytest.importorskip("setuptools")
    assert int(said(BUILD, str(tmp_path), CC=str(tmp_path / "no-compiler")).splitlines()[-1]) > 0
    assert not list(tmp_path.rglob("*.so"))


def test_a_program_gives_the_same_results_without_the_loops_in_c(tmp_path, capsys):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.so"))
    *without, loaded = said(PROGRAM, PYTHONPATH=str(tmp_path / "src")).splitlines()
    assert loaded == "[]"
    exec(PROGRAM, {"__name__": "program"})
    *wanted, loaded = capsys.readouterr().out.splitlines()
    assert without == wanted
    built = list((ROOT / "src").rglob("*.so"))
    assert bool(built) == (loaded != "[]")
