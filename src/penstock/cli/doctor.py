"""``penstock doctor``: what this machine has, what is wrong with it, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from penstock.cli.output import JsonOption, console, print_json

LEAST_PYTHON = (3, 11)
LEAST_JAVA = 17


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``advice`` says what to do, and is empty if nothing is wrong."""

    subject: str
    found: str
    advice: str = ""

    @property
    def good(self) -> bool:
        """Whether nothing has to be done."""
        return not self.advice


def doctor(as_json: JsonOption = False) -> None:
    """Check Python, Java, the libraries and the cache folder. Exit code 1: something has to be done."""
    findings = list(examine())
    good = all(finding.good for finding in findings)
    if as_json:
        print_json({"good": good, "findings": [asdict(finding) | {"good": finding.good} for finding in findings]})
    else:
        _show(findings)
    if not good:
        raise typer.Exit(1)


def examine() -> Iterator[Finding]:
    """Look at everything, in the order of a set-up."""
    yield python()
    yield java()
    yield from libraries()
    yield cache()


def python() -> Finding:
    """Check the version of Python."""
    import sys

    found = f"{sys.version.split()[0]} ({sys.executable})"
    wanted = ".".join(map(str, LEAST_PYTHON))
    return Finding("Python", found, "" if sys.version_info >= LEAST_PYTHON else f"install Python {wanted} or newer")


def java() -> Finding:
    """Check that there is a Java, and that it is new enough."""
    from penstock.dev.jars import JavaNotFound, find_java

    try:
        program = find_java()
    except JavaNotFound as error:
        return Finding("Java", "none", f"{error} (the test driver and the demo work without it)")
    version = java_version(program)
    if version is None:
        return Finding("Java", f"{program} does not start", "reinstall it, or point JAVA_HOME at another one")
    advice = "" if version >= LEAST_JAVA else f"install Java {LEAST_JAVA} or newer, and point JAVA_HOME at it"
    return Finding("Java", f"{version} ({program})", advice)


def java_version(program: Path) -> int | None:
    """Ask a ``java`` program for its major version; None if it gives none."""
    import subprocess

    try:
        answer = subprocess.run([str(program), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return major_version(answer.stderr + answer.stdout)


def major_version(text: str) -> int | None:
    """Read the major version from what ``java -version`` says.

    >>> major_version('openjdk version "21.0.2" 2024-01-16'), major_version('java version "1.8.0_202"')
    (21, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def libraries() -> Iterator[Finding]:
    """Check every library that the package asks for."""
    from importlib.metadata import PackageNotFoundError, requires, version

    for requirement in requires("penstock") or ():
        spec, _, marker = requirement.partition(";")
        if "extra" in marker:
            continue
        name = re.split(r"[^A-Za-z0-9._-]", spec.strip())[0]
        try:
            found = version(name)
        except PackageNotFoundError:
            yield Finding(name, "missing", f"pip install '{spec.strip()}'")
            continue
        yield Finding(name, found, "" if satisfies(found, spec) else f"pip install '{spec.strip()}'")


def satisfies(version: str, requirement: str) -> bool:
    """Tell whether a version meets the bounds of a requirement (``==`` and ``>=``, which are all that we use).

    >>> satisfies("3.10.1", "orjson>=3.9"), satisfies("4.1.0", "pyspark==4.2.0")
    (True, False)
    """
    bounds = re.findall(r"(==|>=)\s*([\d.]+)", requirement)
    return all(
        _numbers(version) >= _numbers(wanted) if sign == ">=" else _numbers(version) == _numbers(wanted)
        for sign, wanted in bounds
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def cache() -> Finding:
    """Check that the folder of downloaded jars can be written."""
    import os

    from penstock.dev.jars import cache_root

    folder = cache_root()
    kept = len(list((folder / "jars").glob("*/*.jar"))) if (folder / "jars").is_dir() else 0
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    advice = "" if os.access(existing, os.W_OK) else "make it writable, or name another folder with PENSTOCK_CACHE"
    return Finding("cache", f"{folder} ({kept} jars)", advice)


def _show(findings: list[Finding]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for title in ("", "what", "found", "to do"):
        table.add_column(title, overflow="fold")
    for finding in findings:
        mark = "[green]ok[/]" if finding.good else "[red]fix[/]"
        table.add_row(mark, escape(finding.subject), escape(finding.found), escape(finding.advice))
    out = console()
    out.print(table)
    wrong = sum(not finding.good for finding in findings)
    out.print("Everything is there." if not wrong else f"{wrong} to do.")
