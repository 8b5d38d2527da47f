"""An application that was never started, and its server: what needs neither Kafka nor Spark is tested there."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from served import TOKEN, words

from penstock import App
from penstock.admin.asgi import LoopbackOnly, close_asgi
from penstock.admin.server import AdminServer


async def endless(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application whose answer has no end."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while True:
        await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
        await asyncio.sleep(0)


@pytest.fixture
def serve() -> Iterator[Callable[..., httpx.Client]]:
    """Serve an application that is not started; give a client of it."""
    ends: list[Callable[[], Any]] = []

    def make(**config: Any) -> tuple[App, httpx.Client]:
        given = {"application_id": "words", "bootstrap_servers": "127.0.0.1:1", "admin_token": TOKEN, **config}
        app = App(words(), **given)
        app.mount("/endless", endless)
        asgi = app.admin_asgi()
        server = AdminServer(LoopbackOnly(asgi), "127.0.0.1:0")
        server.start()
        client = httpx.Client(base_url=f"http://{server.address}", timeout=20)
        ends.extend([server.stop, lambda: close_asgi(asgi), client.close])
        return app, client

    yield make
    for end in reversed(ends):
        end()
