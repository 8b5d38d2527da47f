"""The workload as a process: started in a session of its own, killed, ended in order. Nothing of it is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock.dev.watch import await_end, kill_session, session

ROOT = Path(__file__).parents[2]
#: seconds: a start on a busy machine takes long, but not that long
PATIENCE = 120
FATAL = ("crash driver", "crash group")


class Program:
    """One run of the workload. What it says is kept, and can be waited for. ``python``: whose Penstock it runs, if not this one."""

    def __init__(
        self,
        bootstrap: str,
        application: str,
        folder: Path,
        *,
        crashes: Iterable[str] = (),
        python: str | None = None,
        **options: Any,
    ):
        self._contents = folder / "contents.json"
        self._contents.unlink(missing_ok=True)
        command = [python or sys.executable, "-m", "tests.exactly_once.workload", "--bootstrap", bootstrap]
        command += ["--application", application, "--state", str(folder / "state"), "--contents", str(self._contents)]
        command += [word for crash in crashes for word in ("--crash", crash)]
        command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.said: list[str] = []
        self._heard = threading.Condition()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """The process id, which is that of the session, too."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the driver lives."""
        return self._process.poll() is None

    def heard(self, pattern: str, times: int = 1) -> bool:
        """Whether so many lines of what it said match."""
        return sum(bool(re.search(pattern, line)) for line in self.said) >= times

    def wait_for(self, pattern: str, times: int = 1) -> None:
        """Wait until it has said something; fail if it ends before."""
        for _ in range(PATIENCE):
            with self._heard:
                if self._heard.wait_for(lambda: self.heard(pattern, times), 1) or not self.running:
                    break
        assert self.heard(pattern, times), f"{pattern!r} was not said:\n" + self.text()

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait for the end; return the exit code."""
        return self._process.wait(timeout)

    def wait_or(self, seconds: float) -> None:
        """Wait for so long, or for the end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(seconds)

    @property
    def kills(self) -> int:
        """How many kills it has seen: planted ones, and the one that ended it from outside."""
        planted = [line for line in self.said if line.startswith("crash ")]
        ended_by_one = self._process.poll() == -signal.SIGKILL
        return len(planted) + (ended_by_one and not any(line.startswith(FATAL) for line in planted))

    def wait_killed(self) -> None:
        """Wait until the planted crash has ended the driver."""
        assert self.wait() == -signal.SIGKILL, self.text()

    def kill(self) -> None:
        """End the driver alone, at once."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def kill_all(self) -> None:
        """End every process of the session at once."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        kill_session(self.pid)
        self.wait()

    def end(self) -> dict[str, Any]:
        """End in order; return the contents of the stores."""
        os.kill(self.pid, signal.SIGTERM)
        assert self.wait() == 0, self.text()
        found: dict[str, Any] = json.loads(self._contents.read_text())
        return found

    def leftovers(self, seconds: float = 30) -> list[int]:
        """Return what is still alive of a session whose driver has ended, after it was given time to end by itself."""
        await_end(session(self.pid), seconds)
        return session(self.pid)

    def close(self) -> None:
        """End whatever lives."""
        if self._process.poll() is None or session(self.pid):
            self.kill_all()
        self._listener.join(10)

    def text(self) -> str:
        """All that it said."""
        return "\n".join(self.said[-80:])

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._heard:
                self.said.append(line.rstrip())
                self._heard.notify_all()
