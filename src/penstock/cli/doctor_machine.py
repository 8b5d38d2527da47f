"""The doctor looks at the machine: Python, Java, libraries, jars, the cache, cores and memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from penstock.cli.finding import Finding
from penstock.cli.version import DISTRIBUTION

LEAST_PYTHON = (3, 11)
#: Spark's driver takes 2 GB, its Python workers some more
LEAST_MEMORY = 3 << 30
CGROUP = Path("/sys/fs/cgroup")
MEMORY_INFO = Path("/proc/meminfo")


def examine() -> Iterator[Finding]:
    """Look at everything."""
    yield python()
    yield machine()
    yield from java()
    yield from libraries()
    yield native()
    yield cache()
    yield from jars()


def python() -> Finding:
    """Check the version of Python."""
    import sys

    found = f"{sys.version.split()[0]} ({sys.executable})"
    wanted = ".".join(map(str, LEAST_PYTHON))
    return Finding("Python", found, "" if sys.version_info >= LEAST_PYTHON else f"install Python {wanted} or newer")


def machine() -> Finding:
    """Count the cores and the memory that this process may use, limits of a container included."""
    free = memory()
    found = f"{cores()} cores, {free / (1 << 30):.1f} GB of memory free"
    advice = "Spark needs about 3 GB: end other programs, or give the container more" if free < LEAST_MEMORY else ""
    return Finding("machine", found, advice, may=True)


def cores() -> int:
    """Return the number of cores that this process may use."""
    allowed = len(os.sched_getaffinity(0))
    limit = (_limit("cpu.max") or "max").split()
    return allowed if limit[0] == "max" else min(allowed, max(1, int(limit[0]) // int(limit[1])))


def memory() -> int:
    """Return the bytes of memory that are free to this process."""
    rows = dict(re.findall(r"^(\w+):\s+(\d+) kB$", MEMORY_INFO.read_text(), re.MULTILINE))
    free = int(rows["MemAvailable"]) << 10
    limit = _limit("memory.max")
    if limit is None or limit == "max":
        return free
    return min(free, int(limit) - int(_limit("memory.current") or 0))


def _limit(name: str) -> str | None:
    path = CGROUP / name
    return path.read_text().strip() if path.is_file() else None


def java() -> Iterator[Finding]:
    """Check that there is a Java, that it is new enough, and that JAVA_HOME leads to it."""
    from penstock.dev.java import LEAST_JAVA, JavaNotFound, find_java, java_home

    try:
        program = find_java()
        home = java_home()
    except JavaNotFound as error:
        yield Finding("Java", "none", f"{error} (the test driver and the demo work without it)")
        return
    version = java_version(program)
    if version is None:
        yield Finding("Java", f"{program} does not start", "reinstall it, or point JAVA_HOME at another one")
        return
    advice = "" if version >= LEAST_JAVA else f"install Java {LEAST_JAVA} or newer, and point JAVA_HOME at it"
    behind = "" if program.resolve().parent.parent == home.resolve() else f", for Spark by way of {home}"
    yield Finding("Java", f"{version} ({program}{behind})", advice)
    named = os.environ.get("JAVA_HOME")
    if named and Path(named).resolve() not in (home.resolve(), program.resolve().parent.parent):
        yield Finding("JAVA_HOME", named, f"no Java {LEAST_JAVA} or newer is there: set it to {home}, or unset it")


def java_version(program: Path) -> int | None:
    """Ask a ``java`` program for its major version; None if it gives none."""
    import subprocess

    from penstock.dev.java import major_version

    try:
        answer = subprocess.run([str(program), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return major_version(said[1]) if said else None


def libraries() -> Iterator[Finding]:
    """Check every library that the package asks for."""
    from importlib.metadata import PackageNotFoundError, requires, version

    for requirement in requires(DISTRIBUTION) or ():
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
    """Return whether a version meets the bounds of a requirement (``==``, ``>=`` and ``<``, which are all that we use).

    >>> satisfies("3.10.1", "orjson>=3.9"), satisfies("4.1.0", "pyspark==4.2.0"), satisfies("3.0.1", "pandas>=2.2,<3")
    (True, False, False)
    """
    meets = {
        "==": lambda ours, bound: ours == bound,
        ">=": lambda ours, bound: ours >= bound,
        "<": lambda ours, bound: ours < bound,
    }
    bounds = re.findall(r"(==|>=|<)\s*([\d.]+)", requirement)
    return all(meets[sign](_numbers(version), _numbers(bound)) for sign, bound in bounds)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def native() -> Finding:
    """Tell of each loop whether it is the one in C that is used, or its Python twin."""
    from penstock.native.loader import LOOPS, in_c

    used = [what for name, what in LOOPS.items() if in_c(name) is not None]
    missing = [what for what in LOOPS.values() if what not in used]
    bodies = {"in C": used, "in Python": missing}
    found = "; ".join(f"{body}: {', '.join(loops)}" for body, loops in bodies.items() if loops)
    if not missing:
        return Finding("loops", found)
    remedy = "install a C compiler and Python's headers, then Penstock anew"
    if os.environ.get("PENSTOCK_NATIVE") == "0":
        remedy = "unset PENSTOCK_NATIVE"
    return Finding("loops", found, f"{' and '.join(missing)} cost twice as much or more in Python: {remedy}", may=True)


def cache() -> Finding:
    """Check that the folder of what is downloaded once can be written."""
    from penstock.dev.cache import cache_root

    folder = cache_root()
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    advice = "" if os.access(existing, os.W_OK) else "make it writable, or name another folder with PENSTOCK_CACHE"
    return Finding("cache", str(folder), advice)


def jars() -> Iterator[Finding]:
    """Return whether the jars of a broker are in the cache. They come when they are needed: they need not be there."""
    from penstock.dev import server
    from penstock.dev.jars import cached

    kept = cached(server.COORDINATES)
    if kept is None:
        advice = "`penstock dev` fetches them, if you want a broker here"
        yield Finding("Kafka's jars", "not fetched yet", advice, may=True)
    else:
        yield Finding("Kafka's jars", f"{len(kept)} jars")
