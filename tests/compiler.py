"""Whether the loops in C can be built here."""

import os
import subprocess
import sysconfig
from pathlib import Path


def has_compiler() -> bool:
    """Whether there is a compiler (``CC``, else ``cc``) that runs, and Python's headers."""
    try:
        runs = subprocess.run([os.environ.get("CC", "cc"), "--version"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
    return runs and (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()
