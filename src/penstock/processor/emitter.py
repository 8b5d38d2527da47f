"""EmitterContext: what the function of a scheduled source is given when it is due."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock.errors import TopologyError
from penstock.processor.context import NodeHost, UserContext
from penstock.record import Headers, as_headers


class EmitterContext(UserContext):
    """One firing of a scheduled source: when it is due, what it may read, and ``forward``."""

    __slots__ = ("_forward", "since", "timestamp")

    def __init__(
        self, host: NodeHost, forward: Callable[[Any, Any, int, Headers], None], since: int, timestamp: int
    ) -> None:
        super().__init__(host)
        self._forward = forward
        #: the due time of this firing, in milliseconds; the latest one, where several were missed
        self.timestamp = timestamp
        #: the first due time that this firing covers: less than ``timestamp`` only where some were missed
        self.since = since

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
