"""Spark's session: starts the JVM with the settings that the engine rests on, and says in a few lines what fails inside Spark."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from penstock.dev.java import java_home
from penstock.engine.executor import choice
from penstock.engine.executor.jvm_stderr import JvmStderr
from penstock.errors import EngineError, SparkEnded
from penstock.freed_memory import ENVIRONMENT
from penstock.masking import is_secret, remember, scrubbed

logger = logging.getLogger("penstock.engine")

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


def make_session(master: str, name: str, settings: Mapping[str, str] | None = None, executor: str = choice.AUTO) -> Any:
    """Start Spark, or join what runs at ``master``. ``executor``: the setting; ``spark`` starts by public names alone."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers run what the driver runs
    from pyspark import __version__
    from pyspark.sql import SparkSession

    public = choice.chosen(executor, __version__) == choice.SPARK
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
    if public:
        options["spark.driver.extraJavaOptions"] += f" {LEAVES_SIGNALS_ALONE}"
    remember(options)
    for key, value in options.items():
        builder = builder.config(key, value)
    if public:
        with _stop_signals_blocked():
            return _quietly(lambda: _launch_publicly(options), builder.getOrCreate, master)
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


def _launch_publicly(options: Mapping[str, str]) -> None:
    """Start the JVM by public names, unless there is one. What it says is not kept: it goes to standard error.

    PySpark starts it with all options on its command line, which everybody on this machine can read. So where some are secret a
    context without them comes first, and the session gets them when the JVM is there.
    """
    from pyspark import SparkConf, SparkContext

    shown = {name: value for name, value in options.items() if not is_secret(name)}
    if len(shown) < len(options):
        conf = SparkConf(loadDefaults=False).setAll([*shown.items(), ("spark.master", "local[1]")])
        with suppress(ValueError):  # there is a context: so there is a JVM
            SparkContext(conf=conf).stop()


#: a JVM with this option does not unblock the signals that are blocked when it starts
LEAVES_SIGNALS_ALONE = "-Xrs"


@contextmanager
def _stop_signals_blocked() -> Iterator[None]:
    """Block the signals to stop in this thread: what it starts inherits that (see ``_leave_stopping_to_the_driver``)."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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


def stop_session(session: Any) -> None:
    """Stop Spark; a JVM that has ended by itself needs no more."""
    from py4j.protocol import Py4JError

    _let_accumulators_end(session)
    try:
        session.stop()
    except (Py4JError, ConnectionError) as error:
        logger.warning("Spark could not be stopped: %s", _gist(error))


def _let_accumulators_end(session: Any) -> None:
    """Keep PySpark's accumulator server quiet: a job that ends with Spark resets its connection, which it would print as a traceback."""
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: logger.debug("a connection of Spark's accumulators was reset", exc_info=True)


@contextmanager
def raising_engine_errors() -> Iterator[None]:
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


def _gist(error: Exception) -> str:
    """Explain in a few lines what went wrong inside Spark."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Caused by" in line or "Error" in line or "Exception" in line]
    return " | ".join((telling or lines)[:3])[:1500].lstrip(": ")
