"""Standard error of Spark's JVM: kept while Spark starts, then forwarded to this process' standard error.

The log lines of a start help nobody unless it fails, so they are kept for the error message. Output of user functions
in the workers arrives on the same pipe and must be shown, so everything after the start is forwarded to
``sys.stderr`` line by line; a live view that has replaced ``sys.stderr`` draws itself around the lines.
"""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import suppress

KEPT_LINES = 40
#: what a JVM says when it ends for want of memory
NO_MEMORY = "Terminating due to java.lang.OutOfMemoryError"
TRACEBACK, BROKEN, DAEMON = "Traceback (most recent call last):", "BrokenPipeError", "pyspark/daemon.py"


class JvmStderr:
    """Reads a pipe in its own thread until the last writer closes it. Initially nothing is forwarded.

    >>> stderr = JvmStderr()
    >>> _ = os.write(stderr.writing_end, b"WARNING: Using incubator modules\\n")
    >>> stderr.listen_after(lambda mark: os.write(stderr.writing_end, f"{mark}\\n".encode()))
    True
    >>> stderr.kept
    ['WARNING: Using incubator modules']
    """

    def __init__(self) -> None:
        reading_end, self.writing_end = os.pipe()
        self._mark = ""
        self._marked = threading.Event()
        self._hushed = True
        self._no_memory = False
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)
        self._held: list[str] = []
        self._thread = threading.Thread(target=self._pump, args=(reading_end,), name="penstock-stderr", daemon=True)
        self._thread.start()

    @property
    def kept(self) -> list[str]:
        """The last lines that were not forwarded."""
        return list(self._kept)

    def close_writing_end(self) -> None:
        """Close this process' copy of the writing end; the JVM has its own."""
        os.close(self.writing_end)

    def hush(self) -> None:
        """Stop forwarding."""
        self._hushed = True

    def listen_after(self, write: Callable[[str], object]) -> bool:
        """Start forwarding after a marker line that ``write`` writes to the pipe; return whether it was read."""
        self._mark = f"penstock-{uuid.uuid4().hex}"
        self._marked.clear()
        write(self._mark)
        return self._marked.wait(5)

    def last_words(self) -> str:
        """Return the last lines of a process that has ended, joined into one."""
        self._thread.join(1)
        return " | ".join(line for line in self.kept if line)[-1500:]

    def ran_out_of_memory(self) -> bool:
        """Whether a process that has ended reported that it ran out of memory."""
        self._thread.join(1)
        return self._no_memory

    def _pump(self, reading_end: int) -> None:
        with open(reading_end, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._take(line)
        self._pass_on()

    def _take(self, line: str) -> None:
        self._no_memory |= line.startswith(NO_MEMORY)
        if self._mark and line.rstrip() == self._mark:
            self._hushed = False
            self._marked.set()
        elif self._hushed:
            self._kept.append(line.rstrip())
        else:
            self._sift(line)

    def _sift(self, line: str) -> None:
        """Forward a line, unless it belongs to the traceback of a worker that Spark has ended.

        Spark closes the socket of a worker that had nothing to do for a minute, and its daemon tells the world that it was closed.
        Workers are sent home together, and their lines come in any order between each other's: what is held back is let go when
        as many have ended as have begun, and is passed on when a line comes that is of no such traceback.
        """
        self._held.append(line)
        if not (line.startswith((TRACEBACK, BROKEN)) or (line.lstrip().startswith("File ") and DAEMON in line)):
            self._pass_on()
        elif line.startswith(BROKEN):
            ended = sum(text.startswith(BROKEN) for text in self._held)
            if ended == sum(text.startswith(TRACEBACK) for text in self._held):
                self._held.clear()
            elif not self._held[0].startswith(TRACEBACK):
                self._pass_on()

    def _pass_on(self) -> None:
        text = "".join(self._held)
        self._held.clear()
        if not text:
            return
        with suppress(OSError, ValueError, AttributeError):  # stderr is closed: read on, or the JVM would wait for us
            sys.stderr.write(text)
            sys.stderr.flush()
