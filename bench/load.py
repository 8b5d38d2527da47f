"""Records that come while a system runs, so many a second; and the results, with the time at which a reader of committed records got each.

Records carry the wall-clock time at which they were handed to the producer. A result carries the time of the newest record in it, so
the time between is the way of that record from end to end.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType

from bench.writing import Written, places
from penstock.log.base import Row
from penstock.log.kafka import KafkaLog

TICK_SECONDS = 0.005
#: looks without a result, a tenth of a second each, until there are no more: a commit is seen before its results are
QUIET_LOOKS = 20
#: what is produced leaves at once
AT_ONCE = {"producer.linger.ms": 0}


class Load:
    """Writes the rows of a workload at a rate, from a thread. A context manager; leaving it stops the thread."""

    def __init__(self, bootstrap_servers: str, written: Written, rate: int) -> None:
        self.sent = 0
        self.began_ms = 0
        self._rows = written.workload.rows(written.size, written.topics)
        self._rate = rate
        self._log = KafkaLog(bootstrap_servers, AT_ONCE)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._log.close()

    @property
    def finished(self) -> bool:
        """Whether all rows were written."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        producer = self._log.producer(None)
        producer.init()
        began = time.monotonic()
        self.began_ms = now_ms()
        while not self._over.wait(TICK_SECONDS):
            due = int((time.monotonic() - began) * self._rate) - self.sent
            chunk = list(itertools.islice(self._rows, due))
            if due and not chunk:
                break
            producer.produce(_now(chunk))
            self.sent += len(chunk)
        producer.flush()
        producer.close()


def now_ms() -> int:
    """The wall clock, as timestamps of records have it."""
    return time.time_ns() // 1_000_000


def _now(rows: list[Row]) -> Iterator[Row]:
    now = now_ms()
    for topic, partition, key, value, _, headers in rows:
        yield topic, partition, key, value, now, headers


@dataclass(slots=True)
class Arrivals:
    """Follows a topic of results from a thread. A context manager. ``seen``: (time of the record, time of its arrival)."""

    bootstrap_servers: str
    topic: str
    partitions: int
    seen: list[tuple[int, int]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)

    def __enter__(self) -> Arrivals:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def first_after(self, at_ms: int) -> int | None:
        """Return when the first result arrived after a time."""
        return next((arrived for _, arrived in self.seen if arrived > at_ms), None)

    def _run(self) -> None:
        log = KafkaLog(self.bootstrap_servers)
        reader = log.reader()
        quiet = 0
        for record in reader.follow(dict.fromkeys(places([self.topic], self.partitions), 0)):
            if record is not None:
                self.seen.append((record.timestamp, now_ms()))
                quiet = 0
            elif self._over.is_set():
                quiet += 1
                if quiet > QUIET_LOOKS:
                    break
        log.close()
