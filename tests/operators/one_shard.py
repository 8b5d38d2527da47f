"""A shard for operators that work together: shared stores and time, several nodes, barriers on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from piped_time import PipedTime

from penstock.operators.base import Forward, Operator
from penstock.record import Headers, Origin
from penstock.serde import Serde, Serdes
from penstock.state.memory import MemoryState
from penstock.state.open import open_store
from penstock.state.spec import StoreSpec


class OneShard(PipedTime):
    """Opens operators over real stores. ``out`` is where a chain may end: it collects (key, value, timestamp).

    ``before``: take over the state and the time of another one, as a worker does that gets a lane.
    """

    def __init__(
        self,
        *stores: StoreSpec,
        key: Serde[Any] = Serdes.string,
        value: Serde[Any] = Serdes.string,
        before: OneShard | None = None,
    ) -> None:
        super().__init__()
        self.state = before.state if before else MemoryState()
        self.dropped: list[str] = []
        self.late_policies: frozenset[Any] = frozenset()
        self.results: list[tuple[Any, Any, int]] = []
        self.headers: list[Headers] = []
        self.origins: list[Origin] = []
        self.stores = {spec.name: open_store(spec, self.state, self, key=key, value=value) for spec in stores}
        self.keep_time(self.stores.values())
        if before is not None:
            self.go_on(before)
        self._offset = -1

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

    def out(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        """End of a chain."""
        self.results.append((key, value, timestamp))
        self.headers.append(headers)
        self.origins.append(self.origin)

    def chain(self, *operators: Operator, end: Forward | None = None) -> Callable[..., list[tuple[Any, Any, int]]]:
        """Open operators one behind the other; return ``send(key, value, timestamp, headers)``, which gives the results."""
        forward = end or self.out
        for operator in reversed(operators):
            forward = operator.open(self, forward)  # type: ignore[arg-type]
        first = forward

        def send(
            key: Any, value: Any, timestamp: int, headers: Headers = (), **origin: Any
        ) -> list[tuple[Any, Any, int]]:
            self._offset += 1
            before = len(self.results)
            self.come_to(Origin("in", 0, self._offset, timestamp, b"k", b"v", headers)._replace(**origin))
            first(key, value, timestamp, headers)
            return self.results[before:]

        return send

    def commit(self) -> list[tuple[Any, ...]]:
        """Pass a barrier; return the changelog rows of all stores."""
        rows: list[tuple[Any, ...]] = []
        for store in self.stores.values():
            store.flush()
            sealed = store.seal()
            store.apply(sealed)
            rows += sealed.changelog
        return rows


def each(send: Callable[..., list[Any]], records: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Send records one after the other; return all results."""
    return [result for record in records for result in send(*record)]
