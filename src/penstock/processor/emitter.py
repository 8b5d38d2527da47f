"""EmitterContext: what the function of a scheduled source is given when it is due."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from penstock.errors import TopologyError
from penstock.processor.context import NodeHost
from penstock.record import Headers, as_headers

T = TypeVar("T")


class EmitterContext:
    """One firing of a scheduled source: when it is due, what it may read, and ``forward``."""

    __slots__ = ("_forward", "_host", "since", "timestamp")

    def __init__(
        self, host: NodeHost, forward: Callable[[Any, Any, int, Headers], None], since: int, timestamp: int
    ) -> None:
        self._host = host
        self._forward = forward
        #: the due time of this firing, in milliseconds; the latest one, where several were missed
        self.timestamp = timestamp
        #: the first due time that this firing covers: less than ``timestamp`` only where some were missed
        self.since = since

    @property
    def application_id(self) -> str:
        """The application's id."""
        return self._host.application_id

    @property
    def node(self) -> str:
        """Name of the source."""
        return self._host.node

    @property
    def config(self) -> Mapping[str, Any]:
        """The application's settings."""
        return self._host.config

    def resource(self, name: str, make: Callable[[], T], close: Callable[[T], object] | None = None) -> T:
        """Return what ``make()`` makes, once for each process: see ``ProcessingContext.resource``."""
        found: T = self._host.resources.get(name, make, close)
        return found

    @property
    def system_time(self) -> int:
        """Wall-clock time in milliseconds: the due time, or later."""
        return self._host.now_ms()

    def view(self, name: str) -> Any:
        """Return a read-only view of any store of the application, any key, as of the last barrier."""
        return self._host.view(name)

    def forward(
        self,
        key: Any,
        value: Any,
        timestamp: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None:
        """Send one record down the stream, with the due time as its timestamp unless another is given."""
        at = self.timestamp if timestamp is None else timestamp
        if at < 0:
            raise TopologyError(f"a record's timestamp must not be negative, but is {at}")
        self._forward(key, value, at, as_headers(headers))
