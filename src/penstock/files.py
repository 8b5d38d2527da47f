"""Files of the local state: the user's alone, locked among processes, and with an error that says what to do when the disk is full."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import StoreError


def write_private(path: Path, text: str) -> None:
    """Write a file that is the user's alone, whatever the umask."""
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)


def private_folder(folder: Path) -> None:
    """Make a folder that is the user's alone, whatever the umask; one that is there is made so."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Hold a lock among all processes of this machine; the file of it stays."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def allocate(path: str, size: int, *, create: bool = False) -> None:
    """Have disk space for the first bytes of a file: to write to a mapped page that has none ends the process."""
    descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
    try:
        with telling_of_a_full_disk(path, size):
            os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if (
            error.errno != errno.EOPNOTSUPP
        ):  # a file system, or a C library, that cannot: its full disk is a signal, as documented
            raise
    finally:
        os.close(descriptor)


@contextmanager
def telling_of_a_full_disk(path: str, size: int) -> Iterator[None]:
    """Explain which file had no space, and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        free = shutil.disk_usage(os.path.dirname(path)).free
        raise StoreError(
            f"no space left on the disk: {path} needs {size / 1e6:.1f} MB, and {free / 1e6:.1f} MB are free there. "
            "Make room, or set state_dir (PENSTOCK_STATE_DIR) to a folder on a larger disk; what is committed is in Kafka, nothing is lost"
        ) from error
