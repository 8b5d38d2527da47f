"""Where a machine keeps the state of an application: the processes of its workers share it, and the driver deletes it."""

from __future__ import annotations

import os
import shutil
from hashlib import sha1
from pathlib import Path

from penstock.protocol.request import Stage

#: a file system in memory, and how many bytes it must have: a container may have been given next to nothing
SHARED_MEMORY, LEAST_BYTES = Path("/dev/shm"), 1 << 30


def application_folder(stage: Stage) -> Path:
    """Return where this machine keeps the state of an application."""
    return Path(os.environ.get("PENSTOCK_STATE_DIR") or stage.state_dir) / stage.application_id


def remove_state(folder: Path) -> None:
    """Delete the local state of an application, whole."""
    shutil.rmtree(folder, ignore_errors=True)


def memory_folder(stage: Stage, home: Path) -> Path:
    """Return the folder of a run; in the state folder ``home`` of the application, if the machine has no file system in memory."""
    parent = home / "memory"
    if os.access(SHARED_MEMORY, os.W_OK) and shutil.disk_usage(SHARED_MEMORY).total >= LEAST_BYTES:
        name = sha1(os.path.realpath(home).encode()).hexdigest()[:16]
        parent = SHARED_MEMORY / f"penstock-{os.getuid()}" / f"{stage.application_id}-{name}"
    return parent / f"run-{stage.run}"


def remove_memory(stage: Stage, home: Path) -> None:
    """Delete what a run has kept in memory."""
    shutil.rmtree(memory_folder(stage, home), ignore_errors=True)
