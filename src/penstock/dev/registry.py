"""A real schema registry in one call, for tests and laptops: Apicurio's, with Confluent's interface.

    with RegistryServer() as registry:
        ...  # registry.url

Its archive comes by `dev/archive.py`, once. Without ``data`` the schemas live in a temporary folder and go with it.
"""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock.dev.archive import unpacked
from penstock.dev.jars import Progress, find_java
from penstock.dev.jvm_server import JvmServer
from penstock.dev.server import QUICK_START
from penstock.errors import PenstockError

#: the last line of versions that runs on Java 17
ARCHIVE = "io.apicurio:apicurio-registry-app:3.0.9:tar.gz:all"
#: where it answers as Confluent's registry does
PATH = "/apis/ccompat/v7"


class RegistryFailed(PenstockError):
    """The schema registry could not be started, or died. The message says why and what to do."""


class RegistryServer(JvmServer):
    """One schema registry as a child process. ``start`` and ``stop`` it, or use it as a context manager.

    ``port``: None takes a free one. ``data``: folder that is kept. ``compatibility``: what is asked of a new schema of a subject, as
    Confluent's registry does unless told otherwise. ``settings``: its own, as ``apicurio.*`` and ``quarkus.*``.
    """

    called, prefix, log_name, failed = "the schema registry", "penstock-registry-", "registry.log", RegistryFailed

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
        super().__init__(port, host, data, None, start_timeout)
        self._options = (f"-Xmx{heap_mb}m", *java_options)
        self._compatibility = compatibility
        self._settings = dict(settings or {})
        self._progress = progress

    @property
    def url(self) -> str:
        """What clients are given: its address, where it answers as Confluent's registry does."""
        if self.port is None:
            raise RegistryFailed("the schema registry has no port yet: start it first")
        return f"http://{self.host}:{self.port}{PATH}"

    def _fetch(self) -> None:
        self._java, self._program = find_java(), unpacked(ARCHIVE, progress=self._progress)

    def _command(self, folder: Path) -> list[str]:
        jar = next(self._program.glob("*-runner.jar"))
        return [str(self._java), *self._options, *self._properties(folder), "-jar", str(jar)]

    def _answers(self) -> bool:
        try:
            return self._ask("GET", "/subjects") in (200, 401, 403)
        except (OSError, http.client.HTTPException):
            return False

    def _await_answer(self) -> None:
        super()._await_answer()
        self._ask("PUT", "/config", {"compatibility": self._compatibility})

    def _properties(self, folder: Path) -> list[str]:
        settings = {
            "quarkus.http.host": self.host,
            "quarkus.http.port": str(self.port),
            "quarkus.http.access-log.enabled": "false",
            # on disk, and there when the answer is sent: it may be killed
            "apicurio.datasource.url": f"jdbc:h2:file:{folder.absolute()}/schemas;WRITE_DELAY=0",
            **self._settings,
        }
        return [f"-D{name}={value}" for name, value in settings.items()]

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> int:
        assert self.port is not None
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, PATH + path, data, {"Content-Type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()
