"""Python's garbage collector beside an application that runs: no thread that somebody waits for has to do its work.

The driver's process has a hundred thousand objects once everything is imported and open. A full collection goes through
all of them, with the interpreter to itself: 60 to 85 ms in which there is no epoch and no answer, some times a minute.
So they are set aside until the application ends. What comes after them is collected as ever, and from time to time by a
thread of its own: among it are py4j's objects, whose end is told to the JVM, one after the other, by the thread that
happens to collect them; it would be that of the loop, or that which answers over HTTP."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: between two collections
SECONDS = 5.0

_lock = threading.Lock()
#: applications of this process that run now, and whether somebody else had set objects aside before them
_running, _by_others = 0, False


@contextmanager
def frozen_objects() -> Iterator[None]:
    """Set aside what is there now, and collect what comes, until the end of the block; of several, of the last one.

    What somebody else had set aside before stays so. Nothing is collected while the collector is disabled.
    """
    ended = threading.Event()
    _begin()
    threading.Thread(target=_collect, args=(ended,), name="penstock-gc", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        _end()


def _begin() -> None:
    global _running, _by_others
    with _lock:
        if not _running:
            _by_others = gc.get_freeze_count() > 0
        _running += 1
        gc.freeze()


def _end() -> None:
    global _running
    with _lock:
        _running -= 1
        if not (_running or _by_others):
            gc.unfreeze()


def _collect(ended: threading.Event) -> None:
    while not ended.wait(SECONDS):
        if gc.isenabled():
            gc.collect()
