"""The demo's traffic: a thread that writes purchases at a steady rate, and one that reads the committed results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from penstock.cli.demo_topology import REVENUE_KEY, Event, Model
from penstock.clock import SystemClock
from penstock.log.base import LogRecord, Offsets, Row
from penstock.log.kafka import KafkaLog
from penstock.serde import Serdes

TICK_SECONDS = 0.05
OUTPUTS: dict[str, tuple[Callable[[bytes], Any], Callable[[bytes], int]]] = {
    "customer-spend": (Serdes.string.deserialize, Serdes.int64.deserialize),
    "category-revenue": (REVENUE_KEY.deserialize, Serdes.int64.deserialize),
}


class Purchases(threading.Thread):
    """Writes events at a rate until there are no more or it is told to stop. Every event is in the model, too.

    A price is in the log before the purchases that follow it are written.
    """

    def __init__(self, log: KafkaLog, events: Iterator[Event], rate: int) -> None:
        super().__init__(name="penstock-demo-purchases", daemon=True)
        self._producer = log.producer(None)
        self._events = events
        self._rate = rate
        self._stop_asked = threading.Event()
        self.model = Model()
        self.written = 0
        self.purchases = 0
        self.error: BaseException | None = None

    def stop(self) -> None:
        """Write no more; return when the last one is in the log."""
        self._stop_asked.set()
        self.join()

    def run(self) -> None:
        """Write, in portions that are due."""
        try:
            self._write_all()
        except BaseException as error:
            self.error = error

    def _write_all(self) -> None:
        now_ms = SystemClock().now_ms
        began, more = now_ms(), True
        while more and not self._stop_asked.is_set():
            due = (now_ms() - began) * self._rate // 1000 + 1
            more = self._write(due - self.written)
            self._stop_asked.wait(TICK_SECONDS)

    def _write(self, count: int) -> bool:
        """Write so many events; tell whether there may be more."""
        waiting: list[Row] = []
        for _ in range(count):
            event = next(self._events, None)
            if event is None:
                self._flush(waiting)
                return False
            self.model.take(event)
            self.purchases += event.topic == "purchases"
            if event.topic == "products":
                self._flush(waiting)
                waiting = []
            waiting.append(_row(event))
            if event.topic == "products":
                self._flush(waiting)
                waiting = []
        self._flush(waiting)
        return True

    def _flush(self, rows: list[Row]) -> None:
        if rows:
            self._producer.begin()
            self._producer.produce(rows)
            self._producer.commit()
            self.written += len(rows)


def _row(event: Event) -> Row:
    key, value = Serdes.string.serialize(event.key), Serdes.json.serialize(event.value)
    return (event.topic, None, key, value, event.timestamp, ())


class Committed(threading.Thread):
    """Reads the output topics as any ``read_committed`` consumer does; keeps the newest value of each key."""

    def __init__(self, log: KafkaLog, tables: dict[str, dict[Any, int]], on_result: Callable[[], None]) -> None:
        super().__init__(name="penstock-demo-committed", daemon=True)
        self._log = log
        self._tables = tables
        self._on_result = on_result
        self._stop_asked = threading.Event()
        counts = log.admin.partitions(OUTPUTS)
        self._next: Offsets = {(topic, number): 0 for topic, count in counts.items() for number in range(count)}
        self.error: BaseException | None = None

    def run(self) -> None:
        """Follow the topics until the end."""
        try:
            for record in self._log.reader().follow(self._next):
                if record is not None:
                    self._take(record)
                if self._stop_asked.is_set():
                    return
        except BaseException as error:
            self.error = error

    def finish(self) -> None:
        """Read what is left up to where the topics end now."""
        self._stop_asked.set()
        self.join()
        reader = self._log.reader()
        for place, end in self._log.admin.end_offsets(self._next).items():
            for record in reader.read(*place, self._next[place], end):
                self._take(record)

    def _take(self, record: LogRecord) -> None:
        read_key, read_value = OUTPUTS[record.topic]
        assert record.key is not None
        assert record.value is not None
        self._tables[record.topic][read_key(record.key)] = read_value(record.value)
        self._next[record.topic, record.partition] = record.offset + 1
        self._on_result()
