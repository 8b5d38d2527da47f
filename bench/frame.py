"""A store as a DataFrame against Spark's own Kafka source, on one broker and one session::

    python -m bench.frame [rows] [rounds]

An application counts so many keys (5,000,000 unless told), and a fifth of them again. Then the store is read three times by each of

    penstock   penstock.sql.frame
    spark      spark.read.format("kafka") of the changelog, read_committed, and the last row of each key by its offset

to the same aggregate: rows, the sum of the counts and of a hash of all keys. Both must equal what the store itself holds. Printed as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from bench.peers.structured import CONNECTOR
from penstock import Serdes, StreamsBuilder, sql
from penstock.clock import SystemClock
from penstock.config import load
from penstock.dev.broker import Broker
from penstock.dev.jars import resolve
from penstock.engine.engine import Engine
from penstock.engine.executor.spark_session import make_session
from penstock.log.base import RowColumns, TopicSpec
from penstock.log.kafka import KafkaLog
from penstock.log.topics import changelog_name

APPLICATION, TOPIC, STORE, START_MS = "frame", "numbers", "counts", 1_750_000_000_000
PARTITIONS, SHARDS, CHUNK = 4, 16, 500_000
#: rows, sum of the values, sum of the hashes of the keys
Result = tuple[int, int, int]


def topology() -> StreamsBuilder:
    """Count by key."""
    builder = StreamsBuilder()
    builder.stream(TOPIC, key=Serdes.string, value=Serdes.bytes).group_by_key().count(store=STORE)
    return builder


def fill(log: KafkaLog, rows: int) -> None:
    """Write a record of every key, then one more of every fifth."""
    log.admin.ensure_topics([TopicSpec(TOPIC, PARTITIONS, {"retention.ms": "-1"})])
    producer = log.producer(None)
    producer.init()
    numbers = np.concatenate([np.arange(rows), np.arange(0, rows, 5)])
    for begin in range(0, len(numbers), CHUNK):
        some = numbers[begin : begin + CHUNK]
        keys = pa.array([b"key-%d" % number for number in some.tolist()], pa.binary())
        values = pa.array([b"1"] * len(some), pa.binary())
        producer.begin()
        producer.produce_columns(RowColumns(TOPIC, None, keys, values, START_MS + begin + np.arange(len(some)), None))
        producer.commit()
    producer.close()


def count(spark: Any, servers: str, folder: str) -> Result:
    """Run the application to the end of its input; return what its store holds."""
    given = {"application_id": APPLICATION, "bootstrap_servers": servers, "state_dir": folder, "shards": SHARDS}
    engine = Engine(topology().build(), load(given, environ={}), spark, clock=SystemClock())
    try:
        loop = engine.start()
        while loop.step():
            pass
        found = [0, 0, 0]
        for key, value in engine.view(STORE).all():
            found = [found[0] + 1, found[1] + value, found[2] + crc32(key.encode())]
        return found[0], found[1], found[2]
    finally:
        engine.close()


def by_penstock(spark: Any, servers: str) -> Any:
    """Read the store."""
    return sql.frame(spark, APPLICATION, STORE, bootstrap_servers=servers).selectExpr("key", "value")


def by_spark(spark: Any, servers: str) -> Any:
    """Read the changelog, and keep the last row of each key."""
    from pyspark.sql.functions import max_by

    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": changelog_name(APPLICATION, STORE),
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "earliest",
    }
    raw = spark.read.format("kafka").options(**options).load()
    last = raw.groupBy("key").agg(max_by("value", "offset").alias("value"))
    return last.where("value is not null").selectExpr(
        "cast(key as string) key", "cast(conv(hex(value), 16, 10) as bigint) value"
    )


def reduced(frame: Any) -> Result:
    """Run it."""
    row = frame.selectExpr("count(*)", "sum(value)", "sum(crc32(key))").collect()[0]
    return row[0], row[1], row[2]


def timed(run: Callable[[], Result]) -> tuple[float, Result]:
    """Return how long it took, and what came out."""
    since = time.perf_counter()
    found = run()
    return time.perf_counter() - since, found


def main(rows: int = 5_000_000, rounds: int = 3) -> dict[str, Any]:
    """Measure; raise if the results differ."""
    ways: dict[str, Callable[[Any, str], Any]] = {"penstock": by_penstock, "spark": by_spark}
    spark = make_session("local[2]", "frames", {"spark.jars": ",".join(map(str, resolve(CONNECTOR)))})
    try:
        with tempfile.TemporaryDirectory() as folder, Broker(heap_mb=1024) as broker:
            servers = broker.bootstrap_servers
            log = KafkaLog(servers)
            fill(log, rows)
            log.close()
            held = count(spark, servers, folder)
            seconds: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(rounds):
                for name, way in ways.items():
                    took, found = timed(lambda way=way: reduced(way(spark, servers)))  # type: ignore[misc]
                    if found != held:
                        raise AssertionError(f"{name} has found {found}, but the store holds {held}")
                    seconds[name].append(round(took, 2))
    finally:
        spark.stop()
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    return {"rows": held[0], "seconds": seconds, "faster": round(medians["spark"] / medians["penstock"], 2)}


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))
