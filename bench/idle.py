"""What an application costs that has nothing to do: ``python -m bench.idle [--seconds 20] [--admin]``.

A real broker, an application with state, a re-key, a wall-clock punctuator and a scheduled source that are not due, and some records
to warm it up; then nothing comes. Prints processor time by process, per minute, and how many epochs ran meanwhile: none should.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
from collections.abc import Iterable
from typing import Any

from bench.measure import TICK, Stat, members
from penstock import App, Processor, PunctuationType, Record, StreamsBuilder
from penstock.dev.broker import Broker
from penstock.log.base import TopicSpec
from penstock.log.kafka import KafkaLog

HOUR_MS = 3_600_000
RECORDS = 100


class Patient(Processor[Any, Any]):
    """Has a punctuator that is due in an hour."""

    def init(self, context: Any) -> None:
        """Schedule it."""
        self.context = context
        context.schedule(HOUR_MS, PunctuationType.WALL_CLOCK_TIME, lambda now: None)

    def process(self, record: Record[Any, Any]) -> None:
        """Pass the record on."""
        self.context.forward(record)


def topology() -> StreamsBuilder:
    """Return what waits."""
    builder = StreamsBuilder()
    counted = builder.stream("in").process(Patient).group_by(lambda key, value: value).count(store="counts")
    counted.map_values(str).to_stream().to("out")
    builder.scheduled(24 * HOUR_MS, lambda context: context.forward("day", context.timestamp)).to("out")
    return builder


def seconds_of(pids: Iterable[int], known: dict[int, Stat]) -> float:
    """Return the processor time of processes, that of children which have ended included."""
    return sum(known[pid].own_ticks + known[pid].reaped_ticks for pid in pids if pid in known) / TICK


def usage(broker: int | None) -> dict[str, float]:
    """Return the processor time so far of driver, JVM, workers and broker."""
    assert broker is not None, "the broker has ended"
    me, all_of_us = os.getpid(), members(os.getpid())
    brokers = members(broker)
    ours = {pid: stat for pid, stat in all_of_us.items() if pid not in brokers and pid != me}
    java = [pid for pid, stat in ours.items() if stat.name == "java"]
    return {
        "driver": seconds_of([me], all_of_us),
        "JVM of Spark": seconds_of(java, ours),
        "Python workers": seconds_of([pid for pid in ours if pid not in java], ours),
        "broker": seconds_of(brokers, brokers),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--settle", type=float, default=5, help="seconds between the last epoch and the measurement")
    parser.add_argument("--admin", action="store_true", help="with a server for HTTP, which nobody asks")
    given = parser.parse_args()
    with Broker(heap_mb=512) as broker, tempfile.TemporaryDirectory(prefix="penstock-bench-idle-") as folder:
        log = KafkaLog(broker.bootstrap_servers)
        log.admin.ensure_topics([TopicSpec("in", 4), TopicSpec("out", 4)])
        settings: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap_servers,
            "state_dir": folder,
            "master": "local[2]",
            **({"admin": "0"} if given.admin else {}),
        }
        producer, pause = log.producer(None), threading.Event()
        with App(topology(), application_id="idle", **settings) as app:
            for number in range(RECORDS):
                producer.begin()
                producer.produce([("in", None, b"k", b'"w"', 1_700_000_000_000 + number, ())])
                producer.commit()
                pause.wait(0.1)
            while app.metrics()["records_in"] < RECORDS:
                pause.wait(0.1)
            pause.wait(given.settle)
            epochs, before = app.metrics()["epoch"], usage(broker.pid)
            pause.wait(given.seconds)
            after = usage(broker.pid)
            ran = app.metrics()["epoch"] - epochs
        log.close()
    for role, seconds in after.items():
        print(f"{role:<16} {(seconds - before[role]) / given.seconds * 60:6.2f} CPU seconds a minute")
    print(f"{ran} epochs in {given.seconds:.0f} s")


if __name__ == "__main__":
    main()
