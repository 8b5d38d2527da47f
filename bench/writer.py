"""What a row costs on its way to the log, by librdkafka and by our own writer: ``python -m bench.writer [--rows 1000000] [--rounds 5]``.

A real broker, rows by column in batches as an epoch has them, one transaction a round, the two writers in turns. Prints the processor time
of all threads of this process for a row, that of the broker, and the time that it took; medians, and the ratio of the two.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from time import perf_counter, process_time

import numpy as np
import pyarrow as pa

from bench.measure import TICK, members
from penstock.dev.broker import Broker
from penstock.log.base import Producer, RowColumns, TopicSpec
from penstock.log.kafka import KafkaLog
from penstock.record import Headers

PARTITIONS, BATCH = 4, 62_500
#: a setting that only librdkafka knows
OTHER = {"producer.message.copy.max.bytes": 65_535}


def batches(rows: int, size: int, *, headers: bool) -> list[RowColumns]:
    """Return rows of so many bytes of value, by column."""
    found = []
    added: Sequence[Headers] | None = [(("epoch", b"17"),)] * BATCH if headers else None
    for first in range(0, rows, BATCH):
        keys = pa.array([b"key-%d" % (n * 7919 % 50_000) for n in range(first, first + BATCH)], pa.binary())
        values = pa.array([b"%0*d" % (size, n) for n in range(first, first + BATCH)], pa.binary())
        times = np.arange(first, first + BATCH) + 1_700_000_000_000
        found.append(RowColumns("written", None, keys, values, times, added))
    return found


def seconds_of(broker: Broker) -> float:
    """Return the processor time of the broker so far."""
    assert broker.pid is not None, "the broker has ended"
    return sum(stat.own_ticks for stat in members(broker.pid).values()) / TICK


def write(producer: Producer, some: Sequence[RowColumns]) -> None:
    """Write an epoch."""
    producer.begin()
    for columns in some:
        producer.produce_columns(columns)
    producer.commit()


def main() -> None:
    """Measure both, in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bytes", type=int, default=90)
    parser.add_argument("--headers", action="store_true")
    given = parser.parse_args()
    some = batches(given.rows, given.bytes, headers=given.headers)
    count = len(some) * BATCH
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with Broker() as broker:
        logs = {"librdkafka": KafkaLog(broker.bootstrap_servers, OTHER), "wire": KafkaLog(broker.bootstrap_servers)}
        logs["wire"].admin.ensure_topics([TopicSpec("written", PARTITIONS, {"retention.bytes": str(1 << 28)})])
        producers = {name: log.producer(f"writer-{name}-{os.getpid()}") for name, log in logs.items()}
        for producer in producers.values():
            producer.init()
            write(producer, some)  # the broker's code is warm
        for _ in range(given.rounds):
            for name, producer in producers.items():
                began, used, theirs = perf_counter(), process_time(), seconds_of(broker)
                write(producer, some)
                found[name]["ours"].append(process_time() - used)
                found[name]["broker's"].append(seconds_of(broker) - theirs)
                found[name]["passed"].append(perf_counter() - began)
        for log in logs.values():
            log.close()
    for name, figures in found.items():
        shown = ", ".join(f"{what} {median(times) / count * 1e6:.3f}" for what, times in figures.items())
        print(f"{name:<12} µs a row: {shown}")
    ratio = median(found["wire"]["ours"]) / median(found["librdkafka"]["ours"])
    print(f"wire / librdkafka, processor time of this process: {ratio:.2f}")


if __name__ == "__main__":
    main()
