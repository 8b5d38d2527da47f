"""Spark: the only file that builds DataFrames. An epoch is one job. One of few records is a letter (``engine.letters``): one task does
all of it, without a plan. Of others the plan is that of the steps::

    kafka source of exactly the ranges                                       [JVM]
    ─ tell the times of the records, if the first step needs them            [Python, in the reading tasks]
    ─ exchange by lane, unless the first step runs where it reads            [JVM]
    ─ step 0, exchange, step 1, ...                                          [Python, in the lanes]
    envelope rows to the driver, in parcels

What leaves Python to enter it again goes in parcels, too: Spark takes every row apart, and puts it together again.

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
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.dev.jars import SPARK_CONNECTOR, resolve
from penstock.dev.java import java_home
from penstock.engine.chatter import Chatter
from penstock.engine.letters import Letters, gathered_topics
from penstock.engine.offsets import Range
from penstock.errors import EngineError
from penstock.lane.envelope import NOTE
from penstock.lane.inbox import PARTITIONS
from penstock.lane.letter import open_letter, open_restore
from penstock.lane.orders import Orders, Report, Stage, decode_report, encode_orders
from penstock.lane.parcel import unpacked, unpacked_bytes
from penstock.log.kafka import KafkaLog

#: rows of an Arrow batch on its way into Python: larger ones are slower to make; fewer while rows are large or not known yet
MOST_ROWS, FIRST_ROWS, BATCH_BYTES = 10_000, 500, 1 << 26
PARCEL = "parcel binary"
ADDRESSED = "lane int, final boolean, parcel binary"
#: how long a letter's records are waited for: a cluster that is away is waited for by the loop, which says so and can be stopped
READ_SECONDS = 10.0
RAW = "shard int, place int, offset bigint, key binary, value binary, timestamp bigint, headers string"

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
    # over TCP each end holds its last small packet back until the other has acknowledged one: 40 ms a task
    "spark.python.unix.domain.socket.enabled": "true",
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

    def __init__(self, session: Any, stage: Stage, log: KafkaLog, letter_records: int) -> None:
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
            **log.connection.spark_options(),  # what the user says wins over these, but not over what follows
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
        #: the lane of a parcel, and of a raw row
        self._lane = {True: f.col("lane"), False: f.pmod(f.col("shard"), f.lit(stage.lanes)).cast("int")}
        #: rows of an Arrow batch, as the last epoch's records allow
        self.rows_of_a_batch = FIRST_ROWS
        self._columns: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Any]] = {}
        self.letters = Letters(stage, log.ranges(timeout=READ_SECONDS), letter_records)
        self._calls: dict[int, _Call] = {}

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""
        return self._cores

    def run(self, orders: Orders, ranges: Iterable[Range]) -> pa.Table:
        """Run an epoch; return what left the lanes, as envelope rows."""
        ranges = list(ranges)
        letter = self.letters.write(orders, ranges)
        with _telling_why():
            self._join_group()
            rows = self._frame(orders, ranges) if letter is None else self._send(open_letter, 1, orders, letter)
        reports = [decode_report(data) for data in rows.filter(pc.equal(rows["kind"], NOTE))["value"].to_pylist()]
        self.letters.learn(reports)
        self._fit(reports)
        return rows

    def restore(self, orders: Orders) -> pa.Table:
        """Bring every shard to the last barrier, in parallel; return the reports of the lanes."""
        with _telling_why():
            return self._send(open_restore, self._stage.lanes, orders)

    def _send(self, function: Callable[..., list[bytes]], tasks: int, orders: Orders, *given: bytes) -> pa.Table:
        """Call a function in so many tasks; return the rows of the parcels that it returns."""
        if tasks not in self._calls:
            self._calls[tasks] = _Call(self._session.sparkContext, self._broadcast, tasks)
        parcels = self._calls[tasks](partial(function, self._broadcast, self._identity, encode_orders(orders), *given))
        return unpacked_bytes(parcels)

    def _frame(self, orders: Orders, ranges: list[Range]) -> pa.Table:
        # for every epoch: applications that share a session have rows of different sizes
        self._session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(self.rows_of_a_batch))
        return unpacked(self._plan(orders, ranges).toArrow())

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

    def _fit(self, reports: list[Report]) -> None:
        """Let the next epoch's batches hold as many rows as the records of this one allow."""
        count, size = sum(report.records for report in reports), sum(report.size for report in reports)
        if count:
            self.rows_of_a_batch = max(1, min(MOST_ROWS, BATCH_BYTES * count // max(size, 1)))

    def _plan(self, orders: Orders, ranges: list[Range]) -> Any:
        data = encode_orders(orders)
        first = self._stage.plan.steps[0]
        frame = self._read(ranges, orders.topics) if ranges else self._nothing()
        *_, last = self._stage.plan.steps
        in_parcels = bool(ranges) and first.timed and first.exchange and self._stage.shards > 1
        if in_parcels:
            frame = frame.mapInArrow(_sorting(self._broadcast, self._identity, data), ADDRESSED)
        for step in self._stage.plan.steps:
            if step.exchange:  # every row to its lane, or every parcel of rows
                frame = frame.repartitionById(self._stage.lanes, self._lane[in_parcels])
            run = _stepping(self._broadcast, self._identity, data, step.level, opened=in_parcels, last=step is last)
            frame = frame.mapInArrow(run, PARCEL if step is last else ADDRESSED)
            in_parcels = True
        return frame

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
            gathered = gathered_topics(self._stage, read)
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

    def _nothing(self) -> Any:
        return self._session.createDataFrame([], RAW)


class _Call:
    """A job that calls a function in a number of tasks, as ``mapPartitionsWithIndex(...).collect()`` does.

    That asks the JVM some thirty questions, half a millisecond each; all but three of the answers are always the same.
    """

    def __init__(self, context: Any, broadcast: Any, tasks: int) -> None:
        from py4j.java_collections import ListConverter, MapConverter  # type: ignore[import-untyped]
        from pyspark.serializers import NoOpSerializer

        rows = context.parallelize(list(range(tasks)), tasks)
        client = context._gateway._gateway_client
        self._context = context
        self._rows = rows._jrdd.rdd()
        self._codecs = None, rows._jrdd_deserializer, NoOpSerializer()
        self._surroundings = (
            MapConverter().convert(context.environment, client),
            ListConverter().convert(context._python_includes, client),
            context.pythonExec,
            context.pythonVer,
            ListConverter().convert([broadcast._jbroadcast], client),
            context._javaAccumulator,
        )
        self._function, self._job = context._jvm.SimplePythonFunction, context._jvm.PythonRDD

    def __call__(self, function: Callable[[int, Iterable[Any]], list[bytes]]) -> list[bytes]:
        """Return what the function returns in all tasks."""
        from pyspark.util import _load_from_socket

        command = pickle.dumps((function, *self._codecs))
        self._context._pickled_broadcast_vars.clear()  # who pickles a broadcast is on the list of what a job needs: see above
        called = self._function(bytearray(command), *self._surroundings)
        where = self._job.collectAndServe(self._job(self._rows, called, False, False))
        with _load_from_socket(where, self._codecs[-1]) as answers:
            return list(answers)


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


def _stepping(
    broadcast: Any, identity: str, orders: bytes, level: int, *, opened: bool, last: bool
) -> Callable[[_Batches], _Batches]:
    def step(batches: _Batches) -> _Batches:
        from pyspark import TaskContext

        from penstock.lane import exchange
        from penstock.lane.orders import decode_orders
        from penstock.lane.parcel import packed
        from penstock.lane.run import run_step
        from penstock.lane.worker import worker_for

        task = TaskContext.get()
        assert task is not None
        worker = worker_for(identity, lambda: broadcast.value)
        final: list[bytes] = []
        coming = exchange.opened(batches, final) if opened else batches
        rows = run_step(worker, decode_orders(orders), level, task.partitionId(), coming)
        return packed(rows, final) if last else exchange.addressed(rows, worker.stage.lanes, final)

    return step


def _sorting(broadcast: Any, identity: str, orders: bytes) -> Callable[[_Batches], _Batches]:
    def sort(batches: _Batches) -> _Batches:
        from penstock.lane.exchange import addressed
        from penstock.lane.orders import decode_orders
        from penstock.lane.run import tell_times
        from penstock.lane.worker import worker_for

        worker = worker_for(identity, lambda: broadcast.value)
        return addressed(tell_times(worker, decode_orders(orders), batches), worker.stage.lanes)

    return sort
