"""Python's garbage collector beside an application that runs: it does not look at what was there before.

The driver's process has a hundred thousand objects once everything is imported and open. A full collection goes through
all of them, with the interpreter to itself: 60 to 85 ms in which there is no epoch and no answer, some times a minute.
So they are set aside until the application ends; what comes after them is collected as ever."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
#: applications of this process that run now, and whether somebody else had set objects aside before them
_running, _by_others = 0, False


@contextmanager
def frozen_objects() -> Iterator[None]:
    """Set aside what is there now, until the end of the block; of several in a process, of the last one.

    What somebody else had set aside before stays so.
    """
    global _running, _by_others
    with _lock:
        if not _running:
            _by_others = gc.get_freeze_count() > 0
        _running += 1
        gc.freeze()
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not (_running or _by_others):
                gc.unfreeze()
