"""Packages that only a peer needs: installed by pip on first use, into a folder of the cache, and in nobody else's way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.peers.process import CannotRun
from penstock.dev.cache import cache_root, made_once


def installed(*requirements: str) -> Path:
    """Return the folder that holds these packages and what they need."""
    name = "-".join(requirements).replace("==", "-")
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    return made_once(cache_root() / "bench" / f"{name}-{version}", lambda folder: _install(folder, requirements))


def _install(folder: Path, requirements: tuple[str, ...]) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
        str(folder),
    ]
    done = subprocess.run([*command, *requirements], capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no reason was given"]
        raise CannotRun(f"pip could not install {' '.join(requirements)}: {why[0]}")


def command(folder: Path, *arguments: str, alone: bool) -> list[str]:
    """The command that runs Python with these packages; ``alone``: without those of this environment."""
    path = str(folder) if alone else os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    return ["env", f"PYTHONPATH={path}", sys.executable, *(["-S"] if alone else []), *arguments]
