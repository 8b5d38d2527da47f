"""A system under measurement: how its program is started, and the process while it runs.

The process is a session of its own, so that everything it starts can be found by the session (``bench.measure``), whoever
the parent is by then. It holds the other end of a pipe as its standard input: should the benchmark die, it ends, too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.measure import members
from bench.peers import java
from penstock.errors import PenstockError

ROOT = Path(__file__).parents[2]


class SystemFailed(PenstockError):
    """A system ended by itself, stood still, or gave wrong results."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a program is told."""

    bootstrap_servers: str
    application_id: str
    source: str
    target: str
    threads: int
    state_dir: Path
    settings: Sequence[str] = ()

    def arguments(self, guarantee: str) -> list[str]:
        """The command line that all programs share."""
        places = [self.bootstrap_servers, self.application_id, self.source, self.target]
        return [*places, guarantee, str(self.threads), str(self.state_dir), *self.settings]


@dataclass(frozen=True, slots=True)
class System:
    """One row of the comparison. ``command`` raises a ``PenstockError`` where the system cannot run."""

    name: str
    label: str
    command: Callable[[Job], list[str]]


#: as Penstock's producer has them: large batches that a commit flushes; no compression is the default of both
SAME_PRODUCER = ("producer.batch.size=1000000", "producer.linger.ms=1000", "producer.buffer.memory=67108864")
#: at least once, Kafka Streams would commit every 30 seconds
SAME_COMMITS = ("commit.interval.ms=100",)
#: commits as far apart as Penstock's when it is behind: fewer results of each key leave the cache
RARE_COMMITS = ("commit.interval.ms=2000",)


def _java(guarantee: str, *settings: str) -> Callable[[Job], list[str]]:
    return lambda job: java.command("CountSum", *job.arguments(guarantee), *settings)


def _penstock(guarantee: str) -> Callable[[Job], list[str]]:
    return lambda job: [sys.executable, "-m", "bench.peers.count_sum", *job.arguments(guarantee)]


SYSTEMS = {
    system.name: system
    for system in (
        System("java", "Kafka Streams, exactly once", _java("exactly_once_v2", *SAME_PRODUCER)),
        System("java-2s", "... commits every 2 s", _java("exactly_once_v2", *SAME_PRODUCER, *RARE_COMMITS)),
        System("java-default", "... all settings default", _java("exactly_once_v2")),
        System("java-alo", "Kafka Streams, at least once", _java("at_least_once", *SAME_PRODUCER, *SAME_COMMITS)),
        System("penstock", "Penstock, exactly once", _penstock("exactly_once")),
        System("penstock-alo", "Penstock, at least once", _penstock("at_least_once")),
    )
}


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

    def told(self, word: str) -> Any:
        """The JSON that the program printed behind a word, None if it did not."""
        line = next((line for line in self.heard if line.startswith(f"{word} ")), None)
        return None if line is None else json.loads(line.removeprefix(word))

    def last_words(self) -> str:
        """What the program printed, and how its log ends."""
        said = self._log.read_text(errors="replace").splitlines()[-25:] or ["(nothing)"]
        return f"It printed: {', '.join(self.heard) or 'nothing'}. Its log ends with:\n  " + "\n  ".join(said)

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
