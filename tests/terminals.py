"""A folder as its owner sees it: files of a document in it, commands of the document in terminals that stand there, with a real broker."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SECONDS = 120


class Terminals:
    """Commands that end, and those that go on beside them. ``instead``: what stands here for words of the document."""

    def __init__(
        self, folder: Path, servers: str, instead: Mapping[str, str] | None = None, **settings: object
    ) -> None:
        self.folder = folder
        self._instead = dict(instead or {})
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PENSTOCK_BOOTSTRAP_SERVERS": servers,
            "PENSTOCK_STATE_DIR": str(folder / "state"),
            "PENSTOCK_MASTER": "local[2]",
            "COLUMNS": "100",
            **{f"PENSTOCK_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self.beside: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}

    def here(self, text: str) -> str:
        """Return a text with what stands here for words of it: the ports of this machine, say."""
        words = "|".join(map(re.escape, self._instead))
        return re.sub(words, lambda found: self._instead[found[0]], text) if words else text

    def write(self, name: str, text: str) -> None:
        """Write a file of the document."""
        (self.folder / name).write_text(self.here(text))

    def run(self, commands: str, until: str = "") -> str:
        """Run commands, again and again until they show something if that is asked for; return what they print."""
        deadline = time.monotonic() + SECONDS
        while True:
            process = self._start(commands, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            said, errors = (text.decode() for text in process.communicate(timeout=SECONDS))
            if until in said and process.returncode == 0:
                return said
            assert until, f"{commands}\n{said}\n{errors}\n{self.logs()}"
            assert time.monotonic() < deadline, f"{commands}\n{said}\n{errors}\n{self.logs()}"
            time.sleep(0.5)

    def start_beside(self, commands: str, until: str) -> None:
        """Start a command in another terminal, and wait until it says that it is ready."""
        log = self.folder / f"terminal-{len(self.beside)}.log"
        with log.open("w") as output:
            process = self._start(f"exec {commands.strip()}\n", stdout=output, stderr=subprocess.STDOUT)
        self.beside[commands] = process, log
        deadline = time.monotonic() + SECONDS
        while until not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)

    def stop(self, beginning: str) -> None:
        """Press Ctrl-C in the terminal of a command; it must end well."""
        (commands,) = [known for known in self.beside if known.startswith(beginning)]
        process, log = self.beside.pop(commands)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(SECONDS) == 0, log.read_text()

    def logs(self) -> str:
        """Return what the other terminals show."""
        return "\n".join(log.read_text()[-3000:] for _, log in self.beside.values())

    def close(self) -> None:
        """End what runs still."""
        for process, _ in reversed(self.beside.values()):
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)

    def _start(self, commands: str, **how: Any) -> subprocess.Popen[bytes]:
        line = ["bash", "-ec", self.here(commands)]
        return subprocess.Popen(line, cwd=self.folder, env=self.environment, start_new_session=True, **how)
