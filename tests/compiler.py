"""Whether the loops in C can be built here, and how they are built with every read and write of theirs watched."""

import os
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def has_compiler() -> bool:
    """Whether there is a compiler (``CC``, else ``cc``) that runs, and Python's headers."""
    try:
        runs = subprocess.run([os.environ.get("CC", "cc"), "--version"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
    return runs and (Path(sysconfig.get_paths()["include"]) / "Python.h").exists()


@cache
def sanitizer() -> str | None:
    """Return the library of gcc's address sanitizer, None if there is none here."""
    try:
        found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        return None
    return path if Path(path := found.stdout.strip()).is_absolute() else None


def build_sanitized(source: Path, folder: Path, suffix: str = SUFFIX) -> str:
    """Build a file of C with the sanitizers; return the library."""
    to = str(folder / f"{source.stem}{suffix}")
    flags = ["-shared", "-fPIC", "-g", "-O1", *SANITIZED, f"-I{sysconfig.get_path('include')}"]
    subprocess.run(["gcc", *flags, str(source), "-o", to], check=True)
    return to


def run_sanitized(program: Path, *arguments: str) -> None:
    """Run a program of Python that loads such libraries; what they find, and an exit code of it, is an error."""
    watched = {"LD_PRELOAD": sanitizer() or "", "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    given = [sys.executable, str(program), *arguments]
    ran = subprocess.run(given, env=os.environ | watched, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-5000:]
