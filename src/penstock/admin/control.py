"""Requests that change something: pause, resume, settings, levels of loggers. They need the token of ``admin_token``."""

from __future__ import annotations

import hmac
import logging

import anyio
import orjson
from starlette.requests import Request
from starlette.responses import Response

from penstock.admin.answers import HttpError, json_answer
from penstock.admin.inspection import barrier, served
from penstock.errors import ConfigError

#: bytes of the body of such a request, and seconds until it must be here
MOST_BODY, BODY_SECONDS = 64 << 10, 10.0
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "NOTSET")


def check_token(request: Request) -> None:
    """Refuse a request that may change nothing."""
    token = served(request).app.config["admin_token"]
    if token is None:
        raise HttpError(
            403, "this application takes no requests that change something", "set admin_token='...', and send it"
        )
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise HttpError(
            401,
            "the token is missing or wrong",
            "send the header Authorization: Bearer <admin_token>",
            headers={"www-authenticate": "Bearer"},
        )


async def body_of(request: Request, most: int = MOST_BODY) -> bytes:
    """Return the body, if it is not too long and comes in time."""
    found = bytearray()
    with anyio.move_on_after(BODY_SECONDS):
        async for part in request.stream():
            found += part
            if len(found) > most:
                raise HttpError(
                    413, f"the body has more than {most} bytes", "send less", headers={"connection": "close"}
                )
        return bytes(found)
    raise HttpError(
        408, f"the body has not come within {BODY_SECONDS:.0f} s", "send it at once", headers={"connection": "close"}
    )


async def pause(request: Request) -> Response:
    """Process nothing after the epoch that runs, until resumed."""
    running = served(request)
    running.app.pause()
    return json_answer({"paused": running.app.paused, **barrier(running)})


async def resume(request: Request) -> Response:
    """Go on after a pause."""
    running = served(request)
    running.app.resume()
    return json_answer({"paused": running.app.paused, **barrier(running)})


async def change_settings(request: Request) -> Response:
    """Change settings that may be changed while the application runs: ``{"cache_max_bytes": 0}``."""
    try:
        given = orjson.loads(await body_of(request))
    except ValueError:
        given = None
    if not isinstance(given, dict) or not given:
        raise HttpError(400, "the body is not an object of settings", 'send {"cache_max_bytes": 0}, for example')
    running = served(request)
    try:
        running.app.change(**given)
    except ConfigError as error:
        raise HttpError(400, str(error), "see docs/configuration.md") from error
    return json_answer({**{name: running.app.config[name] for name in given}, **barrier(running)})


async def set_logger(request: Request) -> Response:
    """Set the level of a logger of the driver's process: ``{"level": "DEBUG"}``; NOTSET is the level of its parent."""
    name = request.path_params["name"]
    try:
        level = orjson.loads(await body_of(request))["level"]
    except (ValueError, TypeError, KeyError):
        level = None
    if level not in LEVELS:
        raise HttpError(
            400, "the body does not say a level", f'send {{"level": "DEBUG"}}, or another of {", ".join(LEVELS)}'
        )
    found = logging.getLogger(None if name == "root" else name)
    found.setLevel(level)
    return json_answer({"logger": name, "level": level, "effective": logging.getLevelName(found.getEffectiveLevel())})
