"""A Spark standalone cluster on this machine, for tests and laptops: one master, some workers, from the PySpark wheel.

    with Cluster(workers=2, environments=[{"PENSTOCK_STATE_DIR": "/a"}, {"PENSTOCK_STATE_DIR": "/b"}]) as cluster:
        ...  # SparkSession.builder.config(map=cluster.settings)

Each worker stands for a machine. It runs one executor of an application, in an environment of its own: what is given for
it is seen by the executor and by its Python workers (unless the application sets the same name by ``spark.executorEnv``).
Its files are below one temporary folder, with the logs, until the cluster is stopped. `kill_worker` is the loss of a
machine: worker, executor and Python workers end at once. No process is left behind: `dev/watch.py` sees to it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from penstock.clock import SystemClock
from penstock.dev import server
from penstock.dev.jars import spark_home
from penstock.dev.java import java_home
from penstock.dev.watch import Watch, await_end, kill_session
from penstock.errors import PenstockError

HOST = "127.0.0.1"
#: master and workers do little: a short start is worth more to them than fast code
_FRUGAL = f"{server.QUICK_START} -XX:+UseSerialGC"


class ClusterFailed(PenstockError):
    """The Spark cluster could not be started, or a part of it died. The message says why."""


class Cluster:
    """A master and its workers as child processes. ``start`` and ``stop`` them, or use it as a context manager.

    A worker offers ``cores`` and ``memory_mb`` to an application, which takes all of them for one executor.
    ``environments``: none, or one for each worker; they are added to the environment of this process.
    """

    def __init__(
        self,
        workers: int = 2,
        cores: int = 1,
        memory_mb: int = 1024,
        environments: Sequence[Mapping[str, str]] = (),
        *,
        start_timeout: float = 60,
    ) -> None:
        if environments and len(environments) != workers:
            raise ClusterFailed(f"{len(environments)} environments for {workers} workers: give one for each, or none")
        self.workers = workers
        self.cores = cores
        self.memory_mb = memory_mb
        self.folder: Path | None = None
        self._environments = [dict(given) for given in environments] or [{} for _ in range(workers)]
        self._timeout_ms = int(start_timeout * 1000)
        self._port, self._web_port = 0, 0
        self._watch: Watch | None = None
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []

    @property
    def master(self) -> str:
        """What an application is given to find the cluster: ``spark://host:port``."""
        if self._master is None:
            raise ClusterFailed("the Spark cluster does not run: start it first")
        return f"spark://{HOST}:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """What a session needs to take the whole cluster, and to begin when every executor is there.

        PySpark reads the Python of the workers from the environment variable PYSPARK_PYTHON, which must be set before the
        session is made.
        """
        return {
            "spark.master": self.master,
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.cores.max": str(self.workers * self.cores),
            "spark.executor.cores": str(self.cores),
            "spark.executor.memory": f"{self.memory_mb}m",
            "spark.pyspark.python": sys.executable,
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        }

    @property
    def worker_pids(self) -> list[int | None]:
        """The process ids of the workers; None for one that was killed."""
        return [worker.pid if worker.poll() is None else None for worker in self._workers]

    def start(self) -> Cluster:
        """Start the master, then all workers, and return when they have found each other."""
        if self._master is not None:
            return self
        self._port, self._web_port = server.free_ports(HOST, 2)
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-spark-"))
        self._watch = Watch(self.folder)
        try:
            self._master = self._launch_master()
            self._await([], lambda: self._living_workers() == 0)
            self._workers = [self._launch_worker(number) for number in range(self.workers)]
            self._await_workers()
        except BaseException:
            self.stop(timeout=0)
            raise
        return self

    def stop(self, timeout: float = 10) -> None:
        """End all in order (SIGTERM; after ``timeout`` seconds they are killed), and remove their files."""
        running = [process for process in (*self._workers, self._master) if process is not None]
        for process in running:
            process.terminate()
        await_end([process.pid for process in running if process.poll() is None], timeout)
        for process in running:
            kill_session(process.pid)  # executors are children of their worker, and need longer
            process.wait()
        self._workers, self._master = [], None
        if self._watch is not None:
            self._watch.release()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._watch, self.folder = None, None

    def kill_worker(self, number: int) -> None:
        """End a worker with its executors at once, as the loss of a machine; return when the master knows of it."""
        kill_session(self._workers[number].pid)
        self._workers[number].wait()
        self._await_workers()

    def start_worker(self, number: int) -> None:
        """Start a worker again that was killed."""
        if self._workers[number].poll() is not None:
            self._workers[number] = self._launch_worker(number)
            self._await_workers()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Cluster(workers={self.workers}, cores={self.cores}, running={self._master is not None})"

    def _launch_master(self) -> subprocess.Popen[bytes]:
        options = {"SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false"}
        ports = ("--host", HOST, "--port", str(self._port), "--webui-port", str(self._web_port))
        return self._launch("master", options, "org.apache.spark.deploy.master.Master", *ports)

    def _launch_worker(self, number: int) -> subprocess.Popen[bytes]:
        offers = ("--cores", str(self.cores), "--memory", f"{self.memory_mb}M")
        place = ("--host", HOST, "--webui-port", "0", "--work-dir", str(self._folder(f"worker-{number}") / "work"))
        return self._launch(
            f"worker-{number}",
            self._environments[number],
            "org.apache.spark.deploy.worker.Worker",
            *(*place, *offers, self.master),
        )

    def _launch(self, name: str, environment: Mapping[str, str], main: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Run a class of Spark. The script that runs it becomes the JVM, so the process id is that of the JVM."""
        assert self._watch is not None
        home, folder = spark_home(), self._folder(name)
        ours = {
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(java_home()),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(folder),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{_FRUGAL} -Djava.io.tmpdir={folder} -Dspark.port.maxRetries=0",
            "SPARK_LAUNCHER_OPTS": _FRUGAL,
        }
        command = [str(home / "bin" / "spark-class"), main, *arguments]
        return self._watch.launch(command, self._log_of(name), {**os.environ, **ours, **environment})

    def _folder(self, name: str) -> Path:
        assert self.folder is not None
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def _log_of(self, name: str) -> Path:
        return self._folder(name) / "log"

    def _await_workers(self) -> None:
        """Wait until the master counts as many workers as there are."""
        living = [worker for worker in self._workers if worker.poll() is None]
        self._await(living, lambda: self._living_workers() == len(living))

    def _await(self, workers: Sequence[subprocess.Popen[bytes]], condition: Callable[[], bool]) -> None:
        """Wait for a condition while the master and these workers live."""
        assert self._master is not None
        now_ms = SystemClock().now_ms
        deadline = now_ms() + self._timeout_ms
        while not condition():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._master.wait(0.05)
            if any(process.poll() is not None for process in (self._master, *workers)):
                raise ClusterFailed(f"a process of the Spark cluster ended: {self._why()}")
            if now_ms() > deadline:
                raise ClusterFailed(
                    f"the Spark cluster was not ready within {self._timeout_ms // 1000} s: {self._why()}"
                )

    def _living_workers(self) -> int | None:
        """How many workers the master counts; None while it does not answer."""
        connection = http.client.HTTPConnection(HOST, self._web_port, timeout=5)
        try:
            connection.request("GET", "/json/")
            told = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        return int(told["aliveworkers"]) if told["status"] == "ALIVE" else None

    def _why(self) -> str:
        assert self.folder is not None
        logs = {path.parent.name: path.read_text(errors="replace") for path in sorted(self.folder.glob("*/log"))}
        return "; ".join(f"{name}: {server.why(text[-20_000:])}" for name, text in logs.items())
