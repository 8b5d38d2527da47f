"""A folder for chunks on their way between tasks that share a machine (``protocol.chunk``, ``lane.shuffle_files``).

The process that has written a file writes it over in a later epoch. What an epoch that failed has left is deleted before the next one,
what a large one has left when only small ones follow, and the folder of a process that is no more by the next start.
"""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

from penstock.files import private_folder


class ShuffleFolder:
    """The folder of one run of an application."""

    def __init__(self, home: Path) -> None:
        """Make it below the state folder of the application, and delete those of processes that have ended."""
        parent = home / "staging"
        for other in parent.glob("*-*"):
            if not _is_alive(other.name.partition("-")[0]):
                shutil.rmtree(other, ignore_errors=True)
        self.folder = parent / f"{os.getpid()}-{uuid.uuid4().hex}"
        for folder in (home, parent, self.folder):
            private_folder(folder)

    def clear(self) -> None:
        """Delete all files: no epoch runs that uses them."""
        for path in self.folder.iterdir():
            path.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Delete the files of workers that are no more: nobody else would."""
        alive: dict[str, bool] = {}
        for name in os.listdir(self.folder):
            owner = name.partition(".")[0]
            if owner not in alive:
                alive[owner] = _is_alive(owner)
            if not alive[owner]:
                (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:  # somebody else's, but alive
        return True
    return True
