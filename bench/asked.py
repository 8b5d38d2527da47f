"""What look-ups over HTTP cost: the same run with and without them, one after the other, every other round in reverse order.

A program is told its port by ``job.http``: Penstock serves its stores there (``admin``), the Java program has a minimal HTTP server.
``bench.lookups`` asks, in a process of its own, from RUNNING to the end. The 99th percentile of the look-ups counts those after the
warm-up, as that of the results does.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from bench import latency, rate
from bench.peers.process import ROOT, SystemFailed
from bench.peers.system import System
from bench.runs import Run
from bench.stage import Stage
from bench.writing import Written
from penstock.dev.server import free_ports

#: look-ups a second beside live records, and beside a backlog
BESIDE_LIVE, BESIDE_BACKLOG = 1_000, 100
NONE = "no look-ups"
#: what ``bench.lookups`` tells, as figures of a run
TOLD = ("p50_ms", "p99_ms", "longest_ms", "late_p99_ms", "answered", "others", "cpu_seconds")
Measure = Callable[..., list[Run]]


@dataclass(slots=True)
class Asker:
    """Asks a program for keys. ``figures``: what was found, at the end."""

    port: int
    rate: int
    figures: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_named(TOLD), math.nan))

    @contextmanager
    def asking(self, warm_up_seconds: float = 0) -> Iterator[None]:
        """Ask while the block runs."""
        where = ["--url", f"http://127.0.0.1:{self.port}", "--store", "totals", "--until-end-of-input"]
        how = ["--rate", str(self.rate), "--warm-up", str(warm_up_seconds)]
        command = [sys.executable, "-m", "bench.lookups", *where, *how]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield
            finally:
                said, _ = process.communicate()
        if process.returncode:
            raise SystemFailed(f"the look-ups ended with exit code {process.returncode}")
        told = json.loads(said)
        self.figures = {name: math.nan if told[key] is None else told[key] for name, key in _named(TOLD).items()}


def _named(told: Sequence[str]) -> dict[str, str]:
    return {f"lookup_{name}": name for name in told}


def beside_live(stage: Stage, later: Written, system: System, application_id: str, number: int) -> list[Run]:
    """Measure the latency of results."""
    return _both(latency.measure, BESIDE_LIVE, stage, later, system, application_id, number)


def beside_backlog(stage: Stage, written: Written, system: System, application_id: str, number: int) -> list[Run]:
    """Measure records a second."""
    return _both(rate.measure, BESIDE_BACKLOG, stage, written, system, application_id, number)


def _both(
    measure: Measure, rate: int, stage: Stage, given: Written, system: System, application_id: str, number: int
) -> list[Run]:
    found = []
    for each in (0, rate) if number % 2 == 0 else (rate, 0):
        (port,) = free_ports("127.0.0.1", 1)
        asker = Asker(port, each)
        written = replace(given, workload=replace(given.workload, options={"http": str(port)}))
        name = f"{application_id}-{each}"
        (run,) = measure(stage, written, system, name, number, asker if each else None)
        stage.forget(name)
        variant = f"{each:,} look-ups/s" if each else NONE
        found.append(replace(run, figures=run.figures | asker.figures, variant=variant))
    return sorted(found, key=lambda run: run.variant != NONE)
