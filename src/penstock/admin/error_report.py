"""What has gone wrong: what ended the application, which epochs were run again, which records failed or were dropped."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.admin.answers import json_answer
from penstock.admin.inspection import barrier, served
from penstock.masking import scrubbed
from penstock.protocol.failed_records import record_name

#: characters of a traceback, the last
MOST_TRACE = 8_000


async def errors(request: Request) -> Response:
    """What ended the application, epochs that were run again, records that failed (grouped, with examples) or were dropped."""
    running = served(request)
    loop = running.loop
    found: dict[str, Any] = {**barrier(running), "ended": ended(running.app.error)}
    if loop is None:
        return json_answer(found | {"retries": 0, "failures": [], "groups": [], "dropped": [], "refused": []})
    totals = loop.totals
    return json_answer(
        found
        | {
            "retries": totals.retries,
            "failures": list(reversed(loop.history.failures)),
            "groups": [msgspec.to_builtins(group) for group in totals.failures.groups()],
            "dropped": [{"node": n, "reason": why, "records": c} for (n, why), c in totals.dropped.copy().items()],
            "refused": [{"topic": topic, "records": count} for topic, count in totals.refused.copy().items()],
        }
    )


def ended(error: BaseException | None) -> dict[str, Any] | None:
    """Return what ended the application: the error, and what it knows of node, record and function."""
    if error is None:
        return None
    origin = getattr(error, "origin", None)
    trace = getattr(error, "remote_traceback", None)
    return {
        "error": type(error).__name__,
        "message": scrubbed(str(error)),
        "node": getattr(error, "node", None),
        "record": None if origin is None else record_name(origin),
        "function": getattr(error, "function", None),
        "traceback": None if trace is None else scrubbed(trace)[-MOST_TRACE:],
    }
