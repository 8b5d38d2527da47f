"""A server of the JVM as a child process: start it, wait until it answers, end it. What a broker and a schema registry share.

No JVM is left behind, however this process ends: `dev/watch.py` sees to it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from penstock.clock import SystemClock
from penstock.dev import server
from penstock.dev.watch import Watch
from penstock.errors import PenstockError


class JvmServer(ABC):
    """One server. ``start`` and ``stop`` it, or use it as a context manager.

    ``port``: None takes a free one. ``data``: folder that is kept; None: a temporary one, which goes with the server.
    """

    #: what it is, in messages and in the names of its files
    called: ClassVar[str]
    prefix: ClassVar[str]
    log_name: ClassVar[str]
    failed: ClassVar[type[PenstockError]]

    def __init__(
        self,
        port: int | None,
        host: str,
        data: str | os.PathLike[str] | None,
        log_file: str | os.PathLike[str] | None,
        start_timeout: float,
    ) -> None:
        self.host = host
        self.port = port
        self.data = Path(data) if data is not None else None
        #: where all goes that it says
        self.log_file = Path(log_file) if log_file is not None else None
        self._temporary = data is None
        self._start_timeout_ms = int(start_timeout * 1000)
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: Watch | None = None

    @property
    def running(self) -> bool:
        """Whether the process is alive (paused counts as alive)."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id, while it runs."""
        return self._process.pid if self._process is not None and self.running else None

    def start(self) -> Self:
        """Fetch what it is made of, start, and return when it answers."""
        if self.running:
            return self
        self._fetch()
        self._choose_ports()
        folder = self._prepare_folder()
        try:
            self._launch(self._command(folder))
            self._await_answer()
        except BaseException:
            self.kill()
            self._clean_up()
            raise
        return self

    def stop(self, timeout: float = 20) -> None:
        """End it in order (SIGTERM; after ``timeout`` seconds it is killed). Temporary data are removed."""
        self._end(timeout)
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
        """Return when the timeout is over, or nothing runs; raise if it ended by itself."""
        if self._process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
            raise self.failed(f"{self.called} ended: {self._why()}")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(port={self.port}, data={str(self.data)!r}, running={self.running})"

    # ---- what a server says of itself

    @abstractmethod
    def _fetch(self) -> None:
        """Find Java, and fetch what is missing."""

    @abstractmethod
    def _command(self, folder: Path) -> list[str]:
        """Return what starts it; prepare its folder if that is new."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it is ready."""

    # ---- the process

    def _choose_ports(self) -> None:
        """A port once chosen stays, so that after a restart it is found where clients look for it."""
        if self.port is None:
            self.port = server.free_ports(self.host, 1)[0]
        elif not server.is_free(self.host, self.port):
            raise self.failed(
                f"port {self.port} of {self.host} is taken by another program: stop it, or give another port"
            )

    def _prepare_folder(self) -> Path:
        if self.data is None:
            self.data = Path(tempfile.mkdtemp(prefix=self.prefix))
        self.data.mkdir(parents=True, exist_ok=True)
        if self.log_file is None:
            self.log_file = self.data / self.log_name
        return self.data

    def _launch(self, command: list[str]) -> None:
        assert self.log_file is not None
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self._watch = Watch(self.data if self._temporary else None)
        self._process = self._watch.launch(command, self.log_file)

    def _await_answer(self) -> None:
        assert self._process is not None
        now_ms = SystemClock().now_ms
        deadline = now_ms() + self._start_timeout_ms
        while not self._answers():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
                raise self.failed(f"{self.called} did not start: {self._why()}")
            if now_ms() > deadline:
                seconds = self._start_timeout_ms // 1000
                raise self.failed(f"{self.called} did not answer within {seconds} s: {self._why()}")

    def _end(self, timeout: float) -> None:
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)  # a paused process does not see the first
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
        self.kill()

    def _why(self) -> str:
        if self.log_file is None or not self.log_file.exists():
            return server.why("")
        return server.why(self.log_file.read_text(errors="replace")[-20_000:])

    def _clean_up(self) -> None:
        if self._temporary and self.data is not None:
            shutil.rmtree(self.data, ignore_errors=True)
            if self.log_file is not None and self.data in self.log_file.parents:
                self.log_file = None
            self.data = None
