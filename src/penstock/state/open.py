"""From a spec to a typed store of one shard, and from a changelog row back to base rows."""

from __future__ import annotations

from typing import Any

from penstock.record import NO_ORIGIN, Origin
from penstock.serde import Serde, Serdes
from penstock.state.base import ShardState, Store, StoreContext
from penstock.state.key_value import KeyValueStore, SharedStore, TimestampedKeyValueStore
from penstock.state.lru import LruStore, TimestampedLruStore
from penstock.state.memory import MemoryState
from penstock.state.spec import StoreKind, StoreSpec
from penstock.state.versioned import VersionedStore


def open_store(
    spec: StoreSpec,
    state: ShardState,
    context: StoreContext,
    *,
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
) -> Any:
    """Open a store of one shard. The spec's own serdes come first, then those given here, then string and JSON."""
    key_serde = spec.key or key or Serdes.string
    value_serde = spec.value or value or Serdes.json
    store: Store = _class_of(spec)(spec, state, context, key_serde, value_serde)
    return store


def _class_of(spec: StoreSpec) -> Any:
    match spec.kind:
        case StoreKind.KEY_VALUE:
            return TimestampedKeyValueStore if spec.timestamped else KeyValueStore
        case StoreKind.SHARED:
            return SharedStore
        case StoreKind.LRU:
            return TimestampedLruStore if spec.timestamped else LruStore
        case StoreKind.VERSIONED:
            return VersionedStore
        case StoreKind.WINDOW:
            from penstock.state.window import WindowStore

            return WindowStore
        case StoreKind.SESSION:
            from penstock.state.session import SessionStore

            return SessionStore
        case StoreKind.TIMERS:
            from penstock.state.timers import TimerStore

            return TimerStore
        case StoreKind.BUFFER if spec.retain_duplicates:
            from penstock.state.join_buffer import JoinBufferStore

            return JoinBufferStore
        case StoreKind.BUFFER:
            from penstock.state.buffer import BufferStore

            return BufferStore
        case StoreKind.OUTER_JOIN:
            from penstock.state.outer_join import OuterJoinStore

            return OuterJoinStore


class Standalone:
    """A store context without a lane: for doctests, notebooks and unit tests of code that uses a store."""

    def __init__(self, origin: Origin = NO_ORIGIN) -> None:
        self.origin = origin
        self.dropped: dict[str, int] = {}

    def drop(self, reason: str) -> None:
        """Count the drop."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1


def standalone(spec: StoreSpec) -> Any:
    """Open a store in memory, outside any application."""
    return open_store(spec, MemoryState(), Standalone())
