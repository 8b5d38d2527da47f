"""Spark: the only file that knows it. An epoch is one job. One of few records is inline (``inline_epochs``): a resident task
runs it (``resident``). Of others the job is made of the steps of the plan::

    read exactly the ranges (``lane.kafka_input``)                                [Python, in the reading tasks]
    ─ tell the times of the records, if the first step needs them
    ─ exchange by lane, unless the first step runs where it reads            [JVM]
    ─ step 0, exchange, step 1, ...                                          [Python, in the lanes]
    envelope rows to the driver

All rows go in chunks: Spark would take every one of them apart, and put it together again. Where the tasks share a machine it moves
their names only (``protocol.chunk``, ``engine.executor.shuffle_folder``).

What travels to the workers is the name of a function (``lane.entry``), a broadcast, and bytes; what they run knows no Spark. There are no
DataFrames: to analyse, plan and compile one takes longer than many an epoch (docs/decisions/0020).
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import shutil
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc

from penstock.clock import stopwatch_us
from penstock.dev.java import java_home
from penstock.engine.executor.inline_epochs import InlineEpochs
from penstock.engine.executor.jvm_stderr import JvmStderr
from penstock.engine.executor.resident import ResidentTasks
from penstock.engine.executor.shuffle_folder import ShuffleFolder
from penstock.engine.offsets import Range
from penstock.errors import EngineError, SparkEnded
from penstock.freed_memory import ENVIRONMENT
from penstock.lane import entry
from penstock.log.kafka import KafkaLog
from penstock.masking import is_secret, remember, scrubbed
from penstock.protocol.channel import Part
from penstock.protocol.chunk import unpacked
from penstock.protocol.envelope import NOTE
from penstock.protocol.request import EpochRequest, Stage, decode_report, encode_request

logger = logging.getLogger("penstock.engine")

#: how long the records of an inline epoch are waited for: an unreachable cluster is waited for by the loop, which can be stopped
READ_SECONDS = 10.0

#: the name of a socket has 107 bytes at most, and its last part 42
LONGEST_FOLDER = 64

#: settings that the engine rests on, and those that make small jobs quick
SETTINGS = {
    "spark.python.worker.reuse": "true",
    # over TCP each end holds its last small packet back until the other has acknowledged one: 40 ms a task
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.task.maxFailures": "1",  # the epoch is run again, not a part of it
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.shuffle.checksum.enabled": "false",  # sums for stages that are run again: here the whole epoch is
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.rpc.message.maxSize": "512",
    "spark.driver.maxResultSize": "0",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.log.level": "FATAL",  # what fails comes back as an error, in a few lines
}

#: Spark is so much code that compiling what is only warm takes more time, for minutes, than the records do: the optimising
#: compiler gets what is hot by ten times its usual measure (docs/decisions/0016). Without memory the JVM ends: if one of
#: Spark's threads were lost, its job would never end
JVM = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:+ExitOnOutOfMemoryError -XX:+DisplayVMOutputToStderr "
    "-XX:+UseParallelGC -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)


def make_session(master: str, name: str, settings: Mapping[str, str] | None = None) -> Any:
    """Start Spark, or join what runs at ``master``."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers run what the driver runs
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    options = SETTINGS | {f"spark.executorEnv.{name}": value for name, value in ENVIRONMENT.items()}
    options |= {
        "spark.master": master,
        "spark.app.name": name,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": JVM,
        "spark.executor.extraJavaOptions": JVM,
    }
    if master.startswith("local"):
        # a worker runs whatever comes over its socket: who may open it is who may enter the folder. Shuffle files are records
        options |= dict.fromkeys(("spark.python.unix.domain.socket.dir", "spark.local.dir"), _private_folder())
    else:
        for key in ("spark.driver.host", "spark.driver.bindAddress"):
            options.pop(key)
    options |= dict(settings or {})
    remember(options)
    for key, value in options.items():
        builder = builder.config(key, value)
    return _quietly(lambda: _launch(options), builder.getOrCreate, master)


def _private_folder() -> str:
    """Make a folder that is the user's alone, for as long as this process lives; its name must leave room for that of a socket."""
    folder = tempfile.mkdtemp(prefix="penstock-spark-")
    if len(folder) > LONGEST_FOLDER:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="penstock-spark-", dir="/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


#: of the one JVM of this process, if it was started here
_jvm_stderr: JvmStderr | None = None


def _launch(options: Mapping[str, str]) -> None:
    """Start the JVM, unless there is one; what it says goes through ``_jvm_stderr``."""
    global _jvm_stderr
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    _jvm_stderr = JvmStderr()
    try:
        # these are on a command line, which everybody on this machine can read; secrets come when Spark is asked for
        shown = [(name, value) for name, value in options.items() if not is_secret(name)]
        conf = SparkConf(loadDefaults=False).setAll(shown)
        given = _LaunchArguments(stderr=_jvm_stderr.writing_end, preexec_fn=_leave_stopping_to_the_driver)
        gateway = launch_gateway(conf, given)  # type: ignore[no-untyped-call]
    finally:
        _jvm_stderr.close_writing_end()
    SparkContext._ensure_initialized(gateway=gateway)


#: what asks a program to end: the driver alone answers
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _leave_stopping_to_the_driver() -> None:
    """Let the JVM, and the Python workers that it starts, live on when all processes are asked to end: by Ctrl-C, systemd, ``docker stop``.

    The driver ends at a barrier, for which it needs them, and they end with it: the JVM when its standard input is closed, the workers
    with the JVM. A JVM leaves signals alone that were ignored when it started; its children inherit that they are blocked, and so do
    processes that a user's function starts.
    """
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


class _LaunchArguments(dict[str, Any]):
    """Arguments of ``Popen`` whose ``preexec_fn`` stays: PySpark would put its own there, which lets SIGTERM through."""

    def __setitem__(self, name: str, value: Any) -> None:
        if name != "preexec_fn":
            super().__setitem__(name, value)


def _quietly(launch: Callable[[], None], make: Callable[[], Any], master: str) -> Any:
    """Start Spark without showing its standard error; say in a few lines why, if it does not start."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    if _jvm_stderr is not None:
        _jvm_stderr.hush()
    try:
        launch()
        session = make()
    except (PySparkException, Py4JError) as error:
        said = _jvm_stderr.last_words() if _jvm_stderr is not None and "GATEWAY_EXITED" in str(error) else _gist(error)
        raise EngineError(scrubbed(f"Spark did not start at {master}: {said}")) from error
    if _jvm_stderr is not None:
        _jvm_stderr.listen_after(session.sparkContext._jvm.java.lang.System.err.println)
    return session


logger = logging.getLogger("penstock.engine")


class SparkLanes:
    """Runs epochs as Spark jobs."""

    def __init__(self, session: Any, stage: Stage, log: KafkaLog, inline_epoch_records: int) -> None:
        from pyspark import cloudpickle

        self._session = session
        self._staging: ShuffleFolder | None = None
        #: whether an epoch has left files there
        self._staged = False
        if session.sparkContext.master.startswith("local"):
            self._staging = ShuffleFolder(
                Path(os.environ.get("PENSTOCK_STATE_DIR") or stage.state_dir) / stage.application_id
            )
            stage = replace(stage, staging=str(self._staging.folder))
        self._stage = stage
        self._cores = max(1, int(session.sparkContext.defaultParallelism))
        data = pickle.dumps((_import_paths(), cloudpickle.dumps(stage)))  # type: ignore[no-untyped-call]
        self._broadcast = session.sparkContext.broadcast(data)
        self._identity = uuid.uuid4().hex
        self._threads: WeakSet[threading.Thread] = WeakSet()
        #: microseconds of the last epoch in the driver, while the lanes run, by phase
        self.spent: dict[str, int] = {}
        self.inline_epochs = InlineEpochs(stage, log.ranges(timeout=READ_SECONDS), inline_epoch_records)
        self._jobs = _Jobs(session.sparkContext, self._broadcast, stage.lanes)
        #: whether user code keeps resources in workers
        self._has_resources = False
        #: the resident tasks of this machine, which run inline epochs
        self._resident: ResidentTasks | None = None
        if self._staging is not None:
            self._resident = ResidentTasks(self._serve, min(self._cores, stage.lanes))

    @property
    def parallelism(self) -> int:
        """How many tasks run at a time."""
        return self._cores

    def run(self, request: EpochRequest, ranges: Iterable[Range]) -> pa.Table:
        """Run an epoch; return what left the lanes, as envelope rows."""
        ranges = list(ranges)
        since = stopwatch_us()
        parts = self.inline_epochs.write(request, ranges)
        self.spent = {"read": stopwatch_us() - since}
        with _telling_why(), self._tidying():
            chunks = self._run(request, ranges) if parts is None else self._run_inline(request, parts)
            since = stopwatch_us()
            rows = unpacked(chunks)
            self.spent["collect"] = stopwatch_us() - since
        reports = [decode_report(data) for data in rows.filter(pc.equal(rows["kind"], NOTE))["value"].to_pylist()]
        self.inline_epochs.learn(reports)
        self._has_resources = self._has_resources or any(report.resources for report in reports)
        return rows

    def follow(self, request: EpochRequest) -> None:
        """Let resident tasks bring their shards to a barrier meanwhile."""
        if self._resident is not None:
            self._resident.notify(encode_request(request))

    def restore(self, request: EpochRequest) -> pa.Table:
        """Bring every shard to the last barrier, in parallel; return the reports of the lanes."""
        with _telling_why():
            return unpacked(self._jobs.run(self._stage.lanes, [self._given(entry.restore, request)]))

    def _run(self, request: EpochRequest, ranges: list[Range]) -> list[bytes]:
        if self._staging is not None:
            self._staging.sweep()
            self._staged = True
        if self._resident is not None:
            self._resident.dismiss()
        self._join_group()
        parts = self._shared_out(ranges)
        return self._jobs.run(len(parts), self._functions(request, parts))

    def _run_inline(self, request: EpochRequest, parts: list[Part]) -> list[bytes]:
        if self._staging is not None and self._staged:  # by the last large epoch, which is over
            self._staging.clear()
            self._staged = False
        if self._resident is not None:
            return self._resident.run(encode_request(request), parts)
        self._join_group()
        return self._jobs.run(1, [self._given(entry.inline_epoch, request, parts)])

    def _serve(self, address: str) -> None:
        """Run the job of a resident task."""
        self._join_group()
        self._jobs.run(1, [partial(entry.serve, self._broadcast, self._identity, address)])

    def _shared_out(self, ranges: list[Range]) -> list[list[Range]]:
        first = self._stage.plan.steps[0]  # calls are bounded per lane
        most = min(self._cores, self._stage.lanes) if first.waits and not first.exchange else self._cores
        return shared_out(ranges, most)

    def _functions(self, request: EpochRequest, parts: list[list[Range]]) -> list[Callable[..., Any]]:
        """Return what an epoch runs, one after the other, each before an exchange but the last."""
        steps = self._stage.plan.steps
        reading = [self._given(entry.read, request, parts)] if steps[0].exchange else []
        return reading + [
            self._given(entry.run, request, step.level, None if step.exchange else parts) for step in steps
        ]

    def _given(self, function: Callable[..., Any], request: EpochRequest, *given: Any) -> Callable[..., Any]:
        return partial(function, self._broadcast, self._identity, encode_request(request), *given)

    def cancel(self) -> None:
        """Let an epoch that runs in another thread fail now."""
        self._session.sparkContext.cancelJobGroup(self._identity)

    def _join_group(self) -> None:
        """Mark the jobs of this thread as ours, so that they can be cancelled and others are not."""
        if threading.current_thread() not in self._threads:
            self._threads.add(threading.current_thread())
            said = f"penstock {self._stage.application_id}"
            self._session.sparkContext.setJobGroup(self._identity, said, interruptOnCancel=True)

    def close(self) -> None:
        """Let go of the broadcast; the session stays."""
        if self._resident is not None:
            self._resident.close()
        if self._has_resources:
            self._release_resources()
        self._broadcast.destroy(blocking=False)
        if self._staging is not None:
            self._staging.close()

    def _release_resources(self) -> None:
        """Have the workers close what user code keeps in them. One that Spark has ended meanwhile is not reached: it was killed."""
        meeting = None if self._staging is None else str(self._staging.folder)
        try:
            with _telling_why():
                self._jobs.run(self._cores, [partial(entry.release, self._identity, meeting, self._cores)])
        except EngineError as error:
            logger.warning("resources of processors are not closed: %s", error)

    @contextmanager
    def _tidying(self) -> Iterator[None]:
        """Delete what an epoch that fails leaves behind."""
        try:
            yield
        except BaseException:
            if self._staging is not None:
                self._staging.clear()
            raise


def shared_out(ranges: Iterable[Range], most: int) -> list[list[Range]]:
    """Return ranges in at most so many parts of about the same size; one at least.

    >>> shared_out([Range("a", 0, 0, 5), Range("a", 1, 0, 3), Range("a", 2, 0, 3)], 2)
    [[('a', 0, 0, 5)], [('a', 1, 0, 3), ('a', 2, 0, 3)]]
    """
    parts: list[list[Any]] = [[]]
    sizes = [0]
    for one in sorted(ranges, key=lambda r: r.end - r.start, reverse=True):
        least = min(range(len(parts)), key=sizes.__getitem__)
        if sizes[least] and len(parts) < most:
            parts.append([])
            sizes.append(0)
            least = len(parts) - 1
        parts[least].append(tuple(one))
        sizes[least] += one.end - one.start
    return parts


class _Jobs:
    """Runs functions in tasks, as ``mapPartitionsWithIndex(...).partitionBy(...)....collect()`` does.

    That asks the JVM some thirty questions for each function, half a millisecond each; most of the answers are always the same.
    A function is called with the number of the task and with what comes to it: numbers that mean nothing, or bytes.
    """

    def __init__(self, context: Any, broadcast: Any, lanes: int) -> None:
        from py4j.java_collections import ListConverter, MapConverter  # type: ignore[import-untyped]
        from pyspark.serializers import NoOpSerializer

        client = context._gateway._gateway_client
        self._context, self._jvm, self._bytes = context, context._jvm, NoOpSerializer()
        self._surroundings = (
            MapConverter().convert(context.environment, client),
            ListConverter().convert(context._python_includes, client),
            context.pythonExec,
            context.pythonVer,
            ListConverter().convert([broadcast._jbroadcast], client),
            context._javaAccumulator,
        )
        self._by_lane = self._jvm.PythonPartitioner(lanes, 0)
        self._tasks: dict[int, tuple[Any, Any]] = {}

    def run(self, tasks: int, functions: Sequence[Callable[[int, Iterable[Any]], Iterable[bytes]]]) -> list[bytes]:
        """Return what the last function returns in all tasks. Of others it goes to a lane each: (lane, bytes) in turn."""
        from pyspark.util import _load_from_socket

        if tasks not in self._tasks:
            rows = self._context.parallelize(list(range(tasks)), tasks)
            self._tasks[tasks] = rows._jrdd.rdd(), rows._jrdd_deserializer
        *earlier, last = functions
        coming, codec = self._tasks[tasks]
        for function in earlier:
            pairs = self._jvm.PairwiseRDD(self._called(coming, codec, function)).asJavaPairRDD()
            coming, codec = self._jvm.PythonRDD.valueOfPair(pairs.partitionBy(self._by_lane)).rdd(), self._bytes
        where = self._jvm.PythonRDD.collectAndServe(self._called(coming, codec, last))
        with _load_from_socket(where, self._bytes) as answers:
            return list(answers)

    def _called(self, coming: Any, codec: Any, function: Callable[..., Any]) -> Any:
        command = pickle.dumps((function, None, codec, self._bytes))
        self._context._pickled_broadcast_vars.clear()  # who pickles a broadcast is on the list of what a job needs: see above
        return self._jvm.PythonRDD(
            coming, self._jvm.SimplePythonFunction(bytearray(command), *self._surroundings), False, False
        )


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
    except MemoryError as error:
        raise EngineError(f"the driver ran out of memory: {error}") from error
    except (Py4JError, ConnectionError) as error:
        raise SparkEnded(f"Spark's JVM has ended: {_why_ended(error)}. Start the application again") from error


def _why_ended(error: Exception) -> str:
    if _jvm_stderr is not None and _jvm_stderr.ran_out_of_memory():
        return "it ran out of memory. Give it more (spark.driver.memory), or let epochs be smaller (max_epoch_bytes)"
    return _gist(error)


def stop_session(session: Any) -> None:
    """Stop Spark; a JVM that has ended by itself needs no more."""
    from py4j.protocol import Py4JError

    try:
        session.stop()
    except (Py4JError, ConnectionError) as error:
        logger.warning("Spark could not be stopped: %s", _gist(error))


def _gist(error: Exception) -> str:
    """Say in a few lines what went wrong inside Spark."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Caused by" in line or "Error" in line or "Exception" in line]
    return " | ".join((telling or lines)[:3])[:1500].lstrip(": ")
