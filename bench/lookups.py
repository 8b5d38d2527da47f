"""Look-ups of keys over HTTP at a steady rate: ``python -m bench.lookups --url http://127.0.0.1:8080 --store totals [--rate 1000]``.

Asks an application that runs, as one of `penstock bench latency-5k --systems penstock --setting admin=8080`. A look-up is due at its
time, whether those before it were answered or not, and its time counts from then: a server that stalls is not spared. Prints how many were
answered, with which status, and how long they took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections import Counter
from time import perf_counter
from urllib.parse import urlsplit

from bench.latency import percentile

CONNECTIONS = 32


class Connection:
    """One connection that stays open, and asks one thing at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str) -> int:
        """Return the status of an answer, which is read to its end."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        await reader.readexactly(size)
        return int(head[9:12])


async def ask(given: argparse.Namespace) -> tuple[list[int], Counter[str]]:
    """Ask for random keys for so long; return how long each took, in microseconds, and the statuses."""
    host = urlsplit(given.url)
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(Connection(host.hostname or "127.0.0.1", host.port or 80))
    took: list[int] = []
    statuses: Counter[str] = Counter()

    async def one(due: float) -> None:
        connection = await free.get()
        key = random.randrange(given.keys)
        try:
            statuses[str(await connection.get(f"/v1/stores/{given.store}/keys/k{key}"))] += 1
            took.append(int((perf_counter() - due) * 1e6))
        except (OSError, asyncio.IncompleteReadError) as error:
            statuses[type(error).__name__] += 1
            connection = Connection(host.hostname or "127.0.0.1", host.port or 80)
        free.put_nowait(connection)

    began, running = perf_counter(), set[asyncio.Task[None]]()
    for number in range(int(given.rate * given.seconds)):
        due = began + number / given.rate
        if (wait := due - perf_counter()) > 0:
            await asyncio.sleep(wait)
        task = asyncio.create_task(one(due))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    return took, statuses


def main() -> None:
    """Ask, and print a line of JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--rate", type=float, default=1_000)
    parser.add_argument("--seconds", type=float, default=30)
    given = parser.parse_args()
    took, statuses = asyncio.run(ask(given))
    took.sort()
    found = {f"p{part}_ms": percentile(took, part) / 1000 for part in (50, 95, 99)} if took else {}
    print(json.dumps({**found, "longest_ms": took[-1] / 1000 if took else None, "statuses": statuses}))


if __name__ == "__main__":
    main()
