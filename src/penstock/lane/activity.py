"""What a worker is at, for ``/debug/threads``: the task that it runs, and on request the stacks of its threads.

Both are files in memory that the driver finds below ``/proc``. The stacks are written by Python's ``faulthandler`` when the driver
sends ``SIGUSR2``: it does so whatever the worker is doing, also while a function of the user's hangs. Nobody asks: it costs a write
of some bytes for each task.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal

from penstock.protocol.activity import ASK, STACK_FILE, TASK_FILE, TASK_LENGTH


class Activity:
    """The files of this process, made when it runs its first task."""

    def __init__(self) -> None:
        self._owner: int | None = None
        self._task = -1

    def begin(self, task: str) -> None:
        """Note which task begins."""
        if self._owner != os.getpid():
            self._open()
        if self._task >= 0:
            os.pwrite(self._task, task.encode()[:TASK_LENGTH].ljust(TASK_LENGTH), 0)

    def _open(self) -> None:
        """Make the files; nothing where the system has none in memory, or the program has a use of its own for the signal."""
        self._owner, self._task = os.getpid(), -1
        if not hasattr(os, "memfd_create") or signal.getsignal(ASK) is not signal.SIG_DFL:
            return
        self._task = os.memfd_create(TASK_FILE)
        stacks = os.memfd_create(STACK_FILE)
        fcntl.fcntl(stacks, fcntl.F_SETFL, os.O_APPEND)
        faulthandler.register(ASK, file=stacks, all_threads=True)


#: one for each process: it runs one task at a time
ACTIVITY = Activity()
