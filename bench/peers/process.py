"""A program while it runs.

The process is a session of its own, so that everything it starts can be found by the session (``bench.measure``), whoever
the parent is by then. It holds the other end of a pipe as its standard input: should the benchmark die, it ends, too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.measure import members
from penstock.errors import PenstockError

ROOT = Path(__file__).parents[2]


class CannotRun(PenstockError):
    """A system cannot be run on this machine: it is left out."""


class SystemFailed(PenstockError):
    """A system ended by itself, or stood still."""


class Process:
    """A started program. ``heard`` tells when it first printed a line; errors go to ``log``. A context manager."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.heard: dict[str, float] = {}
        self.started = time.monotonic()
        self._log = log
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise if the program has ended."""
        if (code := self._process.poll()) is not None:
            self._listener.join(5)
            raise SystemFailed(f"the program ended by itself, with exit code {code}. {self.last_words()}")

    def told(self, word: str) -> list[tuple[float, Any]]:
        """The JSON that the program printed behind a word, each time with the time."""
        lines = [(at, line) for line, at in list(self.heard.items()) if line.startswith(f"{word} ")]
        return [(at, json.loads(line.removeprefix(word))) for at, line in lines]

    def last_words(self) -> str:
        """What the program printed, and how its log ends."""
        said = self._log.read_text(errors="replace").splitlines()[-25:] or ["(nothing)"]
        printed = ", ".join(list(self.heard)[-10:]) or "nothing"
        return f"It printed: {printed}. Its log ends with:\n  " + "\n  ".join(said)

    def stop(self, timeout: float = 60) -> int:
        """End the program in order, and then whatever is left of it; return its exit code."""
        group = members(self.pid)
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        for pid in members(self.pid).keys() & group.keys():
            os.kill(pid, signal.SIGKILL)
        self._listener.join(5)
        return code

    def kill(self) -> None:
        """End the program and all that belongs to it at once, as a crash of the machine would."""
        for pid in members(self.pid):
            os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.heard.setdefault(line.strip(), time.monotonic())
