"""Server-sent events: the format of the stream, and ``/v1/events``: finished epochs and changes of the state.

::

    id: 17                     what Last-Event-ID brings back: the epoch
    event: epoch
    data: {"epoch": 17, ...}   one line of JSON, and an empty line
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from penstock.admin.answers import HEADERS, encoded
from penstock.admin.inspection import barrier, position_data, served
from penstock.admin.notifier import Notifier, Subscriber
from penstock.admin.served_app import ServedApp

#: seconds after which a stream without events says that it is still there
PING_SECONDS = 15.0
PING = b": still here\n\n"


def event(kind: str, data: Any, number: int | None = None) -> bytes:
    """Return an event as it is sent.

    >>> event("epoch", {"epoch": 3}, 3)
    b'id: 3\\nevent: epoch\\ndata: {"epoch":3}\\n\\n'
    """
    head = b"" if number is None else f"id: {number}\n".encode()
    return head + f"event: {kind}\n".encode() + b"data: " + encoded(data) + b"\n\n"


def stream(parts: AsyncIterator[bytes]) -> Response:
    """Return the response of a stream."""
    headers = {**HEADERS, "x-accel-buffering": "no"}
    return StreamingResponse(parts, 200, headers, "text/event-stream")


async def next_event(subscriber: Subscriber) -> tuple[str, Any] | None:
    """Return the next event; ``("ping", None)`` if there is none for a while, None at the end."""
    try:
        async with asyncio.timeout(PING_SECONDS):
            return await subscriber.queue.get()
    except TimeoutError:
        return ("ping", None)


async def events(request: Request) -> Response:
    """Ends of epochs and changes of the state, as they come (server-sent events)."""
    running, notifier = served(request), notifier_of(request)
    notifier.check_room()
    return stream(_events(running, notifier))


def notifier_of(request: Request) -> Notifier:
    """Return what brings events into the event loop of a request."""
    notifier: Notifier = request.app.state.notifier
    return notifier


async def _events(running: ServedApp, notifier: Notifier) -> AsyncIterator[bytes]:
    async with notifier.subscribed() as subscriber:
        yield event("state", {"state": str(running.app.state), "before": None, **barrier(running)})
        while (told := await next_event(subscriber)) is not None:
            kind, data = told
            if kind == "ping":
                yield PING
            elif kind == "epoch":
                yield event(kind, _epoch_data(running, data), data.epoch)
            else:
                yield event(kind, data)


def _epoch_data(running: ServedApp, published: Any) -> dict[str, Any]:
    """Return a barrier with what is known of its epoch, if that is still kept."""
    found: dict[str, Any] = {"epoch": published.epoch, "position": position_data(published.position)}
    loop = running.loop
    recent = [] if loop is None else list(loop.history.epochs)[-8:]
    for each in recent:
        if each.epoch == published.epoch:
            found |= each.data()
    return found
