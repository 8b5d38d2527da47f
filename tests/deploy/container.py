"""The image of the Containerfile as far as a machine without a container engine can have it: the instructions of its last stage, above
this machine's own root file system, in namespaces of its own.

Taken from the file: the commands of RUN that make the user and the folder of the volume, WORKDIR, COPY, ENV, USER, ENTRYPOINT and CMD.
Not as in the image: Python, its packages and Java are this machine's, and the wheel is in a virtual environment. It runs as with
``docker run --read-only --tmpfs /tmp:exec --volume ...:/state``: nobody can write to the root file system, /tmp and /dev/shm (64 MB)
are in memory, the program is process 1 and sees no process of others.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import manifests

ROOT = Path(__file__).parents[2]
#: as of the image's base
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: $1: mount point of what is above the root file system, $2: folder of the volume, then the program with its environment
SCRIPT = """
set -e
above=$1 volume=$2; shift 2
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$above"
cd "$above"
mkdir root layer work
mount -t overlay -o "lowerdir=/,upperdir=$above/layer,workdir=$above/work" overlay root
cd root
{build}
chown --reference=state "$volume"
mount --bind "$volume" state
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs -o mode=1777,size=64m tmpfs dev/shm
mount -t tmpfs -o mode=1777,exec tmpfs tmp
mount -o remount,ro "$above/root"
exec chroot --userspec={user} . env --chdir={workdir} -i "$@"
"""


def can_be_made() -> bool:
    """Whether this machine lets us: root, with namespaces and overlays."""
    probe = "mount -t tmpfs tmpfs $0 && cd $0 && mkdir a b c && mount -t overlay -o lowerdir=/,upperdir=a,workdir=b overlay c"
    command = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", probe, "/mnt"]
    try:
        return os.getuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def script(environment: Path) -> str:
    """Return what makes the container's root file system, and becomes its program."""
    made = [part.strip() for run in manifests.instructions_of("RUN") for part in run.split("&&")]
    made = [f"chroot . {part}" for part in made if part.split()[0] in ("useradd", "install")]
    assert len(made) == 2, "the Containerfile makes a user and the folder of its volume"
    workdir = manifests.instruction("WORKDIR")
    copied = [copy.split() for copy in manifests.instructions_of("COPY") if not copy.startswith("--from")]
    made += [f"mkdir -p .{workdir}"]
    made += [f"cp {shlex.quote(str(ROOT / source))} .{workdir}/{target}" for source, target in copied]
    # whoever is not root must come to Python and the packages, as in the image
    ways = [Path(sys.base_prefix), Path(sysconfig.get_path("purelib")), environment]
    made += [f"chmod a+rx .{shlex.quote(str(each))}" for way in ways for each in way.parents if each != Path("/")]
    return SCRIPT.format(build="\n".join(made), user=manifests.instruction("USER"), workdir=workdir)


class Container:
    """A run of the image: ``environment`` has the wheel, ``volume`` is the folder of /state, ``variables`` win over the image's."""

    def __init__(self, folder: Path, environment: Path, volume: Path, variables: Mapping[str, str]) -> None:
        (folder / "above").mkdir(exist_ok=True)
        volume.mkdir(exist_ok=True)
        self._said = folder / "said"
        given = {"PATH": f"{environment}/bin:{PATH}", **manifests.environment(), **variables}
        program = [*(f"{name}={value}" for name, value in given.items()), *manifests.command()]
        command = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            script(environment),
            "container",
        ]
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(
                [*command, str(folder / "above"), str(volume), *program],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process 1, as this machine numbers it."""
        at = self._process.pid
        return int(Path(f"/proc/{at}/task/{at}/children").read_text())

    def status(self, name: str) -> str:
        """Return what the kernel says of process 1."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(line.partition(":")[2] for line in lines if line.startswith(f"{name}:"))

    def mounts(self) -> dict[str, list[str]]:
        """Return mount point → its options."""
        lines = [line.split() for line in Path(f"/proc/{self.pid}/mountinfo").read_text().splitlines()]
        return {words[4]: words[5].split(",") for words in lines}

    def stop(self, seconds: float) -> int:
        """Ask process 1 to end, as an engine does; return the exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self._process.wait(seconds)

    def close(self) -> None:
        """End whatever is left."""
        self._process.kill()
        self._process.wait()

    def text(self) -> str:
        return self._said.read_text(errors="replace")
