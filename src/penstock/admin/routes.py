"""The endpoints, as one table: the routes of the server and ``/openapi.json`` are made of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from penstock.admin import (
    change_stream,
    control,
    dead_letters,
    debugging,
    error_report,
    event_stream,
    inspection,
    overview,
    page_files,
    prometheus,
    stores,
)
from penstock.admin.parameters import POSITION, Parameter
from penstock.config import SETTINGS

#: seconds until a request must be answered, unless it is a stream
REQUEST_SECONDS = 60.0

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One row of the table. ``writes``: it changes something, and needs the token; ``streams``: it may last."""

    path: str
    handler: Handler
    parameters: tuple[Parameter, ...] = ()
    method: str = "GET"
    aliases: tuple[str, ...] = ()
    writes: bool = False
    streams: bool = False
    #: seconds until it must be answered, unless it streams
    seconds: float = REQUEST_SECONDS
    #: what a request's body is, as JSON Schema
    body: Any = None

    @property
    def summary(self) -> str:
        """The first paragraph of the handler's docstring."""
        text = (self.handler.__doc__ or "").partition("\n\n")[0]
        return " ".join(text.split())


async def live(request: Request) -> Response:
    """Whether the application does its work: 200, or 503 with what is wrong. An orchestrator may end it then."""
    return await request.app.state.health.live()  # type: ignore[no-any-return]


async def ready(request: Request) -> Response:
    """Whether results are made and stores can be read: 200, or 503 with what is missing."""
    return await request.app.state.health.ready()  # type: ignore[no-any-return]


LIMIT = Parameter("limit", "integer", "How many, the newest first. Default: all that are kept, 1000.")
ROWS = Parameter("rows", "boolean", "Count the rows of key-value stores; may read all of them.")
FORMAT = Parameter("format", "string", f"One of {', '.join(inspection.FORMATS)}. Default: json.")
CHANGED = {
    "type": "object",
    "properties": {row.name: {"description": row.meaning} for row in SETTINGS if row.changeable},
}
LEVEL = {"type": "object", "required": ["level"], "properties": {"level": {"enum": list(control.LEVELS)}}}

KEYS = (
    Parameter("key_json", "string", "The key as JSON."),
    Parameter("key_base64", "string", "The bytes of the key, as base64."),
)
TIMES = (
    Parameter("from", "integer", "First time, in milliseconds."),
    Parameter("to", "integer", "Last time, in milliseconds, included."),
)
PAGES = (
    Parameter("limit", "integer", f"Rows of a page: {stores.PAGE}, {stores.MOST_ROWS} at most."),
    Parameter("cursor", "string", "What the page before has as its cursor: the next page, of the same epoch."),
    *POSITION,
)
BOUNDS = (
    Parameter("from", "string", "The first key."),
    Parameter("to", "string", "The last key, included."),
    Parameter("from_json", "string", "The first key as JSON."),
    Parameter("to_json", "string", "The last key as JSON."),
    Parameter("reverse", "boolean", "From the last key to the first."),
)
CHANGES = (
    Parameter("snapshot", "boolean", "Begin with the rows of the store."),
    Parameter("since", "integer", "Go on after this epoch. The header Last-Event-ID says the same."),
)
AS_OF = Parameter("as_of", "integer", "The version that was valid at this time, in milliseconds.")
KEY_BODY = {"type": "object", "required": ["key"], "properties": {"key": {}}}
DEAD_LETTERS = (
    Parameter("node", "string", "Only what failed at this node."),
    Parameter("exception", "string", "Only this exception: its name, whole or the last part."),
    Parameter("topic", "string", "Only records of this source topic."),
    Parameter("since", "integer", "Only records of this time or later, in milliseconds."),
    Parameter(
        "limit", "integer", f"How many, the newest first: {dead_letters.SHOWN}, {dead_letters.MOST_SHOWN} at most."
    ),
)
STORE = "/v1/stores/{store}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("/health/live", live, aliases=("/livez",)),
    Endpoint("/health/ready", ready, aliases=("/readyz",)),
    Endpoint("/metrics", prometheus.metrics),
    Endpoint("/v1/info", inspection.info),
    Endpoint("/v1/overview", overview.overview),
    Endpoint("/v1/config", inspection.config),
    Endpoint("/v1/topology", inspection.topology, (FORMAT,), aliases=("/topology",)),
    Endpoint("/v1/state", stores.show_state, (ROWS,), aliases=("/state",)),
    Endpoint("/v1/watermarks", inspection.watermarks, aliases=("/watermarks",)),
    Endpoint("/v1/offsets", inspection.offsets),
    Endpoint("/v1/epochs", inspection.epochs, (LIMIT,)),
    Endpoint("/v1/errors", error_report.errors),
    Endpoint("/v1/events", event_stream.events, streams=True),
    Endpoint("/debug/threads", debugging.threads),
    Endpoint("/debug/barriers", debugging.barriers),
    Endpoint("/v1/stores", stores.list_stores, POSITION),
    Endpoint(STORE, stores.show_store, (ROWS, *POSITION)),
    Endpoint(f"{STORE}/keys", stores.get_key_by_json, (*KEYS, *POSITION)),
    Endpoint(f"{STORE}/keys", stores.post_key, POSITION, method="POST", body=KEY_BODY),
    Endpoint(f"{STORE}/keys/{{key:path}}", stores.get_key, (*KEYS, *POSITION)),
    Endpoint(f"{STORE}/range", stores.get_range, (*BOUNDS, *PAGES)),
    Endpoint(f"{STORE}/prefix/{{prefix:path}}", stores.get_prefix, (*KEYS, *PAGES)),
    Endpoint(f"{STORE}/windows", stores.get_all_windows, (*TIMES, *PAGES)),
    Endpoint(f"{STORE}/windows/{{key:path}}", stores.get_windows, (*KEYS, *TIMES, *PAGES)),
    Endpoint(f"{STORE}/sessions/{{key:path}}", stores.get_sessions, (*KEYS, *PAGES)),
    Endpoint(f"{STORE}/versions/{{key:path}}", stores.get_versions, (*KEYS, *TIMES, AS_OF, *PAGES)),
    Endpoint(f"{STORE}/changes", change_stream.changes, CHANGES, streams=True),
    Endpoint("/v1/dead-letters", dead_letters.list_letters, DEAD_LETTERS),
    Endpoint("/v1/dead-letters/{partition:int}/{offset:int}", dead_letters.show_letter),
    Endpoint(
        "/v1/dead-letters/redrive",
        dead_letters.redrive_letters,
        method="POST",
        writes=True,
        seconds=dead_letters.REDRIVE_SECONDS,
        body=dead_letters.BODY,
    ),
    Endpoint("/v1/pause", control.pause, method="POST", writes=True),
    Endpoint("/v1/resume", control.resume, method="POST", writes=True),
    Endpoint("/v1/config", control.change_settings, method="PUT", writes=True, body=CHANGED),
    Endpoint("/v1/loggers/{name}", control.set_logger, method="PUT", writes=True, body=LEVEL),
)

#: the page, for people: no part of ``/openapi.json``
PAGE: tuple[Endpoint, ...] = (Endpoint("/", page_files.index), Endpoint("/page/{file}", page_files.part))
