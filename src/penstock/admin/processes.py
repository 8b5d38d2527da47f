"""Memory of the processes of an application on this machine: the driver, its JVM, the Python workers below that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> dict[str, int]:
    """Return the resident memory of the driver, and of the processes below it by what they are; pages that are shared count in each."""
    found = {"driver": _resident(os.getpid())}
    for number in below(os.getpid()):
        kind = "jvm" if _name(number) == "java" else "workers"
        found[kind] = found.get(kind, 0) + _resident(number)
    return found


def below(process: int) -> Iterator[int]:
    """Yield the processes below one, by number."""
    waiting = _children(process)
    while waiting:
        number = waiting.pop()
        waiting += _children(number)
        yield number


def _children(number: int) -> list[int]:
    """Return the children of all threads of a process."""
    found: list[int] = []
    for path in Path(f"/proc/{number}/task").glob("*/children"):
        found += map(int, _read(path).split())
    return found


def _resident(number: int) -> int:
    fields = _read(Path(f"/proc/{number}/statm")).split()
    return int(fields[1]) * PAGE if len(fields) > 1 else 0


def _name(number: int) -> str:
    return _read(Path(f"/proc/{number}/comm")).strip()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has ended meanwhile
        return ""
