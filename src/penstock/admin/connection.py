"""One connection of the admin server: a client that sends or reads too slowly, or nonsense, is disconnected.

uvicorn bounds what it holds for a connection, but not for how long. So each connection is looked at every few seconds:
a request must have come as a whole, and what was written must have been read a little. Look-ups of a key are answered
as they arrive (`point_lookups`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

import h11
import orjson
import uvicorn
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from penstock.admin.answers import HEADERS
from penstock.admin.point_lookups import LookupAnswer

logger = logging.getLogger("penstock.admin.http")
logger.setLevel(logging.ERROR)  # a client that sends nonsense is answered, and fills no log

#: seconds between two looks: a client that does not read at all is disconnected after two of them at most
LOOK_SECONDS = 5.0
#: looks until a request must have come, line and headers
MOST_LOOKS = 2
#: bytes of the line and the headers of a request
MOST_HEAD = 64 << 10
#: connections at a time; a process has 1,024 descriptors on an ordinary machine
MOST_CONNECTIONS = 200


#: what all answers to look-ups have
LOOKUP_HEADERS = b"".join(f"{name}: {value}\r\n".encode() for name, value in HEADERS.items())
LOOKUP_HEADERS += b"content-type: application/json\r\n"

#: answers a request from its bytes; None: it takes the ordinary way
AtOnce = Callable[[bytes], LookupAnswer | None]


class AdminConfig(uvicorn.Config):
    """What uvicorn is told, and what may answer a request as it arrives."""

    at_once: AtOnce | None = None


class OneWrite:
    """A transport that sends what is written in one turn of the event loop at once.

    uvicorn writes the head of an answer and its body one after the other. Each time the socket is asked, another thread may run: in a
    driver that is busy that takes longer than the answer.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send data at the end of this turn."""
        if not self._waiting:
            self._loop.call_soon(self._send)
        self._waiting.append(data)

    def write_now(self, data: bytes) -> None:
        """Send data behind what waits, at once."""
        self._waiting.append(data)
        self._send()

    def close(self) -> None:
        """Close after what waits."""
        self._send()
        self._transport.close()

    def write_eof(self) -> None:
        """Report that nothing follows what waits."""
        self._send()
        self._transport.write_eof()

    def _send(self) -> None:
        data, self._waiting = b"".join(self._waiting), []
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class BoundedConnection(H11Protocol):
    """A connection that ends by itself if its client stalls."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look at it; refuse it if there are too many."""
        super().connection_made(transport)
        self.transport = cast(asyncio.Transport, OneWrite(transport, self.loop))
        self.logger = logger
        self._looks = 0
        self._unread = 0
        self._refused = False
        self._look_later: asyncio.TimerHandle | None = self.loop.call_later(LOOK_SECONDS, self._look)
        if len(self.connections) > MOST_CONNECTIONS:
            self._answer(
                503,
                f"there are {MOST_CONNECTIONS} connections already",
                "close connections that are not used, or ask again later",
            )

    def data_received(self, data: bytes) -> None:
        """Take what the client sends, unless it was refused."""
        if not self._refused and not self._answered_at_once(data):
            super().data_received(data)

    def eof_received(self) -> None:
        """End a connection that was refused when the client has read why."""
        if self._refused:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        super().connection_lost(exc)
        if self._look_later is not None:
            self._look_later.cancel()

    def resume_writing(self) -> None:
        """Note that the client reads."""
        self._unread = 0
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request as long as for the first one."""
        self._looks = 0
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request of HTTP, or too long a one."""
        self._answer(
            400,
            "this is no request of HTTP/1.1, or its line and headers are longer than 64 KB",
            'send long keys in a body: POST /v1/stores/{store}/keys {"key": ...}',
        )

    def _answered_at_once(self, data: bytes) -> bool:
        """Answer a look-up, if the connection waits for a request and none of one is here yet."""
        at_once = cast(AdminConfig, self.config).at_once
        if at_once is None or not self._is_waiting() or (found := at_once(data)) is None:
            return False
        self._unset_keepalive_if_required()
        self._looks = 0
        self.server_state.total_requests += 1
        dated = b"".join(b"%b: %b\r\n" % header for header in self.server_state.default_headers)
        head = b"HTTP/1.1 %d %b\r\n" % (found.status, STATUS_PHRASES[found.status])
        size = b"content-length: %d\r\n\r\n" % len(found.body)
        cast(OneWrite, self.transport).write_now(head + dated + LOOKUP_HEADERS + size + found.body)
        return True

    def _is_waiting(self) -> bool:
        """Whether all requests so far are answered, nothing of the next one is here, and the client reads."""
        idle = self.conn.our_state is h11.IDLE and self.conn.their_state is h11.IDLE
        return (
            idle and not self.conn.trailing_data[0] and not self.flow.write_paused and not self.transport.is_closing()
        )

    def _answer(self, status: int, error: str, remedy: str) -> None:
        body = orjson.dumps({"status": status, "error": error, "remedy": remedy})
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        answer: Any = h11.Response(
            status_code=status, headers=[*headers, (b"connection", b"close")], reason=STATUS_PHRASES[status]
        )
        try:
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # an answer is on its way already
            self.transport.abort()
        else:
            # what the client is still sending is thrown away: to close now would reset the connection before it has read this
            self._refused = True
            self.transport.write_eof()

    def _look(self) -> None:
        """Disconnect a client that has read nothing since the last look, or whose request is still not here."""
        unread = self.transport.get_write_buffer_size()
        stalled = bool(self._unread) and unread >= self._unread
        asking = self.cycle is None or self.cycle.response_complete
        self._looks = self._looks + 1 if asking else 0
        if stalled or self._looks >= MOST_LOOKS:
            self.transport.abort()
            return
        self._unread = unread
        self._look_later = self.loop.call_later(LOOK_SECONDS, self._look)
