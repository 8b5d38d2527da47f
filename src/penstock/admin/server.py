"""The admin server: uvicorn in a thread with an event loop of its own. The engine's thread never waits for it."""

from __future__ import annotations

import logging
import socket
import sys
import threading
from typing import Any

import uvicorn

from penstock.admin.connection import MOST_HEAD, AdminConfig, AtOnce, BoundedConnection
from penstock.errors import ConfigError
from penstock.setting_checks import split_address

logger = logging.getLogger("penstock.admin")

#: how long requests that run are waited for at the end
STOP_SECONDS = 1
#: how long a thread that computes keeps others waiting for the interpreter, while there is a server. A request waits for it
#: several times (it arrives, is read, a store is asked, it is answered), 5 ms each unless Python is told otherwise
SWITCH_SECONDS = 0.001


class AdminServer:
    """Serves an ASGI application at an address, from ``start`` to ``stop``."""

    def __init__(self, asgi: Any, address: str, *, at_once: AtOnce | None = None) -> None:
        """``at_once``: may answer requests as their bytes arrive, in front of the application."""
        self._socket = listen(address)
        options: Any = {"lifespan": "off", "log_config": None, "access_log": False, "server_header": False}
        config = AdminConfig(
            asgi,
            http=BoundedConnection,
            ws="none",
            loop="asyncio",
            h11_max_incomplete_event_size=MOST_HEAD,
            timeout_graceful_shutdown=STOP_SECONDS,
            **options,
        )
        config.at_once = at_once
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="penstock-admin", daemon=True)
        #: where it listens: host:port
        self.address = _named(self._socket)

    def start(self) -> None:
        """Serve from now on. Connections that came since the address was taken have waited."""
        self._thread.start()
        logger.info("admin endpoints at http://%s", self.address)

    def stop(self) -> None:
        """End: connections are closed, what runs is cancelled."""
        self._server.should_exit = True
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(STOP_SECONDS + 5)
        self._socket.close()

    def _run(self) -> None:
        before = sys.getswitchinterval()
        sys.setswitchinterval(min(before, SWITCH_SECONDS))
        try:
            self._server.run(sockets=[self._socket])
        except BaseException:
            logger.exception("the admin server has ended; the application goes on without it")
        finally:
            sys.setswitchinterval(before)


def listen(address: str) -> socket.socket:
    """Return a socket that listens at an address; raise ``ConfigError`` if that cannot be."""
    host, port = split_address(address)
    try:
        family, kind, number, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, number)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(place)
            made.listen(128)
        except OSError:
            made.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"admin={address!r}: cannot listen there ({error}): give another port; port 0 chooses a free one"
        ) from error
    return made


def _named(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
