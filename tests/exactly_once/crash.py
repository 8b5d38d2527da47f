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
from itertools import product
from pathlib import Path
from typing import NamedTuple

from penstock.dev.watch import session
from penstock.engine.epoch import STEPS
from penstock.errors import BrokerError

#: what observers are told, in order: before each step of the table, and after the last one
MOMENTS = (*(step.value for step in STEPS), "published")
#: who may be killed; with all but the workers the driver ends
WHO = ("driver", "workers", "group")


class KillPoint(NamedTuple):
    """Who is killed, before or after which step."""

    who: str
    step: str
    when: str

    @property
    def moment(self) -> str:
        """What observers are told at that point: after a step is before the next one."""
        return MOMENTS[MOMENTS.index(self.step) + (self.when == "after")]


#: the table's cross product
KILL_POINTS = tuple(KillPoint(who, step.value, when) for who, step, when in product(WHO, STEPS, ("before", "after")))


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
        assert step in MOMENTS, step
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
