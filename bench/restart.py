"""Restart after a kill: all processes of a system are killed while records come, and it is started again at once.

Two times are told, both from the kill: to the first result that the new process commits, and until it has caught up (less than a second
of records is left). At the end the results must be right all the same.
"""

from __future__ import annotations

import time

from bench.latency import until_running
from bench.load import Load, in_background, live, now_ms
from bench.peers.process import Process, SystemFailed
from bench.peers.system import System
from bench.rate import WARM_UP
from bench.runs import Run
from bench.stage import Stage
from bench.watch import INPUT, SAMPLE_SECONDS, Watch
from bench.writing import Written

LONGEST_SECONDS = 300


def measure(stage: Stage, later: Written, system: System, application_id: str, number: int) -> list[Run]:
    """Kill a system and see it come back."""
    with (
        live(stage, later, system, application_id, number) as (written, task, load, arrivals),
        stage.running(system, task) as process,
    ):
        until_running(process)
        with in_background(load.run):
            _until(process, load, int(WARM_UP * written.records))
            killed_ms, killed = now_ms(), time.monotonic()
            process.kill()
            with stage.running(system, task) as again:
                watch = stage.watch(written, again, task)
                caught_up = _caught_up(watch, load)
                watch.until_done(stage.progress)
    running_ms = killed_ms + int((again.heard["RUNNING"] - killed) * 1000)
    first = arrivals.first_after(running_ms) or now_ms()
    figures = {
        "seconds_to_running": (running_ms - killed_ms) / 1000,
        "seconds_to_result": (first - killed_ms) / 1000,
        "seconds_to_caught_up": caught_up - killed,
    }
    return [Run(written.workload.name, system.name, system.label, number, figures | watch.costs(), watch.roles())]


def _until(process: Process, load: Load, sent: int) -> None:
    while load.sent < sent:
        process.check()
        time.sleep(0.05)


def _caught_up(watch: Watch, load: Load) -> float:
    """Look until less than a second of records is left; return when that was seen."""
    while watch.looks[-1].at - watch.process.started < LONGEST_SECONDS:
        watch.look()
        look = watch.looks[-1]
        if look.stages[INPUT] > load.sent - watch.written.workload.rate and watch.process.heard.get("RUNNING"):
            return look.at
        watch.process.check()
        time.sleep(SAMPLE_SECONDS)
    raise SystemFailed(f"it has not caught up after {LONGEST_SECONDS} seconds. {watch.process.last_words()}")
