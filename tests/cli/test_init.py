"""``penstock init``: the project that it makes passes its own test, and nothing is overwritten."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.app import app

RUNNER = CliRunner()
FILES = ["word_count.py", "tests/test_word_count.py", "pyproject.toml", "Containerfile", ".gitignore", "README.md"]


def init(*arguments: str, code: int = 0):
    result = RUNNER.invoke(app, ["init", *arguments])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def files_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["word-count", "json"])
def test_the_test_of_a_new_project_passes(tmp_path, name):
    init(str(tmp_path / "project"), "--name", name)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / "project",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_json_lists_the_files_that_were_written(tmp_path):
    told = json.loads(init(str(tmp_path / "word count"), "--json").stdout)
    assert told["name"] == "word-count"
    assert told["files"] == FILES
    assert files_in(tmp_path / "word count") == set(FILES)


def test_the_project_is_made_in_the_current_folder_unless_one_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    init("--name", "word-count")
    assert files_in(tmp_path) == set(FILES)


def test_the_project_depends_on_the_distribution_and_names_its_module(tmp_path):
    init(str(tmp_path), "--name", "word-count")
    made = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    assert made["project"]["name"] == "word-count"
    assert made["project"]["dependencies"] == ["penstock-streams"]
    assert made["tool"]["setuptools"]["py-modules"] == ["word_count"]
    assert "word_count:app" in (tmp_path / "Containerfile").read_text()
    assert "@" not in "".join((tmp_path / path).read_text() for path in FILES)


def test_a_file_that_exists_is_not_overwritten_and_no_other_is_written(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    told = init(str(tmp_path), "--name", "word-count", code=2).stderr
    assert told.startswith("penstock: ")
    assert "README.md already" in told
    assert "name another folder" in told
    assert files_in(tmp_path) == {"README.md"}
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.parametrize("name", ["Word", "1st", "a_b", "a--b", "../up", ""])
def test_a_name_that_cannot_be_used_is_refused(tmp_path, name):
    assert "give --name" in init(str(tmp_path), "--name", name, code=2).stderr
    assert files_in(tmp_path) == set()


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    assert "name another folder" in init(str(tmp_path / "file"), "--name", "word-count", code=2).stderr
