"""A crash, planted at a step of an epoch: who is killed, when, and how long after the step has begun.

driver:commit:3          the driver, right before the commit of the fourth epoch of this run
workers:run lanes:2:80   the Python workers, 80 ms after the lanes of the third epoch were told to run
group:produce sinks:0    all processes of the session
java:run lanes:1:50      the JVM alone
raise:send offsets:2     nobody: the step fails for a passing reason, and the epoch must be run again
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from penstock.dev.watch import session
from penstock.engine.commit import STEPS as COMMIT_STEPS
from penstock.errors import BrokerError

#: every step that observers are told of
STEPS = (*(name for name, _ in COMMIT_STEPS), "publish", "published")


@dataclass(slots=True)
class Crash:
    """An observer of the steps that kills once."""

    kind: str
    step: str
    #: how many epochs of this run come before
    after: int
    delay_ms: int = 0
    _first: int | None = field(default=None, init=False)
    _fired: bool = field(default=False, init=False)

    @classmethod
    def parse(cls, text: str) -> Crash:
        """Read a crash as the command line has it.

        >>> Crash.parse("driver:send offsets:3").step
        'send offsets'
        """
        kind, step, after, *delay = text.split(":")
        assert kind in KINDS, kind
        assert step in STEPS, step
        return cls(kind, step, int(after), *map(int, delay))

    def __str__(self) -> str:
        return f"{self.kind}:{self.step}:{self.after}:{self.delay_ms}"

    def __call__(self, step: str, epoch: int) -> None:
        """Be told of a step, in the thread of the loop."""
        self._first = epoch if self._first is None else self._first
        if self._fired or step != self.step or epoch - self._first < self.after:
            return
        self._fired = True
        print(f"crash {self}", flush=True)
        if self.delay_ms:
            threading.Timer(self.delay_ms / 1000, KINDS[self.kind]).start()
        else:
            KINDS[self.kind]()


def kill_driver() -> None:
    """End this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_group() -> None:
    """End every process of this session, this one last."""
    _kill(lambda command: True)
    kill_driver()


def kill_workers() -> None:
    """End the Python workers, and the process that starts them."""
    _kill(lambda command: "pyspark.daemon" in command)


def kill_java() -> None:
    """End the JVM."""
    _kill(lambda command: "org.apache.spark.deploy.SparkSubmit" in command)


def fail_once() -> None:
    """Fail as a broker does that was busy for a moment."""
    raise BrokerError("a fault that passes, planted", retriable=True, abortable=True)


def _kill(which: Callable[[str], bool]) -> None:
    for pid in session(os.getsid(0)):
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it ended by itself
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if pid != os.getpid() and which(command):
                os.kill(pid, signal.SIGKILL)


KINDS: dict[str, Callable[[], None]] = {
    "driver": kill_driver,
    "workers": kill_workers,
    "group": kill_group,
    "java": kill_java,
    "raise": fail_once,
}
