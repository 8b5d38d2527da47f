"""Bring jars onto this machine by their Maven coordinates.

Why not a download loop of our own: a jar without its dependencies is useless, and resolving them is a solved problem.
The PySpark wheel carries Ivy, a complete resolver, so `java -jar ivy.jar` is all that is needed; it honours Java's own
proxy settings, and `PENSTOCK_IVY_SETTINGS` may name an `ivysettings.xml` for a private repository.

    resolve(["org.apache.kafka:kafka-streams:4.3.1"])  ->  [Path(".../kafka-streams-4.3.1.jar"), ...]

A coordinate is `organisation:name:version`; with `@jar` after it, that one jar is taken without its dependencies.
The folder of a set of coordinates is `<cache>/jars/<digest of the set>`; it is complete if it exists.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from xml.sax.saxutils import quoteattr

from penstock.dev.cache import cache_root, made_once
from penstock.dev.java import JavaNotFound, find_java, from_wheel
from penstock.dev.trust import trust_options
from penstock.errors import PenstockError

__all__ = [
    "JarsNotFound",
    "JavaNotFound",
    "cache_root",
    "cached",
    "find_ivy",
    "find_java",
    "resolve",
    "spark_home",
]

Progress = Callable[[str], None]


class JarsNotFound(PenstockError):
    """The jars could not be resolved or downloaded."""


def spark_home() -> Path:
    """The folder of the installed PySpark: its scripts and jars are in it. PySpark itself is not imported."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsNotFound("PySpark was not found. Install it: pip install 'pyspark>=4.0,<5'")
    return Path(spec.origin).parent


def find_ivy() -> Path:
    """The Ivy jar inside the installed PySpark."""
    found = sorted((spark_home() / "jars").glob("ivy-*.jar"))
    if not found:
        raise JarsNotFound("the Ivy resolver was not found inside PySpark. Reinstall it: pip install 'pyspark>=4.0,<5'")
    return found[-1]


def resolve(
    coordinates: Iterable[str], cache_dir: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> list[Path]:
    """The jars of these coordinates with their dependencies, from the cache or else downloaded, sorted by name.

    `progress` is told one line for each file while a download runs. Raises `JavaNotFound` or `JarsNotFound`,
    whose messages say what to do.
    """
    wanted = sorted(set(coordinates))
    ivy_file = _ivy_file(wanted)
    tell = progress or (lambda line: None)
    folder = made_once(_folder_of(wanted, cache_dir), lambda folder: _download(ivy_file, folder, tell))
    return sorted(folder.glob("*.jar"))


def cached(coordinates: Iterable[str], cache_dir: str | os.PathLike[str] | None = None) -> list[Path] | None:
    """What `resolve` would return if nothing has to be downloaded for it, else None."""
    target = _folder_of(coordinates, cache_dir)
    return sorted(target.glob("*.jar")) if target.is_dir() else None


def _folder_of(coordinates: Iterable[str], cache_dir: str | os.PathLike[str] | None) -> Path:
    root = Path(cache_dir) if cache_dir is not None else cache_root() / "jars"
    return root / hashlib.sha256("\n".join(sorted(set(coordinates))).encode()).hexdigest()[:16]


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


def _download(ivy_file: str, folder: Path, progress: Progress) -> None:
    (folder.parent / "ivy.xml").write_text(ivy_file)
    output = run_ivy(folder, progress)
    if not any(folder.glob("*.jar")):
        raise JarsNotFound(_why(output))


def run_ivy(folder: Path, progress: Progress, settings: str | None = None) -> list[str]:
    """Bring what the ``ivy.xml`` beside a folder asks for into it. ``settings``: a file, unless the user names one."""
    settings = os.environ.get("PENSTOCK_IVY_SETTINGS") or settings
    java = find_java()
    command = [
        str(java),
        *(trust_options(folder.parent) if from_wheel(java) else ()),
        "-jar",
        str(find_ivy()),
        *(["-settings", settings] if settings else []),
        *("-ivy", str(folder.parent / "ivy.xml")),
        *("-cache", str(folder.parent / "cache")),
        *("-retrieve", str(folder / "[artifact]-[revision](-[classifier]).[ext]")),
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
