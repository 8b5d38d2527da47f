"""From a spec to a typed store of one shard, and from a changelog row back to base rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.record import NO_ORIGIN, Origin
from penstock.serde import Serde, Serdes
from penstock.state.base import ShardState, Store, StoreContext
from penstock.state.cache import CacheBudget
from penstock.state.event_time import EventTime
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
        self.cache = CacheBudget()
        self.dropped: dict[str, int] = {}

    def drop(self, reason: str) -> None:
        """Count the drop."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1


def open_at(spec: StoreSpec, state: ShardState, shard: int, snapshots: Iterable[Mapping[int, Any]]) -> Any:
    """Open a store of a shard, to be read, at the time that its steps have told: by that it knows what has expired.

    ``snapshots``: of each step, what its tasks told at the barrier, by shard. A shard that has had no record since is as far as the
    others are.
    """
    store = open_store(spec, state, Standalone())
    for shots in snapshots:
        told = shots.get(shard, {}).get("stores", {}).get(spec.name)
        if told is not None:
            store.resume(told)
        times = [shot["stores"][spec.name].get("time", -1) for shot in shots.values() if spec.name in shot["stores"]]
        if store.keeps_time and times:
            clock = EventTime()
            clock.reach(max(times))
            store.keep_time(clock)
            store.reach()
    return store


def standalone(spec: StoreSpec) -> Any:
    """Open a store in memory, outside any application."""
    return open_store(spec, MemoryState(), Standalone())
