"""Run one operator over real stores: records in, what it forwards out, barriers on request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from piped_time import PipedTime

from penstock.operators.base import Operator
from penstock.record import Change, Headers, Origin
from penstock.serde import Serde, Serdes
from penstock.state.buffer import BufferStore
from penstock.state.memory import MemoryState
from penstock.state.open import open_store
from penstock.state.spec import StoreKind, StoreSpec


class OneOperator(PipedTime):
    """One node of one shard. ``forwarded`` holds (key, value, timestamp, headers) of everything it sent on."""

    node = "THE-NODE"

    def __init__(
        self,
        operator: Operator,
        *stores: StoreSpec,
        key: Serde[Any] = Serdes.string,
        value: Serde[Any] = Serdes.json,
        state: MemoryState | None = None,
    ) -> None:
        super().__init__()
        self.state = state or MemoryState()
        self.origin = origin(0, 0)
        self.origins: list[Origin] = []
        self.dropped: list[str] = []
        self.late_policies: frozenset[Any] = frozenset()
        self.forwarded: list[tuple[Any, Any, int, Headers]] = []
        self.stores = {spec.name: self._open(spec, key, value) for spec in stores}
        self.keep_time(self.stores.values())
        self._offset = -1
        self.on_record = operator.open(self, self._forward)  # type: ignore[arg-type]

    def _open(self, spec: StoreSpec, key: Serde[Any], value: Serde[Any]) -> Any:
        if spec.kind is StoreKind.BUFFER:
            return BufferStore(spec, self.state, self, spec.key or key, spec.value or value)
        return open_store(spec, self.state, self, key=key, value=value)

    def store(self, name: str) -> Any:
        return self.stores[name]

    def drop(self, reason: str) -> None:
        self.dropped.append(reason)

    def drop_late(self, reason: str, start: int, end: int, now: int) -> None:
        self.dropped.append(reason)

    def refuses_late(self) -> bool:
        return False

    def late_policy(self) -> Any:
        return None

    def _forward(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        self.forwarded.append((key, value, timestamp, headers))
        self.origins.append(self.origin)

    def pipe(self, key: Any, value: Any, timestamp: int, headers: Headers = (), partition: int = 0) -> None:
        """Process one record."""
        self._offset += 1
        self.come_to(origin(self._offset, timestamp, partition))
        self.on_record(key, value, timestamp, headers)

    def pipe_all(self, records: Iterable[tuple[Any, ...]]) -> list[tuple[Any, Any, int]]:
        """Process records (key, value, timestamp); return what they forwarded, without headers."""
        before = len(self.forwarded)
        for record in records:
            self.pipe(*record)
        return [row[:3] for row in self.forwarded[before:]]

    def commit(self) -> list[tuple[Any, ...]]:
        """Pass a barrier; return the changelog rows of all stores."""
        for store in self.stores.values():
            store.flush()
        rows: list[tuple[Any, ...]] = []
        for store in self.stores.values():
            sealed = store.seal()
            store.apply(sealed)
            rows += sealed.changelog
        return rows


def origin(offset: int, timestamp: int, partition: int = 0) -> Origin:
    """Where the test's records come from."""
    return Origin("in", partition, offset, timestamp, b"raw key", b"raw value", (), partition)


def updates(rows: Iterable[tuple[Any, Any, int]]) -> list[tuple[Any, Any, int]]:
    """Forget the old values: (key, new, timestamp)."""
    return [(key, change.new, timestamp) for key, change, timestamp in rows]


def changed(new: Any, old: Any = None) -> Change[Any]:
    """Make the change that a table node forwards."""
    return Change(new, old)
