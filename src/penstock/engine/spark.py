"""Spark: the only file that builds DataFrames. An epoch is one job; its plan is that of the steps::

    kafka source of exactly the ranges                                       [JVM]
    ─ tell the times of the records, if the first step needs them            [Python, in the reading tasks]
    ─ exchange by shard, unless the first step runs where it reads           [JVM]
    ─ step 0, exchange, step 1, ...                                          [Python, in the lanes]
    envelope rows to the driver, as Arrow

The functions that travel to the workers are closures over a broadcast and bytes; what they run is ``lane.run``, which knows no Spark.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.dev.jars import SPARK_CONNECTOR, resolve
from penstock.dev.java import java_home
from penstock.engine.chatter import Chatter
from penstock.engine.offsets import Range
from penstock.errors import EngineError
from penstock.lane.envelope import NOTE
from penstock.lane.inbox import PARTITIONS
from penstock.lane.orders import Orders, Stage, decode_report, encode_orders
from penstock.lane.parcel import unpacked
from penstock.log.client import Connection

#: rows of an Arrow batch on its way into Python: larger ones are slower to make; fewer while rows are large or not known yet
MOST_ROWS, FIRST_ROWS, BATCH_BYTES = 10_000, 500, 1 << 26
ENVELOPE = (
    "kind tinyint, route bigint, name string, partition int, key binary, value binary, "
    "timestamp bigint, headers binary, place binary"
)
PARCEL = "parcel binary"
RAW = "shard int, place int, offset bigint, key binary, value binary, timestamp bigint, headers string"
TOLD = f"{RAW}, reached bigint"
MARKED = f"{TOLD}, mark bigint"

#: settings that the engine rests on, and those that make small jobs quick
SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    # the newer reader of the connector hands out rows as they are; the older one makes objects of them, and rows again
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    # Spark would measure a batch after every row, which costs more than the row: rows are counted instead (``SparkLanes._fit``)
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.python.worker.reuse": "true",
    "spark.task.maxFailures": "1",  # the epoch is run again, not a part of it
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # sums over every row, for stages that are run again: here the whole epoch is
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch": "false",
    "spark.shuffle.checksum.enabled": "false",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.rpc.message.maxSize": "512",
    "spark.driver.maxResultSize": "0",
    "spark.sql.ui.retainedExecutions": "2",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.log.level": "FATAL",  # what fails comes back as an error, in a few lines
}

#: Spark is so much code that compiling what is only warm takes more time, for minutes, than the records do: the optimising
#: compiler gets what is hot by ten times its usual measure (docs/decisions/0016)
JVM = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:+UseParallelGC -XX:Tier4InvocationThreshold=50000 "
    "-XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)


def make_session(
    master: str, name: str, settings: Mapping[str, str] | None = None, progress: Callable[[str], None] | None = None
) -> Any:
    """Start Spark, or join what runs at ``master``."""
    jars = resolve(SPARK_CONNECTOR, progress=progress)
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers run what the driver runs
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    options = SETTINGS | {
        "spark.master": master,
        "spark.app.name": name,
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": JVM,
        "spark.executor.extraJavaOptions": JVM,
    }
    if not master.startswith("local"):
        for key in ("spark.driver.host", "spark.driver.bindAddress"):
            options.pop(key)
    options |= dict(settings or {})
    for key, value in options.items():
        builder = builder.config(key, value)
    return _quietly(lambda: _launch(options), builder.getOrCreate, master)


#: of the one JVM of this process, if it was started here
_chatter: Chatter | None = None


def _launch(options: Mapping[str, str]) -> None:
    """Start the JVM, unless there is one; what it says goes through ``_chatter``."""
    global _chatter
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    _chatter = Chatter()
    try:
        conf = SparkConf(loadDefaults=False).setAll(list(options.items()))
        gateway = launch_gateway(conf, {"stderr": _chatter.writing_end})  # type: ignore[no-untyped-call]
    finally:
        _chatter.close_writing_end()
    SparkContext._ensure_initialized(gateway=gateway)


def _quietly(launch: Callable[[], None], make: Callable[[], Any], master: str) -> Any:
    """Start Spark without its chatter; say in a few lines why, if it does not start."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    if _chatter is not None:
        _chatter.hush()
    try:
        launch()
        session = make()
    except (PySparkException, Py4JError) as error:
        said = _chatter.last_words() if _chatter is not None and "GATEWAY_EXITED" in str(error) else _gist(error)
        raise EngineError(f"Spark did not start at {master}: {said}") from error
    if _chatter is not None:
        _chatter.listen_after(session.sparkContext._jvm.java.lang.System.err.println)
    return session


class SparkLanes:
    """Runs epochs as Spark jobs."""

    def __init__(self, session: Any, stage: Stage, connection: Connection) -> None:
        from pyspark import cloudpickle
        from pyspark.sql import functions as f

        self._session = session
        self._stage = stage
        self._cores = max(1, int(session.sparkContext.defaultParallelism))
        data = pickle.dumps((_import_paths(), cloudpickle.dumps(stage)))  # type: ignore[no-untyped-call]
        self._broadcast = session.sparkContext.broadcast(data)
        self._identity = uuid.uuid4().hex
        self._thread: threading.Thread | None = None
        options = {
            "kafka.max.poll.records": "10000",
            "kafka.max.partition.fetch.bytes": "4194304",
            "kafka.fetch.max.wait.ms": "10",  # a range is there when it is asked for; only markers at its end are waited for
            # a cluster that is away is waited for by the loop, which says so and can be stopped
            "kafka.request.timeout.ms": "9000",
            "kafka.default.api.timeout.ms": "10000",
            **connection.spark_options(),  # what the user says wins over these, but not over what follows
            "kafka.isolation.level": "read_committed",
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "fetchOffset.retryIntervalMs": "10",
            "fetchOffset.numRetries": "1",
            "kafkaConsumer.pollTimeoutMs": "60000",
        }
        # executors keep the consumers of a group, and want their settings to be always the same
        digest = hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()[:12]
        options["kafka.group.id"] = f"{stage.application_id}-spark-{digest}"
        self._reader = session.read.format("kafka").options(**options)
        lanes = f.lit(stage.lanes)
        self._lane = {name: f.pmod(f.col(name), lanes).cast("int") for name in ("shard", "route")}
        #: rows of an Arrow batch, as the last epoch's records allow
        self.rows_of_a_batch = FIRST_ROWS
        self._columns: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Any]] = {}

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""
        return self._cores

    def run(self, orders: Orders, ranges: Iterable[Range]) -> pa.Table:
        """Run an epoch; return what left the lanes, as envelope rows."""
        with _telling_why():
            self._join_group()
            # for every epoch: applications that share a session have rows of different sizes
            self._session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(self.rows_of_a_batch))
            rows = unpacked(self._plan(orders, list(ranges)).toArrow())
        self._fit(rows)
        return rows

    def restore(self, orders: Orders) -> pa.Table:
        """Bring every shard to the last barrier, in parallel; return the reports of the lanes."""
        with _telling_why():
            frame = self._lanes_of(self._nothing())
            bring = _restoring(self._broadcast, self._identity, encode_orders(orders))
            return unpacked(frame.mapInArrow(bring, PARCEL).toArrow())

    def cancel(self) -> None:
        """Let an epoch that runs in another thread fail now."""
        self._session.sparkContext.cancelJobGroup(self._identity)

    def _join_group(self) -> None:
        """Mark the jobs of this thread as ours, so that they can be cancelled and others are not."""
        if self._thread is not threading.current_thread():
            self._thread = threading.current_thread()
            said = f"penstock {self._stage.application_id}"
            self._session.sparkContext.setJobGroup(self._identity, said, interruptOnCancel=True)

    def close(self) -> None:
        """Let go of the broadcast; the session stays."""
        self._broadcast.destroy(blocking=False)

    def _fit(self, rows: pa.Table) -> None:
        """Let the next epoch's batches hold as many rows as the records of this one allow."""
        reports = [decode_report(data) for data in rows.filter(pc.equal(rows["kind"], NOTE))["value"].to_pylist()]
        count, size = sum(report.records for report in reports), sum(report.size for report in reports)
        if count:
            self.rows_of_a_batch = max(1, min(MOST_ROWS, BATCH_BYTES * count // max(size, 1)))

    def _plan(self, orders: Orders, ranges: list[Range]) -> Any:
        data = encode_orders(orders)
        first = self._stage.plan.steps[0]
        frame = self._read(ranges, orders.topics) if ranges else self._nothing()
        if ranges and first.timed and first.exchange and self._stage.shards > 1:
            schema = MARKED if self._stage.asks_for_marks else TOLD
            frame = frame.mapInArrow(_telling(self._broadcast, self._identity, data), schema)
        last = self._stage.plan.steps[-1].level
        for step in self._stage.plan.steps:
            if step.exchange:
                frame = self._lanes_of(frame)
            run = _stepping(self._broadcast, self._identity, data, step.level, last=step.level == last)
            frame = frame.mapInArrow(run, PARCEL if step.level == last else ENVELOPE)
        return frame

    def _lanes_of(self, frame: Any) -> Any:
        """Send every row to its lane."""
        lane = self._lane["shard" if "shard" in frame.columns else "route"]
        return frame.repartitionById(self._stage.lanes, lane)

    def _read(self, ranges: list[Range], topics: tuple[str, ...]) -> Any:
        for name, value in _range_options(ranges).items():
            self._reader.option(name, value)
        read = tuple(sorted({r.topic for r in ranges}))
        frame = self._reader.load().select(*self._raw_columns(read, topics))
        first = self._stage.plan.steps[0]  # calls are bounded per lane
        most = min(self._cores, self._stage.lanes) if first.waits and not first.exchange else self._cores
        return frame.coalesce(most) if len(ranges) > most else frame

    def _raw_columns(self, read: tuple[str, ...], topics: tuple[str, ...]) -> list[Any]:
        """Return the columns of a raw row; made once, because each part of an expression is a call to the JVM.

        Numbers where they will do: every column costs on its way through the exchange and into Python, a text most.
        """
        if (read, topics) not in self._columns:
            from pyspark.sql import functions as f

            shards, topic = f.lit(self._stage.shards), f.col("topic")
            shard = f.coalesce(f.pmod(f.crc32("key"), shards), f.pmod(f.col("partition"), shards)).cast("int")
            gathered = self._gathered(read)
            if gathered:
                shard = f.when(topic.isin(*gathered), f.lit(0)).otherwise(shard)
            number = f.lit(topics.index(read[-1]) * PARTITIONS)
            for name in read[:-1]:
                number = f.when(topic == name, f.lit(topics.index(name) * PARTITIONS)).otherwise(number)
            # as text: nested columns cross into Python at 30 µs a row
            headers = f.when(f.size("headers") > 0, f.to_json("headers"))
            self._columns[read, topics] = [
                shard.alias("shard"),
                (number + f.col("partition")).cast("int").alias("place"),
                *(f.col(name) for name in ("offset", "key", "value")),
                f.unix_millis("timestamp").alias("timestamp"),
                headers.alias("headers"),
            ]
        return self._columns[read, topics]

    def _gathered(self, topics: tuple[str, ...]) -> tuple[str, ...]:
        """Return the topics whose records all go to one shard."""
        if not self._stage.plan.one_shard:
            return ()
        one = [self._stage.sources[name] for name in self._stage.plan.one_shard]
        return tuple(
            sorted(t for t in topics if any(t in n.topics or (n.pattern and n.pattern.fullmatch(t)) for n in one))
        )

    def _nothing(self) -> Any:
        return self._session.createDataFrame([], RAW)


def _range_options(ranges: list[Range]) -> dict[str, str]:
    assign: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for topic, partition, start, end in ranges:
        assign.setdefault(topic, []).append(partition)
        starts.setdefault(topic, {})[str(partition)] = start
        ends.setdefault(topic, {})[str(partition)] = end
    return {"assign": json.dumps(assign), "startingOffsets": json.dumps(starts), "endingOffsets": json.dumps(ends)}


def _import_paths() -> list[str]:
    """Return where this program imports from: a worker must find the user's modules, too."""
    return [os.path.abspath(path or ".") for path in sys.path if not path or os.path.isdir(path)]


@contextmanager
def _telling_why() -> Iterator[None]:
    """Raise what fails inside Spark as an ``EngineError``: a second run may mend it, unless the JVM itself is gone."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise EngineError(f"Spark could not run the epoch: {_gist(error)}") from error
    except (Py4JError, ConnectionError) as error:
        raise EngineError(
            f"Spark's JVM has ended: {_gist(error)}. Start the application again", passing=False
        ) from error


def _gist(error: Exception) -> str:
    """Say in a few lines what went wrong inside Spark."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Caused by" in line or "Error" in line or "Exception" in line]
    return " | ".join((telling or lines)[:3])[:1500].lstrip(": ")


# ---- what travels to the workers

_Batches = Iterator[pa.RecordBatch]


def _stepping(broadcast: Any, identity: str, orders: bytes, level: int, last: bool) -> Callable[[_Batches], _Batches]:
    def step(batches: _Batches) -> _Batches:
        from pyspark import TaskContext

        from penstock.lane.orders import decode_orders
        from penstock.lane.parcel import packed
        from penstock.lane.run import run_step
        from penstock.lane.worker import worker_for

        task = TaskContext.get()
        assert task is not None
        worker = worker_for(identity, lambda: broadcast.value)
        rows = run_step(worker, decode_orders(orders), level, task.partitionId(), batches)
        return packed(rows) if last else rows

    return step


def _telling(broadcast: Any, identity: str, orders: bytes) -> Callable[[_Batches], _Batches]:
    def tell(batches: _Batches) -> _Batches:
        from penstock.lane.orders import decode_orders
        from penstock.lane.run import tell_times
        from penstock.lane.worker import worker_for

        return tell_times(worker_for(identity, lambda: broadcast.value), decode_orders(orders), batches)

    return tell


def _restoring(broadcast: Any, identity: str, orders: bytes) -> Callable[[_Batches], _Batches]:
    def bring(batches: _Batches) -> _Batches:
        from pyspark import TaskContext

        from penstock.lane.orders import decode_orders
        from penstock.lane.parcel import packed
        from penstock.lane.run import restore_lane
        from penstock.lane.worker import worker_for

        task = TaskContext.get()
        assert task is not None
        list(batches)
        worker = worker_for(identity, lambda: broadcast.value)
        return packed(restore_lane(worker, decode_orders(orders), task.partitionId()))

    return bring
