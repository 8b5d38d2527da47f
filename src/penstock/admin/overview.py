"""All that the page shows beside epochs and letters, in one answer: it is asked for once a second while somebody looks."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.admin.answers import json_answer
from penstock.admin.error_report import ended
from penstock.admin.findings import find
from penstock.admin.inspection import barrier, progress, served, step_now
from penstock.admin.measurement import as_data, measure, user_table
from penstock.admin.served_app import ServedApp
from penstock.clock import SystemClock, stopwatch_us
from penstock.engine.loop import Loop
from penstock.topology.mermaid import node_functions

#: what is lately: between so many microseconds
LEAST_US, MOST_US = 2_000_000, 30_000_000
#: records that wait all this time are a backlog
WAITING_US = 4_000_000
#: counters and gauges by node and by store: the name here, and that of the metric
BY_NODE = {"in": "node_records_in_total", "out": "node_records_out_total", "seconds": "node_seconds_total"}
BY_STORE = {"entries": "store_entries", "bytes": "store_bytes", "changed": "changelog_rows_total"}


class NodeTimes:
    """The times of nodes as they were at the last looks, to tell where the time goes lately."""

    def __init__(self) -> None:
        self._looks: deque[tuple[int, int, dict[str, float]]] = deque()

    def since(self, found: dict[str, Any]) -> dict[str, Any] | None:
        """Note a look; return the seconds of each node since the oldest one, and the least lag of the last ones; None at first."""
        now = stopwatch_us()
        seconds = {name: node["seconds"] for name, node in found["nodes"].items() if "seconds" in node}
        if not self._looks or now - self._looks[-1][0] >= LEAST_US // 10:
            self._looks.append((now, found["lag"], seconds))
        while now - self._looks[0][0] > MOST_US:
            self._looks.popleft()
        at, _, before = self._looks[0]
        if now - at < LEAST_US:
            return None
        lag = min(lag for look, lag, _ in self._looks if now - look <= WAITING_US)
        spent = {name: time - before.get(name, 0.0) for name, time in seconds.items()}
        return {"elapsed": (now - at) / 1e6, "lag": lag, "seconds": spent}


async def overview(request: Request) -> Response:
    """What the page shows: state, counters, nodes, inputs, stores, records that failed, and what to look at first."""
    running = served(request)
    found = gather(running)
    found["lately"] = request.app.state.node_times.since(found)
    return json_answer(found | {"findings": find(found)})


def gather(running: ServedApp) -> dict[str, Any]:
    """Return the numbers as they are now; those of the loop are empty before there is one."""
    app, loop = running.app, running.loop
    samples = as_data(measure(running), user_table(running))
    return {
        "application_id": app.application_id,
        "state": str(app.state),
        "phase": app.phase,
        "paused": app.paused,
        "restore": running.restore(),
        "ended": ended(app.error),
        "token": app.config["admin_token"] is not None,
        "dead_letter_topic": app.config["dead_letter_topic"],
        **barrier(running),
        **_of_loop(loop, samples),
        "nodes": _nodes(running, samples),
        "stores": _stores(running, samples),
        "produced": {row["topic"]: row["value"] for row in samples.get("penstock_records_produced_total", ())},
        "now_ms": SystemClock().now_ms(),
    }


def _of_loop(loop: Loop | None, samples: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    if loop is None:
        empty: dict[str, Any] = dict.fromkeys(("lag", "records_in", "records_out", "retries"), 0)
        return empty | {
            "event_time_lag": None, "last_commit_at": None, "now": None, "inputs": [], "groups": [], "failures": [],
        }  # fmt: skip
    totals, epochs = loop.totals, loop.history.epochs
    lags = [row["value"] for row in samples.get("penstock_event_time_lag_seconds", ())]
    return {
        "lag": loop.lag,
        "records_in": totals.records_in,
        "records_out": sum(totals.records_out.copy().values()),
        "retries": totals.retries,
        "event_time_lag": max(lags, default=None),
        "last_commit_at": epochs[-1].committed_at if epochs else None,
        "now": step_now(loop),
        "inputs": _inputs(loop),
        "groups": [msgspec.to_builtins(group) for group in totals.failures.groups()],
        "failures": list(reversed(loop.history.failures))[:20],
    }


def _inputs(loop: Loop) -> list[dict[str, Any]]:
    """Return position, end, lag and time of each source partition."""
    times = {(time.topic, time.partition): time for time in loop.partition_times()}
    rows = progress(loop, times)
    for place, time in times.items():
        rows[place] |= {"time": time.time, "watermark": time.watermark, "arrived": time.arrived, "idle": time.idle}
    return list(rows.values())


def _nodes(running: ServedApp, samples: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return counters by node, as far as they are measured, with the node's functions."""
    topology = running.app.topology
    found: dict[str, dict[str, Any]] = {
        name: {"functions": node_functions(topology.node(name)), "dropped": {}} for name in topology.order
    }
    for short, metric in BY_NODE.items():
        for row in samples.get(f"penstock_{metric}", ()):
            if row["node"] in found:
                found[row["node"]][short] = row["value"]
    for row in samples.get("penstock_records_dropped_total", ()):
        found.setdefault(row["node"], {"functions": [], "dropped": {}})["dropped"][row["reason"]] = row["value"]
    return found


def _stores(running: ServedApp, samples: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {name: {} for name in running.app.topology.stores}
    for short, metric in BY_STORE.items():
        for row in samples.get(f"penstock_{metric}", ()):
            found.setdefault(row["store"], {})[short] = row["value"]
    return found
