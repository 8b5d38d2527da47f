"""Watch an application as Prometheus and an open page do: ``python -m bench.watching URL``, until the end of standard input.

Once a second ``/metrics`` and ``/v1/overview`` are read, and the events of its epochs as they come.
"""

from __future__ import annotations

import sys
import threading
import urllib.request
from contextlib import suppress

PATHS = ("/metrics", "/v1/overview")


def follow(url: str) -> None:
    """Read the events of epochs."""
    with suppress(OSError), urllib.request.urlopen(f"{url}/v1/events") as events:
        for _ in events:
            pass


def wait_for_end(over: threading.Event) -> None:
    """Wait until nobody holds the other end of standard input."""
    sys.stdin.read()
    over.set()


def main(url: str) -> None:
    """Read until the end of standard input."""
    over = threading.Event()
    threading.Thread(target=wait_for_end, args=(over,), daemon=True).start()
    threading.Thread(target=follow, args=(url,), daemon=True).start()
    while not over.wait(1):
        for path in PATHS:
            with suppress(OSError), urllib.request.urlopen(url + path, timeout=10) as answer:
                answer.read()


if __name__ == "__main__":
    main(sys.argv[1])
