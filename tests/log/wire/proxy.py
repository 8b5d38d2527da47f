"""A proxy between a writer and its broker that cuts connections at chosen requests."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

#: what is done with a request: cut before it, in the middle of it, after it so that the answer is lost; None: nothing
HOW = ("before", "half", "after")


class Proxy:
    """Listens on a port and passes everything on to another, until ``decide(api key)`` says how to cut.

    Only requests of our own writer are asked about, which is known by its client id.
    """

    def __init__(self, client_id: str = "penstock") -> None:
        self._client_id = client_id.encode()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.target = 0
        self.decide: Callable[[int], str | None] = lambda api: None
        #: nobody gets through
        self.closed = False
        self.cuts: list[tuple[int, str]] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def cut_once(self, api: int, how: str, at: int = 1) -> None:
        """Cut at one request of a kind, the ``at``-th from now on."""
        seen = 0

        def decide(given: int) -> str | None:
            nonlocal seen
            seen += given == api
            return how if given == api and seen == at else None

        self.decide = decide

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.closed:
                client.close()
                continue
            broker = socket.create_connection(("127.0.0.1", self.target))
            lost: set[int] = set()
            threading.Thread(target=self._pump, args=(client, broker, lost, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(broker, client, lost, False), daemon=True).start()

    def _pump(self, source: socket.socket, to: socket.socket, lost: set[int], is_request: bool) -> None:
        with contextlib.suppress(OSError):
            while frame := _frame(source):
                if is_request:
                    how = self._how(frame)
                    if how == "before":
                        break
                    if how == "half":
                        to.sendall(frame[: len(frame) // 2])
                        break
                    if how == "after":
                        lost.add(struct.unpack_from(">i", frame, 8)[0])
                elif struct.unpack_from(">i", frame, 4)[0] in lost:
                    break
                to.sendall(frame)
        for end in (source, to):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _how(self, frame: bytes) -> str | None:
        api, _, _, size = struct.unpack_from(">hhih", frame, 4)
        if self.closed:
            return "before"
        if frame[14 : 14 + size] != self._client_id:
            return None
        with self._lock:
            how = self.decide(api)
            if how is not None:
                self.cuts.append((api, how))
            return how


def _frame(source: socket.socket) -> bytes:
    size = _read(source, 4)
    return size + _read(source, struct.unpack(">i", size)[0]) if size else b""


def _read(source: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            return b""
        data += part
    return bytes(data)
