"""Openers shared by the tests of key-value stores."""

from __future__ import annotations

from typing import Any

from penstock.record import NO_ORIGIN, Origin, ValueAndTimestamp
from penstock.serde import Serdes
from penstock.state.base import ShardState, Store
from penstock.state.event_time import EventTime
from penstock.state.open import Standalone, open_store
from penstock.state.spec import Stores, StoreSpec


def origin(timestamp: int, offset: int = 0) -> Origin:
    return NO_ORIGIN._replace(topic="t", partition=0, offset=offset, timestamp=timestamp)


class Opened:
    """A store, its context, and a barrier at will."""

    def __init__(self, state: ShardState, spec: StoreSpec) -> None:
        self.state = state
        self.spec = spec
        self.context = Standalone(origin(0))
        self.store: Any = open_store(spec, state, self.context)
        self.forwarded: list[tuple[Any, ...]] = []

    def listen(self, *, send_old: bool = True) -> None:
        def listener(*row: Any) -> None:
            self.forwarded.append(row)

        self.store.on_flush(listener, send_old=send_old)

    def take(self) -> list[tuple[Any, ...]]:
        taken, self.forwarded[:] = list(self.forwarded), []
        return taken

    def come_to(self, time: int) -> None:
        """Let a task tell the store how far time has come."""
        clock = EventTime()
        clock.reach(time)
        self.store.keep_time(clock)
        self.store.reach()

    def barrier(self) -> Any:
        self.store.flush()
        sealed = self.store.seal()
        self.store.apply(sealed)
        return sealed

    def reopened(self) -> Opened:
        return Opened(self.state, self.spec)

    def wrap(self, value: Any, timestamp: int = 0) -> Any:
        if value is None or not self.spec.timestamped:
            return value
        return ValueAndTimestamp(value, timestamp)


def opened(state: ShardState, **options: Any) -> Opened:
    return Opened(state, Stores.key_value("s", value=Serdes.json, **options))


__all__ = ["Opened", "Store", "opened", "origin"]
