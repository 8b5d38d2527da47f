"""How the driver asks a worker what it is at: the names of the worker's files in memory, and the signal."""

from __future__ import annotations

import signal

#: names of files in memory: the task that runs, padded to a length; stacks of all threads, appended
TASK_FILE, STACK_FILE = "penstock-task", "penstock-stacks"
TASK_LENGTH = 96
#: asks for the stacks
ASK = signal.SIGUSR2
