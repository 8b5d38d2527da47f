"""A proxy between a writer and its broker that cuts connections at chosen requests."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from penstock.kafka_wire.protocol.primitives import Decoder, Encoder

#: what is done with a request: cut before it, in the middle of it, after it so that the answer is lost. None: nothing. A number: rows that
#: come with it are not written, and this error is answered; a negative one: they are written, and the error is answered all the same.
#: "hold": cut, and the request reaches the broker when ``release`` is called. "omit": rows are not written, and the answer says nothing
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
        self.decide: Callable[[int], str | int | None] = lambda api: None
        #: nobody gets through
        self.closed = False
        self.cuts: list[tuple[int, str | int]] = []
        self._held: list[bytes] = []
        self._generation = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def cut_once(self, api: int, how: str | int, at: int = 1) -> None:
        """Cut at one request of a kind, the ``at``-th from now on."""
        seen = 0

        def decide(given: int) -> str | int | None:
            nonlocal seen
            seen += given == api
            return how if given == api and seen == at else None

        self.decide = decide

    def release(self) -> None:
        """Bring what was held to the broker, and wait for its answers."""
        with socket.create_connection(("127.0.0.1", self.target)) as broker:
            for frame in self._held:
                broker.sendall(frame)
                _frame(broker)
        self._held.clear()

    def mute(self) -> None:
        """Let the connections of our writer pass nothing on any more, and say nothing of it: they are half open."""
        self._generation += 1

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.closed:
                client.close()
                continue
            try:
                broker = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # it starts, or is about to end
                client.close()
                continue
            lost: set[int] = set()
            under_way = threading.Semaphore(0)
            args = (client, broker, lost, under_way)
            threading.Thread(target=self._requests, args=args, daemon=True).start()
            threading.Thread(target=self._answers, args=args, daemon=True).start()

    def _requests(
        self, client: socket.socket, broker: socket.socket, lost: set[int], answered: threading.Semaphore
    ) -> None:
        under_way, generation = 0, self._generation
        with contextlib.suppress(OSError):
            while frame := _frame(client):
                if generation != self._generation and self._is_ours(frame):
                    continue
                how = self._how(frame)
                if how == "hold":
                    self._held.append(frame)
                if how in ("before", "hold"):
                    break
                if how == "half":
                    broker.sendall(frame[: len(frame) // 2])
                    break
                correlation = struct.unpack_from(">i", frame, 8)[0]
                if how == "after":
                    lost.add(correlation)
                if isinstance(how, int) or how == "omit":
                    if isinstance(how, int) and how < 0:  # its answer is swallowed
                        lost.add(-correlation)
                        broker.sendall(frame)
                        under_way += 1
                    for _ in range(under_way):  # answers come in order
                        answered.acquire()
                    under_way = 0
                    nothing = struct.pack(">iiii", 12, correlation, 0, 0)  # no topics, no throttling
                    client.sendall(_refusal(frame, correlation, abs(how)) if isinstance(how, int) else nothing)
                    continue
                broker.sendall(frame)
                under_way += 1
        _end(client, broker)

    def _answers(
        self, client: socket.socket, broker: socket.socket, lost: set[int], answered: threading.Semaphore
    ) -> None:
        with contextlib.suppress(OSError):
            while frame := _frame(broker):
                correlation = struct.unpack_from(">i", frame, 4)[0]
                if correlation in lost:
                    break
                if -correlation not in lost:
                    client.sendall(frame)
                answered.release()
        for _ in range(1000):
            answered.release()
        _end(client, broker)

    def _is_ours(self, frame: bytes) -> bool:
        (size,) = struct.unpack_from(">h", frame, 12)
        return frame[14 : 14 + size] == self._client_id

    def _how(self, frame: bytes) -> str | int | None:
        (api,) = struct.unpack_from(">h", frame, 4)
        if self.closed:
            return "before"
        if not self._is_ours(frame):
            return None
        with self._lock:
            how = self.decide(api)
            if how is not None:
                self.cuts.append((api, how))
            return how


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _refusal(frame: bytes, correlation: int, code: int) -> bytes:
    """Answer every partition of a Produce request with an error."""
    request = Decoder(frame[12:])
    request.nullable()  # the client
    request.nullable()  # its transactional id
    request.raw(6)
    topics = request.array(lambda found: (found.string(), found.array(lambda part: (part.int32(), part.blob())[0])))
    answer = Encoder().int32(correlation)
    answer.array(
        topics,
        lambda out, topic: out.string(topic[0]).array(
            topic[1], lambda out, partition: out.int32(partition).int16(code).int64(-1).int64(-1).int64(-1)
        ),
    )
    data = answer.int32(0).done()
    return struct.pack(">i", len(data)) + data


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
