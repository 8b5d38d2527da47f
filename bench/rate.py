"""Records a second: a system works through data that are all there.

The measure is the same for all: the offsets that the group has committed (``bench.watch``). The *steady* rate is taken from the first
commit past the warm-up part (40 % of the records) to the commit of the last record; so neither start-up nor a cold JVM counts.
Beside it stand the rates from the moment the system says RUNNING, and from the start of its process. The warm-up is that long because
Kafka Streams grows faster until about its 1.5 millionth record: with half of the records its rate is a third lower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from bench.measure import NothingToMeasure, Sample, machine_speed, part, seconds_between_commits
from bench.peers.process import Process
from bench.peers.system import System
from bench.runs import Run
from bench.stage import Stage, scratch
from bench.writing import Written

WARM_UP = 0.4
#: what is taken from the part past the warm-up
STEADY = ("steady", "cpu_us_per_record", "broker_cpu_us_per_record", "cores_of_others")


class Beside(Protocol):
    """Something that is done while a system runs."""

    def asking(self, warm_up_seconds: float) -> AbstractContextManager[None]:
        """Do it while the block runs."""
        ...


def measure(
    stage: Stage, written: Written, system: System, application_id: str, number: int, beside: Beside | None = None
) -> list[Run]:
    """Let a system work through the data; check its results and say how fast it was."""
    speed = machine_speed()
    with scratch() as folder:
        task = stage.task(written, system, application_id, folder)
        with stage.running(system, task) as process:
            watch = stage.watch(written, process, task)
            with nullcontext() if beside is None else beside.asking(0):
                watch.until_done(stage.progress)
    speed = (speed + machine_speed()) / 2
    outputs = stage.check(written, task.target)
    samples = watch.samples()
    figures = _figures(samples, process) | {"machine_speed": speed, "outputs": outputs, "records": written.records}
    figures |= watch.costs()
    profile = profiled(process.told("METRICS"), int(WARM_UP * written.records))
    return [Run(written.workload.name, system.name, system.label, number, figures, watch.roles(), profile)]


def _figures(samples: Sequence[Sample], process: Process) -> dict[str, float]:
    records, end = samples[-1].committed, samples[-1].at
    running = process.heard.get("RUNNING", process.started)
    return _steady(samples) | {
        "from_running": records / (end - running),
        "from_start": records / (end - process.started),
        "seconds": end - process.started,
        "seconds_to_running": running - process.started,
        "seconds_between_commits": seconds_between_commits(samples),
    }


def _steady(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the figures of the part past the warm-up; not a number where one commit covers all of it."""
    records = samples[-1].committed
    try:
        steady = part(samples, max(1, int(WARM_UP * records)), records)
    except NothingToMeasure:
        return dict.fromkeys(STEADY, math.nan)
    costs = (steady.cpu_seconds, steady.broker_cpu_seconds)
    shares = [seconds / steady.records * 1e6 for seconds in costs]
    return dict(zip(STEADY, (steady.rate, *shares, steady.other_cpu_seconds / steady.seconds), strict=True))


def profiled(told: Sequence[tuple[float, Mapping[str, Any]]], warm_up: int) -> dict[str, float]:
    """Return the microseconds a record that each step of an epoch took, after the warm-up if the metrics were told on the way.

    >>> profiled([(1, {"records_in": 10, "spent_us": {"commit": 50}}), (2, {"records_in": 30, "spent_us": {"commit": 90}})], 10)
    {'commit': 2.0}
    """
    if not told:
        return {}
    last = told[-1][1]
    first = next((each for _, each in told[:-1] if each.get("records_in", 0) >= warm_up), {})
    if first.get("records_in") == last.get("records_in"):
        first = {}
    records = last.get("records_in", 0) - first.get("records_in", 0)
    before = first.get("spent_us", {})
    return {name: (us - before.get(name, 0)) / records for name, us in last.get("spent_us", {}).items() if records}
