"""Records that come while a system runs, so many a second; and the results, with the time at which a reader of committed records got each.

Records carry the wall-clock time at which they were handed to the producer. A result carries the time of the newest record in it, so
the time between is the way of that record from end to end.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.peers.system import System, Task
from bench.stage import Stage, scratch
from bench.writing import Written, empty, places
from penstock.log.base import Row
from penstock.log.kafka import KafkaLog

TICK_SECONDS = 0.005
#: looks without a result, a tenth of a second each, until there are no more: a commit is seen before its results are
QUIET_LOOKS = 20
#: what is produced leaves at once
AT_ONCE = {"producer.linger.ms": 0}


class Load:
    """Writes the rows of a workload at a rate."""

    def __init__(self, bootstrap_servers: str, written: Written) -> None:
        self.sent = 0
        self.began_ms = 0
        self._servers = bootstrap_servers
        self._rows = written.workload.rows(written.size, written.topics)
        self._rate = written.workload.rate

    def run(self, over: threading.Event) -> None:
        """Write until there are no more rows, or until it is over."""
        log = KafkaLog(self._servers, AT_ONCE)
        producer = log.producer(None)
        producer.init()
        began = time.monotonic()
        self.began_ms = now_ms()
        while not over.wait(TICK_SECONDS):
            due = int((time.monotonic() - began) * self._rate) - self.sent
            chunk = list(itertools.islice(self._rows, due))
            if due and not chunk:
                break
            producer.produce(_now(chunk))
            self.sent += len(chunk)
        producer.flush()
        log.close()


def now_ms() -> int:
    """The wall clock, as timestamps of records have it."""
    return time.time_ns() // 1_000_000


def _now(rows: list[Row]) -> Iterator[Row]:
    now = now_ms()
    for topic, partition, key, value, _, headers in rows:
        yield topic, partition, key, value, now, headers


@dataclass(slots=True)
class Arrivals:
    """Follows a topic of results. ``seen``: (time of the record, time of its arrival)."""

    bootstrap_servers: str
    topic: str
    partitions: int
    seen: list[tuple[int, int]] = field(default_factory=list)

    def first_after(self, at_ms: int) -> int | None:
        """Return when the first result arrived after a time."""
        return next((arrived for _, arrived in self.seen if arrived > at_ms), None)

    def run(self, over: threading.Event) -> None:
        """Follow until it is over and nothing comes any more."""
        log = KafkaLog(self.bootstrap_servers)
        quiet = 0
        for record in log.reader().follow(dict.fromkeys(places([self.topic], self.partitions), 0)):
            if record is not None:
                self.seen.append((record.timestamp, now_ms()))
            quiet = quiet + 1 if record is None and over.is_set() else 0
            if quiet > QUIET_LOOKS:
                break
        log.close()


@contextmanager
def in_background(run: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run something in a thread until the end of the block; then it is told that it is over, and waited for."""
    over = threading.Event()
    thread = threading.Thread(target=run, args=(over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Live(NamedTuple):
    """A run on records that are written meanwhile."""

    written: Written
    task: Task
    load: Load
    arrivals: Arrivals


@contextmanager
def live(stage: Stage, later: Written, system: System, application_id: str, number: int) -> Iterator[Live]:
    """Make topics for one run, and follow its results; at the end of the block they are checked."""
    written = empty(stage.log, later, f"live-{number}-{system.name}-")
    servers = stage.broker.bootstrap_servers
    with scratch() as folder:
        task = stage.task(written, system, application_id, folder)
        arrivals = Arrivals(servers, task.target, written.workload.partitions)
        with in_background(arrivals.run):
            yield Live(written, task, Load(servers, written), arrivals)
    stage.check(written, task.target)
    stage.forget(*written.topics)
