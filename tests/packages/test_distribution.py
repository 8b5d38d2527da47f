"""Sdist and wheel: what they hold, and that a wheel works, with the loops in C, where there is no compiler."""

import email
import json
import os
import re
import subprocess
import tarfile
from zipfile import ZipFile

import pytest
from tests.compiler import has_compiler
from tests.distribution import ROOT

from penstock.native.loader import LOOPS

compiled = pytest.mark.skipif(not has_compiler(), reason="no compiler: the wheel has no loops in C")
SOURCES = {
    path.relative_to(ROOT / "src").as_posix()
    for package in ("penstock", "pyspark_penstock")
    for path in (ROOT / "src" / package).rglob("*")
    if path.is_file() and path.suffix not in (".c", ".h", ".so", ".pyc")
} | {"penstock_pytest.py"}


def names(wheel):
    with ZipFile(wheel) as files:
        return {name for name in files.namelist() if ".dist-info/" not in name}


def said(environment, *command):
    path = f"{environment}/bin:/usr/bin:/bin"  # pip and the tests' own environment are not on it
    done = subprocess.run(command, env={**os.environ, "PATH": path}, cwd=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(distributions):
    assert {name for name in names(distributions[1]) if not name.endswith(".so")} == SOURCES


@compiled
def test_its_loops_in_c_are_for_every_python_from_3_11_on(distributions):
    assert re.search(r"-cp311-abi3-\w+\.whl$", distributions[1].name)
    built = {name for name in names(distributions[1]) if name.endswith(".so")}
    assert built == {f"penstock/native/_{loop}.abi3.so" for loop in LOOPS}


def test_the_sdist_holds_the_sources_of_the_loops(distributions):
    with tarfile.open(distributions[0]) as files:
        inside = {name.partition("/")[2] for name in files.getnames()}
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "src/penstock/native").glob("*.[ch]")}
    assert sources | {"src/" + name for name in SOURCES} | {"setup.py", "pyproject.toml", "README.md"} <= inside
    assert not [name for name in inside if name.endswith(".so")]


def test_its_metadata_names_licence_documents_and_extras(distributions):
    with ZipFile(distributions[1]) as files:
        (path,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        told = email.message_from_bytes(files.read(path))
    assert (told["Name"], told["License-Expression"]) == ("penstock-streams", "Apache-2.0")
    assert "Framework :: Pytest" in told.get_all("Classifier")
    assert {"java", "avro", "protobuf", "json-schema"} <= set(told.get_all("Provides-Extra"))
    assert told["Description-Content-Type"] == "text/markdown"
    assert "# Penstock" in told.get_payload()


@compiled
def test_a_wheel_uses_its_loops_in_c(environment):
    program = f"""
import penstock
from penstock.native.loader import in_c
assert penstock.__file__.startswith({str(environment)!r}), penstock.__file__
print(*(in_c(name).__file__ for name in {list(LOOPS)!r}))
"""
    files = said(environment, "python", "-c", program).split()
    assert [file.removeprefix(str(environment)).rpartition("/")[2] for file in files] == [
        f"_{name}.abi3.so" for name in LOOPS
    ]
    assert all(file.startswith(str(environment)) for file in files)


def test_a_wheel_makes_a_project_whose_test_passes(environment, tmp_path):
    said(environment, "penstock", "init", str(tmp_path / "project"), "--name", "word-count")
    done = said(environment, "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "project"))
    assert "1 passed" in done


def test_the_commands_of_a_wheel_work_or_say_what_they_need(environment):
    assert json.loads(said(environment, "penstock", "version", "--json"))["penstock"] == "0.1.0"
    assert "--plain" in said(environment, "penstock", "demo", "--help")
    bench = subprocess.run(
        [f"{environment}/bin/penstock", "bench", "--list"], cwd=environment, capture_output=True, text=True
    )
    assert bench.returncode == 2
    assert "Clone them" in bench.stderr
