"""A worker imports what the program imports, though a package that is installed there has a module of the same name."""

import importlib
import sys

from penstock.engine.executor.spark import import_paths
from penstock.lane.worker import import_as_the_program


def test_a_module_of_the_program_comes_before_one_that_is_installed(tmp_path, monkeypatch):
    for folder in ("program", "installed"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a_common_name.py").write_text(f"folder = {folder!r}")
    program, installed = str(tmp_path / "program"), str(tmp_path / "installed")
    driver, worker = [program, *sys.path, installed], [*sys.path, installed]
    monkeypatch.setattr(sys, "path", driver)
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))  # as /usr/src/app is below /usr
    paths = import_paths()
    monkeypatch.setattr(sys, "path", worker)
    import_as_the_program(*paths)
    assert sys.path[0] == program
    assert sys.path.count(installed) == 1
    monkeypatch.delitem(sys.modules, "a_common_name", raising=False)
    assert importlib.import_module("a_common_name").folder == "program"
    sys.modules.pop("a_common_name")


def test_folders_that_only_the_program_has_are_added(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = list(sys.path)
    import_as_the_program([str(tmp_path)], ["/of/another/python"])
    assert sys.path == [str(tmp_path), *before, "/of/another/python"]
