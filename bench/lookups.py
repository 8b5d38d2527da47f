"""Look-ups of keys over HTTP at a steady rate: ``python -m bench.lookups --url http://127.0.0.1:8080 --store totals [--rate 1000]``.

Asks an application that runs; `penstock bench lookups-5k lookups-full` starts it. A look-up is due at its time, whether those before
it were answered or not, and its time counts from then: a server that stalls is not spared. Begins when the application answers for
the first time. Prints how many were answered, with which status, and how long they took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from time import perf_counter
from typing import Any, cast
from urllib.parse import urlsplit

from bench.latency import percentile

CONNECTIONS = 32
FIRST_SECONDS = 120.0
#: how soon it is seen that the end has come
LOOK_SECONDS = 0.05
#: seconds that answers are waited for at the end
LAST_SECONDS = 30.0


class Lookups:
    """What is asked, and what was answered: due times wait until a connection is free."""

    def __init__(self, given: argparse.Namespace) -> None:
        where = urlsplit(given.url)
        self.host, self.port = where.hostname or "127.0.0.1", where.port or 80
        self._path, self._keys = f"/v1/stores/{given.store}/keys/k", given.keys
        self._counted_from = given.warm_up
        self.began = perf_counter()
        self.waiting: deque[float] = deque()
        self.free: list[Connection] = []
        self.busy = 0
        #: microseconds, of those past the warm-up
        self.took: list[int] = []
        #: microseconds from its time until this process saw that it was due: what the machine makes it wait
        self.late: list[int] = []
        self.statuses: Counter[str] = Counter()

    def request(self) -> bytes:
        """Return a request for a random key."""
        return f"GET {self._path}{random.randrange(self._keys)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

    def send(self) -> None:
        """Send what is due over connections that are free."""
        while self.waiting and self.free:
            self.busy += 1
            self.free.pop().ask(self.waiting.popleft(), self.request())

    def due(self, times: Iterable[float]) -> None:
        """Note look-ups that are due since these times, and send what can be sent."""
        now = perf_counter()
        for at in times:
            self.waiting.append(at)
            if at - self.began >= self._counted_from:
                self.late.append(int((now - at) * 1e6))
        self.send()

    def answered(self, due: float, status: str) -> None:
        """Note an answer."""
        self.busy -= 1
        self.statuses[status] += 1
        if due - self.began >= self._counted_from:
            self.took.append(int((perf_counter() - due) * 1e6))

    async def connect(self) -> None:
        """Add a connection; it is tried until there is a server."""
        until = perf_counter() + FIRST_SECONDS
        while True:
            try:
                await asyncio.get_running_loop().create_connection(lambda: Connection(self), self.host, self.port)
            except OSError:
                if perf_counter() > until:
                    raise
                await asyncio.sleep(0.1)
            else:
                return


class Connection(asyncio.Protocol):
    """One connection that stays open, and asks one thing at a time."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        self._due: float | None = None
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._lookups.free.append(self)

    def ask(self, due: float, request: bytes) -> None:
        """Send a request that was due then."""
        self._due = due
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        if not end or len(body) < body_size(head) or self._due is None:
            return
        due, self._due, self._data = self._due, None, b""
        self._lookups.answered(due, head[9:12].decode())
        self._lookups.free.append(self)
        self._lookups.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._due is not None:
            self._lookups.answered(self._due, "disconnected")
        if self in self._lookups.free:
            self._lookups.free.remove(self)


def body_size(head: bytes) -> int:
    """Return the length of the body that an answer has.

    >>> body_size(b"HTTP/1.1 200 OK\\r\\nContent-Length: 12")
    12
    """
    _, _, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0] or 0)


async def until_answered(lookups: Lookups) -> None:
    """Wait until the application answers as it does while it runs, so that a start does not count."""
    await lookups.connect()
    while not lookups.statuses.keys() & {"200", "404"}:
        if not lookups.free and not lookups.busy:
            await lookups.connect()
        lookups.waiting.append(perf_counter())
        lookups.send()
        await asyncio.sleep(0.1)
    lookups.took.clear()
    lookups.statuses.clear()


async def ask(given: argparse.Namespace, over: threading.Event) -> Lookups:
    """Ask for random keys until it is over."""
    lookups = Lookups(given)
    await until_answered(lookups)
    await asyncio.gather(*(lookups.connect() for _ in range(CONNECTIONS - 1)))
    lookups.began = perf_counter()
    asked = 0
    while not over.is_set() and (given.seconds is None or asked < given.rate * given.seconds):
        due = int((perf_counter() - lookups.began) * given.rate)
        lookups.due(lookups.began + number / given.rate for number in range(asked, due))
        asked = max(asked, due)
        next_due = lookups.began + (asked + 1) / given.rate - perf_counter()
        await asyncio.sleep(min(max(next_due, 0), LOOK_SECONDS))
    until = perf_counter() + LAST_SECONDS
    while (lookups.waiting or lookups.busy) and lookups.free and perf_counter() < until:
        await asyncio.sleep(0.01)
    lookups.statuses["never answered"] += len(lookups.waiting) + lookups.busy
    return lookups


def figures(lookups: Lookups) -> dict[str, Any]:
    """Return what was found. ``others``: without a row, or failed; ``late``: what was over before it was asked."""
    took, late = sorted(lookups.took), sorted(lookups.late)
    found: dict[str, Any] = {f"p{part}_ms": percentile(took, part) / 1000 if took else None for part in (50, 95, 99)}
    found["longest_ms"] = took[-1] / 1000 if took else None
    found["late_p99_ms"] = percentile(late, 99) / 1000 if late else None
    found["answered"] = lookups.statuses["200"]
    found["others"] = lookups.statuses.total() - found["answered"]
    return {**found, "statuses": lookups.statuses, "cpu_seconds": time.process_time()}


def await_end_of_input(over: threading.Event) -> None:
    """Note when nobody holds the other end of the standard input any more."""
    sys.stdin.read()
    over.set()


def main() -> None:
    """Ask, and print a line of JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--rate", type=float, default=1_000)
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--warm-up", type=float, default=0, help="seconds that do not count")
    parser.add_argument("--until-end-of-input", action="store_true")
    given = parser.parse_args()
    if given.seconds is None and not given.until_end_of_input:
        given.seconds = 30.0
    over = threading.Event()
    if given.until_end_of_input:
        threading.Thread(target=await_end_of_input, args=(over,), daemon=True).start()
    print(json.dumps(figures(asyncio.run(ask(given, over)))))


if __name__ == "__main__":
    main()
