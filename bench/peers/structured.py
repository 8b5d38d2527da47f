"""The jobs as a Spark user would write them without Penstock: Structured Streaming from Kafka to Kafka, at least once::

    python -m bench.peers.structured job bootstrap application-id sql|tws threads state-dir in,in out [name=value ...]

``sql``: Spark's own aggregations. ``tws``: ``transformWithState``, its interface for state of one's own, in Python. It prints RUNNING,
COMMITTED with the number of records after every batch, and ends at the end of its standard input.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from penstock.dev.jars import resolve

#: what Spark's own streams read Kafka with. Not every registry carries the token provider in the version of the connector; the
#: earlier one is the same small jar. Each is taken alone: Spark has the rest
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0@jar",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0@jar",
    "org.apache.kafka:kafka-clients:3.9.2@jar",
    "org.apache.commons:commons-pool2:2.13.1@jar",
)
#: of a batch, at most: of Spark's aggregations as many as of an epoch of Penstock; less of what is a hundred times slower
MOST_RECORDS = {"sql": 500_000, "tws": 10_000}
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SAME_PRODUCER = {"kafka.batch.size": "1000000", "kafka.linger.ms": "1000", "kafka.buffer.memory": "67108864"}
PURCHASE = "`order` bigint, customer string, amount bigint, note string"
TOTALS = "concat('{\"count\":', count, ',\"sum\":', sum, '}')"
INT64 = "unhex(lpad(hex({}), 16, '0'))"


def session(threads: str) -> Any:
    """Start Spark as its documentation says, with as many partitions of state as threads."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars": ",".join(map(str, resolve(CONNECTOR))),
        "spark.sql.shuffle.partitions": threads,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": ROCKS,
    }
    builder: Any = SparkSession.builder
    return builder.master(f"local[{threads}]").config(map=settings).getOrCreate()


def purchases(frame: Any) -> Any:
    """Read the values as JSON."""
    return frame.selectExpr("key", f"from_json(cast(value as string), '{PURCHASE}') p").select("key", "p.*")


def stateless(frame: Any) -> Any:
    """Filter and map."""
    sale = "named_struct('order', `order`, 'customer', customer, 'cents', amount * 100, 'note', note)"
    return purchases(frame).where("amount >= 20").selectExpr("key", f"to_json({sale}) value")


def count_sum(frame: Any) -> Any:
    """Count and sum by key."""
    return totals(purchases(frame), "key")


def rekey_aggregate(frame: Any) -> Any:
    """Count and sum by customer."""
    return totals(purchases(frame), "customer")


def totals(frame: Any, key: str) -> Any:
    """Count and sum by a column."""
    from pyspark.sql import functions as f

    summed = frame.groupBy(key).agg(f.count("*").alias("count"), f.sum("amount").alias("sum"))
    return summed.selectExpr(f"{key} key", f"{TOTALS} value")


def word_count(frame: Any) -> Any:
    """Count words."""
    words = frame.selectExpr("explode(split(cast(value as string), ' ')) word")
    return words.groupBy("word").count().selectExpr("word key", f"{INT64.format('count')} value")


def tumbling(frame: Any) -> Any:
    """Count in windows of five minutes."""
    from pyspark.sql import functions as f

    counted = frame.groupBy("key", f.window("timestamp", "5 minutes")).count()
    key = f"concat(key, {INT64.format('unix_millis(window.start)')})"
    return counted.selectExpr(f"{key} key", f"{INT64.format('count')} value")


def count_sum_by_hand(frame: Any) -> Any:
    """Count and sum by key, in a stateful processor."""
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class CountSum(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", "count bigint, sum bigint")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            count, total = self.total.get() or (0, 0)
            for row in rows:
                count, total = count + 1, total + row.amount
            self.total.update((count, total))
            yield Row(key=key[0], value=f'{{"count":{count},"sum":{total}}}')

        def close(self) -> None:
            pass

    grouped = purchases(frame).select("key", "amount").groupBy("key")
    return grouped.transformWithState(CountSum(), "key binary, value string", "Update", "None")


SQL: dict[str, Callable[[Any], Any]] = {
    job.__name__: job for job in (stateless, count_sum, rekey_aggregate, word_count, tumbling)
}
TWS: dict[str, Callable[[Any], Any]] = {"count_sum": count_sum_by_hand}


def tell(query: Any, over: threading.Event) -> None:
    """Print how many records are done, after every batch."""
    batches: dict[int, int] = {}
    told = 0
    while query.isActive and not over.wait(0.1):
        batches |= {each["batchId"]: each["numInputRows"] for each in query.recentProgress}
        if sum(batches.values()) > told:
            told = sum(batches.values())
            print("COMMITTED", told, flush=True)


def wait_for_end(over: threading.Event) -> None:
    while os.read(0, 4096):
        pass
    over.set()


def main(arguments: list[str]) -> None:
    job, bootstrap, _application_id, how, threads, state_dir, sources, target, *_given = arguments
    spark = session(threads)
    spark.sparkContext.setLogLevel("WARN")
    source = {"kafka.bootstrap.servers": bootstrap, "subscribe": sources, "startingOffsets": "earliest"}
    frame = spark.readStream.format("kafka").options(**source, maxOffsetsPerTrigger=MOST_RECORDS[how]).load()
    results = (SQL if how == "sql" else TWS)[job](frame)
    sink = {"kafka.bootstrap.servers": bootstrap, "topic": target, "checkpointLocation": state_dir, **SAME_PRODUCER}
    query = results.writeStream.format("kafka").options(**sink).outputMode("update").start()
    print("RUNNING", flush=True)
    over = threading.Event()
    threading.Thread(target=wait_for_end, args=(over,), daemon=True).start()
    tell(query, over)
    if query.exception() is not None:
        raise SystemExit(str(query.exception()))
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
