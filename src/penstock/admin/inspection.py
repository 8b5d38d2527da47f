"""What the application says of itself: version, configuration, topology, state, times, offsets, epochs, errors."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from penstock.admin.answers import json_answer, text_answer
from penstock.admin.parameters import choice, number
from penstock.admin.served_app import ServedApp
from penstock.clock import stopwatch_us
from penstock.engine.fingerprint import fingerprint
from penstock.engine.history import MOST_EPOCHS
from penstock.engine.loop import Loop
from penstock.errors import describe_function
from penstock.masking import masked
from penstock.plan.passes import make_plan
from penstock.protocol.state_folder import application_folder
from penstock.serde import Serde

FORMATS = ("json", "text", "mermaid", "svg")


def served(request: Request) -> ServedApp:
    """Return the application that a request asks about."""
    running: ServedApp = request.app.state.running
    return running


async def info(request: Request) -> Response:
    """Version, application, state, lanes, shards, last barrier."""
    running = served(request)
    app, engine, loop = running.app, running.engine, running.loop
    return json_answer(
        {
            "application_id": app.application_id,
            "version": installed_version(),
            "fingerprint": fingerprint(app.topology),
            "processing_guarantee": app.config["processing_guarantee"],
            "state": str(app.state),
            "phase": app.phase,
            "paused": app.paused,
            "lanes": None if engine is None else engine.stage.lanes,
            "shards": app.config["shards"],
            "master": app.config["master"],
            "bootstrap_servers": app.config["bootstrap_servers"],
            "started_at": app.started_at,
            **barrier(running),
            "lag": None if loop is None else loop.lag,
        }
    )


def barrier(running: ServedApp) -> dict[str, Any]:
    """Return epoch and position of the last barrier: the last offset of each partition that is part of it."""
    last = running.app.barriers.last
    if last is None:
        return {"epoch": None, "position": None}
    return {"epoch": last.epoch, "position": position_data(last.position)}


def position_data(position: Any) -> dict[str, dict[str, int]]:
    """Return offsets as JSON has them: topic → partition → offset.

    >>> position_data({("lines", 0): 7})
    {'lines': {'0': 7}}
    """
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(position.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


async def config(request: Request) -> Response:
    """All settings with their values; secrets are masked, of functions the place is shown, of serdes the name."""
    values = dict(served(request).app.config)
    # values of the user's own may be anything, a secret as well: their names say enough
    values["user_config"] = dict.fromkeys(values["user_config"], "***")
    return json_answer(masked({name: _shown(value) for name, value in values.items()}))


def _shown(value: Any) -> Any:
    if isinstance(value, Serde):
        return repr(value)
    return describe_function(value) if callable(value) else value


async def topology(request: Request) -> Response:
    """The topology as data, as Kafka's text, as a Mermaid flowchart, or as a picture."""
    form = choice(request, "format", FORMATS)
    found = served(request).app.topology
    if form == "text":
        return text_answer(found.describe())
    notes = make_plan(found).batch_paths.notes()
    if form == "mermaid":
        return text_answer(found.to_mermaid(notes))
    if form == "svg":
        return text_answer(found.to_svg(notes), "image/svg+xml")
    return json_answer(found.to_json() | {"notes": notes})


async def watermarks(request: Request) -> Response:
    """How far event time has come: of each source partition, and whether it is waited for."""
    running = served(request)
    times = running.need_loop().partition_times()
    return json_answer({**barrier(running), "partitions": [each._asdict() for each in times]})


async def offsets(request: Request) -> Response:
    """Position, end and lag of each source partition."""
    running = served(request)
    loop = running.need_loop()
    rows = list(progress(loop).values())
    return json_answer({**barrier(running), "lag": sum(row["lag"] for row in rows), "partitions": rows})


def progress(loop: Loop, more: Iterable[tuple[str, int]] = ()) -> dict[tuple[str, int], dict[str, Any]]:
    """Return position, end and lag of each source partition, and of ``more``."""
    positions, lags = loop.committed.positions.copy(), loop.lags()
    found = {}
    for place in sorted({*positions, *lags, *more}):
        position, lag = positions.get(place), lags.get(place, 0)
        row = {"topic": place[0], "partition": place[1], "position": position, "end": (position or 0) + lag, "lag": lag}
        found[place] = row
    return found


def step_now(loop: Loop) -> dict[str, Any] | None:
    """Return the step that the loop is in, and for how long; None between two epochs."""
    step = loop.now
    return None if step is None else step._asdict() | {"for_us": stopwatch_us() - step.since_us}


async def epochs(request: Request) -> Response:
    """The last epochs, the newest first."""
    running = served(request)
    loop = running.need_loop()
    limit = number(request, "limit", least=1, most=MOST_EPOCHS, default=MOST_EPOCHS)
    found = list(loop.history.epochs)[-limit:]
    return json_answer({**barrier(running), "now": step_now(loop), "epochs": [each.data() for each in reversed(found)]})


def shard_sizes(running: ServedApp) -> list[dict[str, Any]]:
    """Return what the local state of each shard takes on the driver's disk; nothing where there is none."""
    engine = running.engine
    if engine is None:
        return []
    folder = application_folder(engine.stage)
    files = ((shard, folder / f"shard-{shard}" / "data.mdb") for shard in range(engine.stage.shards))
    return [{"shard": shard, "bytes": _allocated(path)} for shard, path in files if path.exists()]


def _allocated(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:  # it is being made anew
        return 0


def installed_version() -> str:
    """Return the version of Penstock."""
    try:
        return version("penstock-streams")
    except PackageNotFoundError:  # run from a tree that was not installed
        return "unknown"
