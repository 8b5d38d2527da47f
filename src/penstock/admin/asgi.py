"""The ASGI application: routes of the table, guarded. Served by `AdminServer`, or mounted into another program's.

fastapi_app.mount("/streams", app.admin_asgi())
"""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from penstock.admin import control
from penstock.admin.answers import HttpError, json_answer
from penstock.admin.change_ring import ChangeRings
from penstock.admin.cursors import PagedScans
from penstock.admin.failures import error_of
from penstock.admin.health import Health
from penstock.admin.inspection import installed_version
from penstock.admin.notifier import Notifier
from penstock.admin.openapi import describe
from penstock.admin.overview import NodeTimes
from penstock.admin.parameters import check_names
from penstock.admin.routes import ENDPOINTS, PAGE, Endpoint
from penstock.admin.served_app import ServedApp
from penstock.errors import nearest

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

logger = logging.getLogger("penstock.admin")


def make_asgi(app: Any, engine: Callable[[], Engine | None], mounts: Mapping[str, Any]) -> Starlette:
    """Return the ASGI application of an `App`. ``mounts``: path → ASGI application of the user's."""
    running = ServedApp(app, engine)
    routes: list[BaseRoute] = []
    # looked through one after the other: what is asked often comes first
    for endpoint in sorted((*ENDPOINTS, *PAGE), key=lambda endpoint: "/keys" not in endpoint.path):
        for path in (endpoint.path, *endpoint.aliases):
            routes.append(Route(path, _guarded(endpoint), methods=[endpoint.method]))
    routes.append(Route("/openapi.json", _openapi))
    routes += [Mount(path, mounted) for path, mounted in mounts.items()]
    made = Starlette(routes=routes, exception_handlers={HTTPException: _refuse, Exception: _fail})
    made.state.running = running
    made.state.requests = Counter()
    made.state.cursors = PagedScans()
    made.state.notifier = Notifier(app)
    made.state.rings = ChangeRings(app, made.state.notifier)
    made.state.health = Health(running)
    made.state.node_times = NodeTimes()
    return made


def close_asgi(made: Starlette) -> None:
    """End all streams, and let go of clients: by any thread."""
    made.state.notifier.close()
    made.state.health.close()
    made.state.cursors.close()
    made.state.rings.close()


async def _openapi(request: Request) -> Response:
    """This description."""
    return json_answer(describe(ENDPOINTS, installed_version()))


def _guarded(endpoint: Endpoint) -> Callable[[Request], Any]:
    """Return the handler, with its limits: names of parameters, token, time; what it raises is answered."""

    async def call(request: Request) -> Response:
        answer = await answered(request)
        request.app.state.requests[endpoint.path, str(answer.status_code)] += 1
        return answer

    async def answered(request: Request) -> Response:
        try:
            if endpoint.writes:
                control.check_token(request)
            check_names(request, endpoint.parameters)
            with anyio.fail_after(None if endpoint.streams else endpoint.seconds):
                return await endpoint.handler(request)
        except TimeoutError:
            return HttpError(503, f"no answer within {endpoint.seconds:.0f} s", "ask for less").answer()
        except Exception as error:
            return error_of(error).answer()

    call.__doc__ = endpoint.handler.__doc__
    return call


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer what no route takes."""
    assert isinstance(error, HTTPException)
    paths = [path for endpoint in ENDPOINTS for path in (endpoint.path, *endpoint.aliases)]
    path = request.url.path[:200]
    if error.status_code == 404:
        remedy = f"see /openapi.json{nearest(path, paths)}"
        return HttpError(404, f"there is no path {path!r}", remedy).answer()
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return HttpError(405, f"{request.method} is not for {path!r}", f"use {allowed}", headers=error.headers).answer()
    return HttpError(error.status_code, str(error.detail), "see /openapi.json", headers=error.headers).answer()


async def _fail(request: Request, error: Exception) -> Response:
    return error_of(error).answer()


class LoopbackOnly:
    """Around a server that only this machine can reach: refuses what a page of another site asks by a name of its own.

    A browser lets a page read what it has fetched from its own host. If that name is made to lead here, the page could read stores.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a request pass if it names this machine."""
        if scope["type"] == "http" and not is_local(dict(scope["headers"]).get(b"host", b"").decode("latin-1")):
            error = HttpError(
                403,
                "this server is for this machine, and the request is for another host",
                "ask for localhost or 127.0.0.1 (a proxy: let it set Host so), or set admin='0.0.0.0:port'",
            )
            await error.answer()(scope, receive, send)
            return
        await self._inner(scope, receive, send)


def is_local(host: str) -> bool:
    """Whether a Host header names this machine itself.

    >>> [is_local(host) for host in ("localhost:8080", "127.0.0.1", "[::1]:80", "", "evil.example:8080")]
    [True, True, True, True, False]
    """
    name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    if not name or name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
