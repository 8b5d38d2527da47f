"""Latency: records come at a steady rate; how long until a reader of committed records has the result of each.

The first 40 % of the time is for warming up. Where several records of a key fall into one commit, systems that keep a cache tell of the
newest alone: so it is in Kafka Streams and in Penstock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext

from bench.load import in_background, live
from bench.peers.process import Process, SystemFailed
from bench.peers.system import System
from bench.rate import WARM_UP, Beside
from bench.runs import Run
from bench.stage import Stage
from bench.writing import Written

RUNNING_SECONDS = 120


def measure(
    stage: Stage, later: Written, system: System, application_id: str, number: int, beside: Beside | None = None
) -> list[Run]:
    """Let a system work on records as they come."""
    with (
        live(stage, later, system, application_id, number) as (written, task, load, arrivals),
        stage.running(system, task) as process,
    ):
        until_running(process)
        watch = stage.watch(written, process, task)
        warm_up = WARM_UP * written.records / written.workload.rate
        with in_background(load.run), nullcontext() if beside is None else beside.asking(warm_up):
            watch.until_done(stage.progress)
    since = load.began_ms + int(warm_up * 1000)
    took = sorted(arrived - at for at, arrived in arrivals.seen if at >= since)
    if not took:
        raise SystemFailed(
            f"none of {len(arrivals.seen)} results tells of a record past the warm-up: take more records"
        )
    figures = {f"p{part}_ms": percentile(took, part) for part in (50, 95, 99)}
    figures |= {"longest_ms": float(took[-1]), "results": float(len(took))} | watch.costs()
    figures["cores_of_others"] = watch.cores_of_others()
    return [Run(written.workload.name, system.name, system.label, number, figures, watch.roles())]


def until_running(process: Process) -> None:
    """Wait until a program says RUNNING."""
    deadline = time.monotonic() + RUNNING_SECONDS
    while "RUNNING" not in process.heard:
        process.check()
        if time.monotonic() > deadline:
            raise SystemFailed(f"it was not RUNNING after {RUNNING_SECONDS} seconds. {process.last_words()}")
        time.sleep(0.02)


def percentile(ordered: Sequence[int], part: int) -> float:
    """Return the value below which so many hundredths lie, of sorted values.

    >>> percentile(list(range(1, 101)), 99)
    99.0
    """
    return float(ordered[max(0, -(-len(ordered) * part // 100) - 1)])
