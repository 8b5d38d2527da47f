"""The doctor looks at the folder of the state."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.cli.finding import Finding

LEAST_SPACE = 1 << 30
MOUNTS = Path("/proc/self/mountinfo")
#: a store is memory that several processes share, which these cannot give
REMOTE = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "vboxsf", "afs", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse"}


def examine(config: Mapping[str, Any]) -> Iterator[Finding]:
    """Check that state can be kept: the folder can be written, has room, and is on a disk of this machine."""
    from penstock.dev.cache import cache_root
    from penstock.state.lmdb_format import boot_id

    folder = Path(config["state_dir"] or cache_root() / "state").absolute()
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free, kind = shutil.disk_usage(existing).free, file_system(existing, MOUNTS.read_text())
    found = f"{folder} ({kind}, {free / (1 << 30):.1f} GB free, {applications(folder)} applications)"
    yield Finding("state folder", found, *advice(folder, existing, free, kind))
    boot = boot_id()
    unknown = (
        "the system does not say when it was started: after a crash of the machine, remove the state folder yourself"
    )
    yield Finding("boot id", boot or "none", "" if boot else unknown, may=True)


def advice(folder: Path, existing: Path, free: int, kind: str) -> tuple[str, bool]:
    """Explain what to do about the folder, and whether it can be left."""
    elsewhere = "name another folder with PENSTOCK_STATE_DIR"
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return f"{existing} cannot be written: make it writable, or {elsewhere}", False
    if kind in REMOTE:
        return f"a file system over the network ({kind}) cannot hold state: {elsewhere}", False
    if free < LEAST_SPACE:
        return f"less than 1 GB is free: make room, or {elsewhere}", True
    return "", False


def applications(folder: Path) -> int:
    """Count the applications that have state in a folder."""
    return sum(entry.is_dir() for entry in folder.iterdir()) if folder.is_dir() else 0


def file_system(path: Path, mounts: str) -> str:
    """Return the kind of file system that a path is on: that of the innermost mount above it.

    >>> mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\\n2 1 0:5 / /mnt/far rw shared:1 - nfs4 host:/far rw"
    >>> file_system(Path("/mnt/far/state"), mounts), file_system(Path("/mnt/farther"), mounts)
    ('nfs4', 'ext4')
    """
    kinds = {}
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        place = left.split()[4].encode().decode("unicode_escape")  # a blank is written \040
        kinds[Path(place)] = right.split()[0]
    resolved = path.resolve()
    return next((kinds[parent] for parent in (resolved, *resolved.parents) if parent in kinds), "unknown")
