"""A real Kafka broker in one call, for tests and laptops.

    with Broker() as broker:
        ...  # broker.bootstrap_servers

The jars come by `dev/jars.py`, once. Without ``data`` the records live in a temporary folder and go with the broker.

No JVM is left behind, however this process ends: `dev/watch.py` sees to it.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from penstock.clock import SystemClock
from penstock.dev import server
from penstock.dev.jars import Progress, find_java, resolve
from penstock.dev.server import QUICK_START, BrokerFailed
from penstock.dev.watch import Watch

__all__ = ["QUICK_START", "Broker", "BrokerFailed"]


class Broker:
    """One Kafka broker as a child process. ``start`` and ``stop`` it, or use it as a context manager.

    ``port``: None takes a free one. ``data``: folder that is kept; with ``fresh`` it is emptied first.
    ``settings`` are Kafka's own and win over ours; ``java_options`` go to the JVM (`QUICK_START` halves the time of a
    start and costs throughput: for tests). ``progress`` is told one line for each jar that is downloaded.
    Everything the broker says goes to ``log_file``. ``kafka``: the version.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        data: str | os.PathLike[str] | None = None,
        fresh: bool = False,
        heap_mb: int = 512,
        java_options: Sequence[str] = (),
        auto_create_topics: bool = False,
        settings: Mapping[str, str] | None = None,
        log_file: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
        start_timeout: float = 60,
        kafka: str = server.KAFKA,
    ) -> None:
        self.host = host
        self.port = port
        self.data = Path(data) if data is not None else None
        self.log_file = Path(log_file) if log_file is not None else None
        self._temporary = data is None
        self._fresh = fresh
        self._options = (f"-Xmx{heap_mb}m", *java_options)
        self._settings = {"auto.create.topics.enable": str(auto_create_topics).lower(), **(settings or {})}
        self._progress = progress
        self._coordinates = server.coordinates(kafka)
        self._start_timeout_ms = int(start_timeout * 1000)
        self._controller_port: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: Watch | None = None

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given to find the broker: ``host:port``."""
        if self.port is None:
            raise BrokerFailed("the broker has no port yet: start it first")
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id of the broker, while it runs."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """Whether the process is alive (paused counts as alive)."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Broker:
        """Bring the jars, prepare the data folder if it is new, start, and return when the broker answers."""
        if self.running:
            return self
        java, jars = find_java(), resolve(self._coordinates, progress=self._progress)
        self._choose_ports()
        folder = self._prepare_folder()
        try:
            self._format(java, jars, folder)
            arguments = ("kafka.Kafka", str(self._properties(folder)))
            self._launch(server.java_command(java, jars, self._options, *arguments))
            self._await_answer()
        except BaseException:
            self.kill()
            self._clean_up()
            raise
        return self

    def stop(self, timeout: float = 20) -> None:
        """End the broker in order (SIGTERM; after ``timeout`` seconds it is killed). Temporary data are removed."""
        self._end(timeout)
        self._clean_up()

    def kill(self) -> None:
        """End the broker at once, as a crash does; the data stay for ``restart``."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._release_watch()

    def pause(self) -> None:
        """Freeze the broker: it is there and does not answer, until ``resume``."""
        self._signal(signal.SIGSTOP)
        # the signal reaches the threads of the JVM one by one: frozen is when the last one has stopped
        if self.pid is not None:
            os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        """Let a paused broker go on."""
        self._signal(signal.SIGCONT)

    def restart(self) -> Broker:
        """Start again on the same port and data, after a ``kill`` or, if it runs still, after an orderly end."""
        self._end(timeout=20)
        return self.start()

    def wait(self, timeout: float | None = None) -> None:
        """Return when the process ends or the timeout is over; raise ``BrokerFailed`` if it ended by itself."""
        if self._process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
            raise BrokerFailed(f"the Kafka broker ended: {server.why(self._log_text())}")

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Broker(port={self.port}, data={str(self.data)!r}, running={self.running})"

    def _end(self, timeout: float) -> None:
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)  # a paused process does not see the first
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
        self.kill()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or not self.running:
            raise BrokerFailed("the broker does not run: start it first")
        self._process.send_signal(number)

    def _choose_ports(self) -> None:
        """Ports once chosen stay, so that a restart is found where clients look for it."""
        if self.port is None:
            self.port = server.free_ports(self.host, 1)[0]
        elif not server.is_free(self.host, self.port):
            raise BrokerFailed(
                f"port {self.port} of {self.host} is taken by another program: stop it, or give another port"
            )
        if self._controller_port is None or not server.is_free(self.host, self._controller_port):
            self._controller_port = server.free_ports(self.host, 1)[0]

    def _prepare_folder(self) -> Path:
        if self.data is None:
            self.data = Path(tempfile.mkdtemp(prefix="penstock-kafka-"))
        if self._fresh:
            self._empty(self.data)
            self._fresh = False  # a restart keeps what was written since
        self.data.mkdir(parents=True, exist_ok=True)
        if self.log_file is None:
            self.log_file = self.data / "server.log"
        return self.data

    @staticmethod
    def _empty(folder: Path) -> None:
        """Remove what a broker left in a folder, and nothing that is not a broker's."""
        if (folder / "log").is_dir() and not (folder / "log" / "meta.properties").exists():
            raise BrokerFailed(f"{folder / 'log'} is not a broker's: it is not emptied. Give another folder")
        shutil.rmtree(folder / "log", ignore_errors=True)

    def _properties(self, folder: Path) -> Path:
        assert self.port is not None
        assert self._controller_port is not None
        path = folder / "server.properties"
        path.write_text(server.properties(self.host, self.port, self._controller_port, folder, self._settings))
        return path

    def _format(self, java: Path, jars: list[Path], folder: Path) -> None:
        """Give new data folders their cluster id, as Kafka's own tool does."""
        if (folder / "log" / "meta.properties").exists():
            return
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        named = f"--cluster-id={cluster}"  # one word: an id may begin with "-"
        arguments = ("kafka.tools.StorageTool", "format", named, "-c", str(self._properties(folder)))
        command = server.java_command(java, jars, (QUICK_START, "-Xmx128m"), *arguments)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerFailed(
                f"the data folder {folder} could not be prepared: {server.why(done.stdout + done.stderr)}"
            )

    def _launch(self, command: list[str]) -> None:
        assert self.log_file is not None
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self._watch = Watch(self.data if self._temporary else None)
        self._process = self._watch.launch(command, self.log_file)

    def _await_answer(self) -> None:
        assert self.port is not None
        assert self._process is not None
        now_ms = SystemClock().now_ms
        deadline = now_ms() + self._start_timeout_ms
        while not server.answers(self.host, self.port):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
                raise BrokerFailed(f"the Kafka broker did not start: {server.why(self._log_text())}")
            if now_ms() > deadline:
                raise BrokerFailed(
                    f"the Kafka broker did not answer within {self._start_timeout_ms // 1000} s: "
                    f"{server.why(self._log_text())}"
                )

    def _log_text(self) -> str:
        if self.log_file is None or not self.log_file.exists():
            return ""
        return self.log_file.read_text(errors="replace")[-20_000:]

    def _release_watch(self) -> None:
        if self._watch is not None:
            self._watch.release()
            self._watch = None

    def _clean_up(self) -> None:
        if self._temporary and self.data is not None:
            shutil.rmtree(self.data, ignore_errors=True)
            if self.log_file is not None and self.data in self.log_file.parents:
                self.log_file = None
            self.data = None
