"""Where everything that Penstock brings or makes once is kept: jars, the Java shim, the data of ``penstock dev``.

A folder of the cache appears by a rename of a finished folder, so it is complete if it exists; a lock beside it lets one
process of many make it and the others wait for it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_root() -> Path:
    """Where downloads are kept: PENSTOCK_CACHE, else `penstock` in the user's cache folder."""
    if configured := os.environ.get("PENSTOCK_CACHE"):
        return Path(configured).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return the folder ``target``; where it is missing, ``make`` fills an empty folder, which then becomes it.

    The parent of the folder that ``make`` is given is scratch space of its own, and goes away.
    """
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.with_suffix(".lock")):
            if not target.is_dir():  # another process may have finished while we waited for the lock
                _make(target, make)
    return target


def _make(target: Path, make: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="incoming-", dir=target.parent) as scratch:
        folder = Path(scratch) / "made"
        folder.mkdir()
        make(folder)
        folder.rename(target)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
