"""A real schema registry in one call, for tests and laptops: Apicurio's, with Confluent's interface.

    with RegistryServer() as registry:
        ...  # registry.url

Its archive comes by `dev/archive.py`, once. Without ``data`` the schemas live in a temporary folder and go with it. No JVM is left
behind, however this process ends: `dev/watch.py` sees to it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from penstock.clock import SystemClock
from penstock.dev import server
from penstock.dev.archive import unpacked
from penstock.dev.jars import Progress, find_java
from penstock.dev.server import QUICK_START
from penstock.dev.watch import Watch
from penstock.errors import PenstockError

#: the last line of versions that runs on Java 17
ARCHIVE = "io.apicurio:apicurio-registry-app:3.0.9:tar.gz:all"
#: where it answers as Confluent's registry does
PATH = "/apis/ccompat/v7"


class RegistryFailed(PenstockError):
    """The schema registry could not be started, or died. The message says why and what to do."""


class RegistryServer:
    """One schema registry as a child process. ``start`` and ``stop`` it, or use it as a context manager.

    ``port``: None takes a free one. ``data``: folder that is kept. ``compatibility``: what is asked of a new schema of a subject, as
    Confluent's registry does unless told otherwise. ``settings``: its own, as ``apicurio.*`` and ``quarkus.*``.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        data: str | os.PathLike[str] | None = None,
        heap_mb: int = 256,
        java_options: Sequence[str] = (QUICK_START,),
        compatibility: str = "BACKWARD",
        settings: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        start_timeout: float = 90,
    ) -> None:
        self.host = host
        self.port = port
        self.data = Path(data) if data is not None else None
        self._temporary = data is None
        self._options = (f"-Xmx{heap_mb}m", *java_options)
        self._compatibility = compatibility
        self._settings = dict(settings or {})
        self._progress = progress
        self._start_timeout_ms = int(start_timeout * 1000)
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: Watch | None = None

    @property
    def url(self) -> str:
        """What clients are given: its address, where it answers as Confluent's registry does."""
        if self.port is None:
            raise RegistryFailed("the schema registry has no port yet: start it first")
        return f"http://{self.host}:{self.port}{PATH}"

    @property
    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id, while it runs."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def log_file(self) -> Path | None:
        """Where all goes that it says."""
        return None if self.data is None else self.data / "registry.log"

    def start(self) -> RegistryServer:
        """Bring the archive, start, and return when the registry answers."""
        if self.running:
            return self
        java, folder = find_java(), unpacked(ARCHIVE, progress=self._progress)
        if self.port is None:
            self.port = server.free_ports(self.host, 1)[0]
        elif not server.is_free(self.host, self.port):
            raise RegistryFailed(
                f"port {self.port} of {self.host} is taken by another program: stop it, or give another port"
            )
        if self.data is None:
            self.data = Path(tempfile.mkdtemp(prefix="penstock-registry-"))
        self.data.mkdir(parents=True, exist_ok=True)
        try:
            self._launch(
                [str(java), *self._options, *self._properties(), "-jar", str(next(folder.glob("*-runner.jar")))]
            )
            self._await_answer()
            self._ask("PUT", "/config", {"compatibility": self._compatibility})
        except BaseException:
            self.kill()
            self._clean_up()
            raise
        return self

    def stop(self, timeout: float = 20) -> None:
        """End it in order (SIGTERM; after ``timeout`` seconds it is killed). Temporary data are removed."""
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
        self.kill()
        self._clean_up()

    def kill(self) -> None:
        """End it at once, as a crash does; the data stay for ``start``, on the same port."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._watch is not None:
            self._watch.release()
            self._watch = None

    def wait(self, timeout: float | None = None) -> None:
        """Return when the timeout is over; raise ``RegistryFailed`` if it ended by itself."""
        if self._process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
            raise RegistryFailed(f"the schema registry ended: {server.why(self._log_text())}")

    def __enter__(self) -> RegistryServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"RegistryServer(port={self.port}, data={str(self.data)!r}, running={self.running})"

    def _properties(self) -> list[str]:
        assert self.data is not None
        settings = {
            "quarkus.http.host": self.host,
            "quarkus.http.port": str(self.port),
            "quarkus.http.access-log.enabled": "false",
            # on disk, and there when the answer is sent: it may be killed
            "apicurio.datasource.url": f"jdbc:h2:file:{self.data.absolute()}/schemas;WRITE_DELAY=0",
            **self._settings,
        }
        return [f"-D{name}={value}" for name, value in settings.items()]

    def _launch(self, command: list[str]) -> None:
        assert self.log_file is not None
        self._watch = Watch(self.data if self._temporary else None)
        self._process = self._watch.launch(command, self.log_file)

    def _await_answer(self) -> None:
        assert self._process is not None
        now_ms = SystemClock().now_ms
        deadline = now_ms() + self._start_timeout_ms
        while not self._answers():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.1)
                raise RegistryFailed(f"the schema registry did not start: {server.why(self._log_text())}")
            if now_ms() > deadline:
                seconds = self._start_timeout_ms // 1000
                raise RegistryFailed(
                    f"the schema registry did not answer within {seconds} s: {server.why(self._log_text())}"
                )

    def _answers(self) -> bool:
        try:
            return self._ask("GET", "/subjects") in (200, 401, 403)
        except (OSError, http.client.HTTPException):
            return False

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> int:
        assert self.port is not None
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, PATH + path, data, {"Content-Type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()

    def _log_text(self) -> str:
        if self.log_file is None or not self.log_file.exists():
            return ""
        return self.log_file.read_text(errors="replace")[-20_000:]

    def _clean_up(self) -> None:
        if self._temporary and self.data is not None:
            shutil.rmtree(self.data, ignore_errors=True)
            self.data = None
