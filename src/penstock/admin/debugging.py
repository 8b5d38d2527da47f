"""What is done at this moment: by the threads of the driver and by its workers; the steps of the epoch that runs."""

from __future__ import annotations

import sys
import threading
import traceback
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from penstock.admin.answers import json_answer
from penstock.admin.inspection import barrier, served
from penstock.admin.worker_stacks import worker_stacks
from penstock.clock import stopwatch_us
from penstock.engine.epoch import STEPS

#: frames of a stack, the innermost
MOST_FRAMES = 40


async def threads(request: Request) -> Response:
    """What each worker and resident task of this machine is doing now, and the stacks of the driver's threads."""
    running = served(request)
    workers = await running.in_thread(worker_stacks, frozenset(running.app.topology.order))
    frames = sys._current_frames()
    found = [
        {"name": thread.name, "daemon": thread.daemon, "stack": _stack(frames[thread.ident])}
        for thread in threading.enumerate()
        if thread.ident in frames
    ]
    found.sort(key=lambda row: str(row["name"]))
    return json_answer({**barrier(running), "workers": workers, "threads": found})


def _stack(frame: Any) -> list[str]:
    found = traceback.extract_stack(frame)[-MOST_FRAMES:]
    return [f"{each.name} ({each.filename}:{each.lineno})" for each in found]


async def barriers(request: Request) -> Response:
    """The steps of the epoch that runs, with their times so far; of the last one, if none runs."""
    running = served(request)
    loop = running.need_loop()
    now, last = loop.now, dict(loop.totals.last)
    names = [state.value for state in STEPS]
    at = names.index(now.step) if now is not None and now.step in names else None
    steps = [
        {"step": name, "us": last[name], "done": True}
        for number, name in enumerate(names)
        if name in last and (at is None or number < at)
    ]
    if now is not None:
        steps.append({"step": now.step, "us": stopwatch_us() - now.since_us, "done": False})
    return json_answer({**barrier(running), "running": None if now is None else now.epoch, "steps": steps})
