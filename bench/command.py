"""Run workloads on systems: what ``penstock bench`` does.

One system after the other reads the same topics into a topic of its own, with state and consumer group of its own. Every other round
goes in reverse order: a machine with neighbours drifts by half within minutes, and medians over three rounds are compared. A figure
counts only if the results are right. The broker is made warm before the first system, and its processor time is reported beside that of
the system: they share the machine.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from bench import asked, growth, latency, rate, restart, restore
from bench.peers.process import CannotRun
from bench.peers.system import SYSTEMS, System
from bench.registry import WORKLOADS
from bench.runs import Run
from bench.stage import Stage, progress_bar
from bench.workloads.base import Kind, Size, Workload
from bench.writing import Written, planned, warm, write
from penstock.dev.broker import Broker
from penstock.errors import ConfigError, PenstockError
from penstock.log.kafka import KafkaLog

#: what ``--quick`` runs
QUICK = ("stateless-100b", "rekey-aggregate", "tumbling", "stream-table-join")
QUICK_SYSTEMS = ("java", "penstock")
#: at the same distance between commits: with a backlog Penstock commits every one or two seconds, with live records ten times a second
SAME_DISTANCE = dict.fromkeys(Kind, ("java-2s", "penstock")) | dict.fromkeys(
    (Kind.LATENCY, Kind.RESTART, Kind.ASKED), ("java", "penstock")
)
#: several epochs even of few records: what one leaves behind, the next must find
QUICK_SETTINGS = ("max_epoch_records=25000",)

#: how a system is measured, by the kind of the workload
KINDS: dict[Kind, Callable[[Stage, Written, System, str, int], list[Run]]] = {
    Kind.RATE: rate.measure,
    Kind.LATENCY: latency.measure,
    Kind.RESTORE: restore.measure,
    Kind.RESTART: restart.measure,
    Kind.GROWTH: growth.measure,
    Kind.ASKED: asked.beside_live,
    Kind.ASKED_RATE: asked.beside_backlog,
}
#: kinds whose data are all there before a system starts; those of the others are written for every run
WRITTEN_ONCE = (Kind.RATE, Kind.RESTORE, Kind.ASKED_RATE)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. ``systems`` none: those of ``SAME_DISTANCE``; ``records`` None: as many as the workload says."""

    workloads: Sequence[str] = ()
    systems: Sequence[str] = ()
    records: int | None = None
    rounds: int = 3
    quick: bool = False
    profile: bool = False
    threads: int = field(default_factory=lambda: os.cpu_count() or 2)
    #: of Penstock, ``name=value``
    settings: Sequence[str] = ()

    def chosen(self) -> list[tuple[Workload, Size]]:
        """Return the workloads, each with its size."""
        default = QUICK if self.quick else tuple(WORKLOADS)
        found = [named(WORKLOADS, name, "workload") for name in self.workloads or default]
        return [(workload, self._size(workload)) for workload in found]

    def _size(self, workload: Workload) -> Size:
        records = self.records or (workload.quick if self.quick else workload.size.records)
        return replace(workload.size, records=records)

    def chosen_systems(self, workload: Workload) -> list[System]:
        """Return the systems that run a workload.

        >>> [[system.name for system in Plan().chosen_systems(WORKLOADS[name])] for name in ("count-sum", "latency-5k")]
        [['java-2s', 'penstock'], ['java', 'penstock']]
        """
        default = QUICK_SYSTEMS if self.quick else SAME_DISTANCE[workload.kind]
        return [named(SYSTEMS, name, "system") for name in self.systems or default]


def named(known: dict[str, Any], name: str, what: str) -> Any:
    """Return what has a name, or refuse it.

    >>> named({"java": 1}, "flink", "system")
    Traceback (most recent call last):
    ...
    penstock.errors.ConfigError: no such system: flink. There are java
    """
    if name not in known:
        raise ConfigError(f"no such {what}: {name}. There are {', '.join(known)}")
    return known[name]


@dataclass(slots=True)
class Outcome:
    """What was found: runs, and what could not be run or was wrong."""

    plan: Plan
    runs: list[Run] = field(default_factory=list)
    sizes: dict[str, Size] = field(default_factory=dict)
    #: (workload, system) → why
    failed: dict[tuple[str, str], str] = field(default_factory=dict)
    skipped: dict[tuple[str, str], str] = field(default_factory=dict)

    def of(self, workload: str) -> list[Run]:
        """Return the runs of one workload."""
        return [run for run in self.runs if run.workload == workload]


def machine() -> dict[str, Any]:
    """Say where this runs."""
    system = {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}
    return {**system, "date": time.strftime("%Y-%m-%d"), "commit": commit()}


def commit() -> str:
    """Return the commit that is measured; empty outside a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    with contextlib.suppress(OSError):
        return subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True).stdout.strip()
    return ""


def perform(plan: Plan, tell: Callable[[Outcome, str], None] = lambda outcome, workload: None) -> Outcome:
    """Start a broker, run everything that the plan says; ``tell`` is called after each workload."""
    chosen = [(workload, size, plan.chosen_systems(workload)) for workload, size in plan.chosen()]
    outcome = Outcome(plan)
    with progress_bar() as progress, Broker(heap_mb=1024) as broker:
        log = KafkaLog(broker.bootstrap_servers)
        settings = [*(QUICK_SETTINGS if plan.quick else ()), *plan.settings]
        stage = Stage(broker, log, progress, plan.threads, settings, plan.profile)
        try:
            for number, (workload, size, systems) in enumerate(chosen):
                outcome.sizes[workload.name] = size
                _perform(stage, workload, size, systems, outcome, first=number == 0)
                tell(outcome, workload.name)
        finally:
            log.close()
    return outcome


def _perform(
    stage: Stage, workload: Workload, size: Size, systems: Sequence[System], outcome: Outcome, first: bool
) -> None:
    """Run one workload on all systems."""
    written = (
        write(stage.log, workload, size, stage.progress) if workload.kind in WRITTEN_ONCE else planned(workload, size)
    )
    if first and written.ends:
        warm(stage.log, written)
    data = {size.records: written}
    for number, system in turns(systems, outcome.plan.rounds):
        place = workload.name, system.name
        if place in outcome.failed or place in outcome.skipped:
            continue
        if not system.can(workload):
            outcome.skipped[place] = "it cannot do this job"
            continue
        application_id = f"bench-{workload.name}-{system.name}-{number}"
        try:
            records = system.records(workload, size.records)
            if records not in data:
                data[records] = fewer(stage, written, records)
            outcome.runs += KINDS[workload.kind](stage, data[records], system, application_id, number)
        except CannotRun as error:
            outcome.skipped[place] = str(error)
        except PenstockError as error:
            outcome.failed[place] = str(error)
        stage.forget(application_id)
    for each in data.values():
        stage.forget(*each.topics)


def fewer(stage: Stage, written: Written, records: int) -> Written:
    """Write less data, to topics of their own, for systems that would take too long."""
    return write(stage.log, written.workload, replace(written.size, records=records), stage.progress, f"few-{records}-")


def turns(systems: Sequence[System], rounds: int) -> Iterator[tuple[int, System]]:
    """Yield systems round by round, every other round in reverse order.

    >>> [(number, system.name) for number, system in turns([SYSTEMS["java"], SYSTEMS["penstock"]], 2)]
    [(0, 'java'), (0, 'penstock'), (1, 'penstock'), (1, 'java')]
    """
    for number in range(rounds):
        for system in systems if number % 2 == 0 else reversed(systems):
            yield number, system


def plain(data: Any) -> Any:
    """Return plain data in which what is not a number is None: JSON has no word for it.

    >>> plain({"a": [math.nan, 1.0]})
    {'a': [None, 1.0]}
    """
    if isinstance(data, dict):
        return {name: plain(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    return None if isinstance(data, float) and math.isnan(data) else data


def save(data: dict[str, Any], path: Path) -> None:
    """Write plain data to a file."""
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def together(paths: Sequence[Path]) -> dict[str, Any]:
    """Read saved results, of several commands as if they were of one: a workload is taken from the last that has it."""
    found: dict[str, Any] = {}
    for path in paths:
        data = json.loads(path.read_text())
        for name in ("runs", "failed", "skipped"):
            kept = [each for each in found.get(name, []) if each["workload"] not in data["workloads"]]
            data[name] = kept + data[name]
        data["workloads"] = {**found.get("workloads", {}), **data["workloads"]}
        found = data
    return found


def as_data(outcome: Outcome) -> dict[str, Any]:
    """Return everything as plain data."""
    found = {
        "machine": machine(),
        "plan": asdict(outcome.plan),
        "workloads": {name: asdict(size) for name, size in outcome.sizes.items()},
        "runs": [asdict(run) for run in outcome.runs],
        "failed": [{"workload": w, "system": s, "reason": why} for (w, s), why in outcome.failed.items()],
        "skipped": [{"workload": w, "system": s, "reason": why} for (w, s), why in outcome.skipped.items()],
    }
    return cast("dict[str, Any]", plain(found))
