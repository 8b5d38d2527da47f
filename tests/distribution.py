"""The distribution as it is published, built once, and installed where there is no compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def tracked(folder: Path) -> Path:
    """Copy what an sdist is made of: nothing that was built."""
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    return folder


def built(folder: Path) -> tuple[Path, Path]:
    """Build sdist and, from it, wheel."""
    source, out = folder / "source", folder / "dist"
    source.mkdir()
    command = [sys.executable, "-m", "build", "--outdir", str(out), str(tracked(source))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def installed(wheel: Path, folder: Path) -> Path:
    """Install a wheel into an environment of its own; what it depends on is taken from the one of the tests."""
    venv.create(folder, symlinks=True, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    command = [sys.executable, "-m", "pip", "--python", str(folder), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(command, check=True, env=os.environ | {"CC": "no-compiler", "PATH": ""})
    # its own packages come first; the editable Penstock of the tests is in files that are not read from here
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder
