"""A real Kafka broker in one call, for tests and laptops.

    with Broker() as broker:
        ...  # broker.bootstrap_servers

The jars come by `dev/jars.py`, once. Without ``data`` the records live in a temporary folder and go with the broker.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from penstock.dev import server
from penstock.dev.jars import Progress, find_java, resolve
from penstock.dev.jvm_server import JvmServer
from penstock.dev.server import QUICK_START, BrokerFailed

__all__ = ["QUICK_START", "Broker", "BrokerFailed"]


class Broker(JvmServer):
    """One Kafka broker as a child process. ``start`` and ``stop`` it, or use it as a context manager.

    ``port``: None takes a free one. ``data``: folder that is kept; with ``fresh`` it is emptied first.
    ``settings`` are Kafka's own and win over ours; ``java_options`` go to the JVM (`QUICK_START` halves the time of a
    start and costs throughput: for tests). ``progress`` is told one line for each jar that is downloaded.
    Everything the broker says goes to ``log_file``. ``kafka``: the version.
    """

    called, prefix, log_name, failed = "the Kafka broker", "penstock-kafka-", "server.log", BrokerFailed

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
        super().__init__(port, host, data, log_file, start_timeout)
        self._fresh = fresh
        self._options = (f"-Xmx{heap_mb}m", *java_options)
        self._settings = {"auto.create.topics.enable": str(auto_create_topics).lower(), **(settings or {})}
        self._progress = progress
        self._coordinates = server.coordinates(kafka)
        self._controller_port: int | None = None

    @property
    def bootstrap_servers(self) -> str:
        """What clients are given to find the broker: ``host:port``."""
        if self.port is None:
            raise BrokerFailed("the broker has no port yet: start it first")
        return f"{self.host}:{self.port}"

    def pause(self) -> None:
        """Freeze the broker: it is there and does not answer, until ``resume``."""
        self._signal(signal.SIGSTOP)
        # the signal reaches the threads of the JVM one by one: frozen is when the last one has stopped
        if self.pid is not None:
            os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        """Let a paused broker go on."""
        self._signal(signal.SIGCONT)

    def restart(self) -> Self:
        """Start again on the same port and data, after a ``kill`` or, if it runs still, after an orderly end."""
        self._end(timeout=20)
        return self.start()

    def _fetch(self) -> None:
        self._java, self._jars = find_java(), resolve(self._coordinates, progress=self._progress)

    def _choose_ports(self) -> None:
        super()._choose_ports()
        if self._controller_port is None or not server.is_free(self.host, self._controller_port):
            self._controller_port = server.free_ports(self.host, 1)[0]

    def _prepare_folder(self) -> Path:
        if self._fresh and self.data is not None:
            self._empty(self.data)
        self._fresh = False  # a restart keeps what was written since
        return super()._prepare_folder()

    def _command(self, folder: Path) -> list[str]:
        self._format(folder)
        arguments = ("kafka.Kafka", str(self._properties(folder)))
        return server.java_command(self._java, self._jars, self._options, *arguments)

    def _answers(self) -> bool:
        assert self.port is not None
        return server.answers(self.host, self.port)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or not self.running:
            raise BrokerFailed("the broker does not run: start it first")
        self._process.send_signal(number)

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

    def _format(self, folder: Path) -> None:
        """Give new data folders their cluster id, as Kafka's own tool does."""
        if (folder / "log" / "meta.properties").exists():
            return
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        named = f"--cluster-id={cluster}"  # one word: an id may begin with "-"
        arguments = ("kafka.tools.StorageTool", "format", named, "-c", str(self._properties(folder)))
        command = server.java_command(self._java, self._jars, (QUICK_START, "-Xmx128m"), *arguments)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokerFailed(
                f"the data folder {folder} could not be prepared: {server.why(done.stdout + done.stderr)}"
            )
