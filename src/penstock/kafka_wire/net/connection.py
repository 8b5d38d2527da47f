"""One connection to a broker: requests go out, answers come back in the same order.

INVARIANT: a connection is whole or closed. Whatever interrupts a request or an answer in the middle, Ctrl-C too, closes it.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, TypeVar

from penstock.kafka_wire.errors import NoAnswer, Refused, TlsRefused, check
from penstock.kafka_wire.net.security import authenticate
from penstock.kafka_wire.net.waiting import SLICE_SECONDS, stopwatch_us
from penstock.kafka_wire.protocol import requests
from penstock.kafka_wire.protocol.primitives import Encoder
from penstock.kafka_wire.protocol.requests import Api
from penstock.kafka_wire.settings import Address, ProducerSettings
from penstock.native.record_batches import RecordBatch

T = TypeVar("T")

_LENGTH = Struct(">i")
UNSUPPORTED_VERSION = 35
#: how long it may take to be connected
CONNECT_SECONDS = 5.0
#: an answer is not larger than this: what seems so is no Kafka
LARGEST_ANSWER = 100 << 20
#: told once a second while nothing comes; raises to end the wait
OnWait = Callable[[], None]


class BrokerConnection:
    """A connection that is ready for use: encrypted and authenticated as the settings want it."""

    def __init__(
        self, address: Address, settings: ProducerSettings, context: ssl.SSLContext | None, on_wait: OnWait
    ) -> None:
        self.address = address
        self._settings = settings
        self.on_wait = on_wait
        self._under_way: deque[tuple[int, Api[Any]]] = deque()
        self._next = 0
        #: API key → the newest version that the broker knows
        self.versions: dict[int, int] = {}
        self._used = stopwatch_us()
        self._socket = self._connected()
        try:
            if context is not None:
                self._encrypt(context)
            self._begin()
        except ssl.SSLEOFError:
            self.close()
            raise
        except ssl.SSLError as error:
            self.close()
            raise TlsRefused(str(error)) from error
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        """Whether it can be used still."""
        return self._socket.fileno() >= 0

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent: one that nobody has used for long may be dead without anybody having said so."""
        idle = stopwatch_us() - self._used
        return self.is_open and (bool(self._under_way) or not 0 < self._settings.idle_seconds * 1e6 < idle)

    def close(self) -> None:
        """Close it; answers under way are lost."""
        self._socket.close()

    def ask(self, api: Api[T], body: bytes) -> T:
        """Send a request and return its answer. Nothing else may be under way."""
        assert not self._under_way
        self.send(api, [body])
        answer: T = self.receive()
        return answer

    def send(self, api: Api[Any], parts: Sequence[bytes | RecordBatch]) -> None:
        """Send a request."""
        self._next += 1
        self._used = stopwatch_us()
        head = api.head(self._next, self._settings.client_id)
        size = len(head) + sum(len(part) for part in parts)
        try:
            self._send([_LENGTH.pack(size) + head, *parts])
        except BaseException:
            self.close()
            raise
        self._under_way.append((self._next, api))

    def receive(self) -> Any:
        """Wait for the next answer."""
        expected, api = self._under_way[0]
        try:
            (size,) = _LENGTH.unpack(self._read(4))
            if not 4 <= size <= LARGEST_ANSWER:
                raise ConnectionError(f"{self.address[0]}:{self.address[1]} does not speak Kafka's protocol")
            correlation, answer = api.answer(self._read(size))
            if correlation != expected:
                raise ConnectionError("the broker answered another request")
        except ValueError as error:
            self.close()
            raise ConnectionError(str(error)) from error
        except BaseException:
            self.close()
            raise
        self._under_way.popleft()
        self._used = stopwatch_us()
        return answer

    def _send(self, parts: Sequence[bytes | RecordBatch]) -> None:
        """Send everything. Encrypted it goes in one piece, else as it lies in memory."""
        if isinstance(self._socket, ssl.SSLSocket):
            parts = [b"".join(parts)]
        views = deque(memoryview(part).cast("B") for part in parts)
        began = stopwatch_us()
        try:
            while views:
                try:
                    sent = self._socket.send(views[0]) if len(views) == 1 else self._socket.sendmsg(list(views)[:64])
                except TimeoutError:
                    self._wait(began)
                    continue
                began = stopwatch_us()
                while views and sent >= len(views[0]):
                    sent -= len(views.popleft())
                if sent:
                    views[0] = views[0][sent:]
        finally:  # an exception that is kept must not keep anybody from writing to a batch
            for view in views:
                view.release()

    def _read(self, size: int) -> bytes:
        data = bytearray(size)
        left, began = memoryview(data), stopwatch_us()
        while left:
            try:
                got = self._socket.recv_into(left)
            except TimeoutError:
                self._wait(began)
                continue
            if not got:
                raise ConnectionResetError("the broker closed the connection")
            left, began = left[got:], stopwatch_us()
        return bytes(data)

    def _wait(self, began: int) -> None:
        self.on_wait()
        if stopwatch_us() - began >= self._settings.socket_seconds * 1e6:
            raise NoAnswer("the broker does not answer")

    def _connected(self) -> socket.socket:
        made = socket.create_connection(self.address, timeout=CONNECT_SECONDS)
        made.settimeout(SLICE_SECONDS)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return made

    def _encrypt(self, context: ssl.SSLContext) -> None:
        self._socket.settimeout(CONNECT_SECONDS)
        self._socket = context.wrap_socket(self._socket, server_hostname=self.address[0])
        self._socket.settimeout(SLICE_SECONDS)

    def _begin(self) -> None:
        code, versions = self.ask(requests.VERSIONS, b"")
        check(code)
        self.versions = {key: newest for key, (_, newest) in versions.items()}
        for api in requests.NEEDED:
            low, high = versions.get(api.key, (0, -1))
            if not low <= api.version <= high:
                raise Refused(UNSUPPORTED_VERSION, f"the broker does not know {api.name} in version {api.version}")
        if self._settings.sasl:
            code, known = self.ask(requests.HANDSHAKE, Encoder().string(self._settings.mechanism).done())
            check(code, f"the broker takes {', '.join(known)}, not {self._settings.mechanism}")
            authenticate(self._settings, self._exchange)

    def _exchange(self, data: bytes) -> bytes:
        code, said, answer = self.ask(requests.AUTHENTICATE, Encoder().blob(data).done())
        check(code, said)
        return answer
