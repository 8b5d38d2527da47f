"""Timers per key: registered by a processor, kept in its timer store, fired as ``on_timer(timestamp, key, context)``.

Event-time timers fire when stream time reaches them, processing-time timers when the wall clock does, in order of time;
each in the shard of its key, with all state, as punctuations do. A timer fires once; registering it twice changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from penstock.errors import TopologyError
from penstock.processor.punctuation import ONCE, PunctuationType
from penstock.state.spec import StoreKind
from penstock.state.timers import Domain, TimerStore

#: where no timer is set
_NEVER = 1 << 60
#: the timer store's word for each kind of time
DOMAINS: dict[PunctuationType, Domain] = {
    PunctuationType.STREAM_TIME: "event",
    PunctuationType.WALL_CLOCK_TIME: "processing",
}


class Stoppable(Protocol):
    """A scheduled punctuation."""

    def cancel(self) -> None:
        """Stop it; calling twice is harmless."""
        ...


class AlarmHost(Protocol):
    """What timers need from the task of their node."""

    @property
    def node(self) -> str:
        """Name of the node."""
        ...

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the stores connected to the node."""
        ...

    @property
    def stream_time(self) -> int:
        """The task's stream time: the greatest timestamp taken out for processing; −1 before the first."""
        ...

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds."""
        ...

    def store(self, name: str) -> Any:
        """Return the typed store of this shard; only stores connected to the node."""
        ...

    def key_check(self, name: str) -> Callable[[Any], None] | None:
        """Return what raises for a key that a store of this name does not hold in this shard; None: any key will do."""
        ...

    def schedule(self, every: int, punctuation: Any, f: Callable[[int], None], start: int | None = None) -> Stoppable:
        """Call ``f(timestamp)`` regularly; see ``processor.punctuation``."""
        ...


class Alarm:
    """The next timer of one kind of time, as one punctuation.

    Invariant: if a timer is in the store, a punctuation is due with it.
    """

    __slots__ = ("_at", "_domain", "_fire", "_host", "_kind", "_punctuation", "_store")

    def __init__(
        self, host: AlarmHost, store: TimerStore, kind: PunctuationType, fire: Callable[[int, Any], None]
    ) -> None:
        self._host = host
        self._store = store
        self._kind = kind
        self._domain = DOMAINS[kind]
        self._fire = fire
        self._at = _NEVER
        self._punctuation: Stoppable | None = None
        self.set()

    def set(self) -> None:
        """Ring with the earliest timer."""
        earliest = self._store.earliest(self._domain)
        if earliest is None or earliest >= self._at:
            return
        self.cancel()
        self._at = earliest
        now = self._host.stream_time if self._kind is PunctuationType.STREAM_TIME else self._host.now_ms()
        self._punctuation = self._host.schedule(ONCE, self._kind, self._ring, max(self._at, now))

    def ring_by(self, timestamp: int) -> None:
        """Observe that a timer was registered; one that is later than the next ring changes nothing."""
        if timestamp < self._at:
            self.set()

    def cancel(self) -> None:
        """Do not ring."""
        if self._punctuation is not None:
            self._punctuation.cancel()
        self._punctuation, self._at = None, _NEVER

    def _ring(self, now: int) -> None:
        """Fire all that is due, also what is registered meanwhile; then wait for the next."""
        self.cancel()
        try:
            for timestamp, key in self._store.due(self._domain, now):
                self._fire(timestamp, key)
        finally:
            self.set()


class TimerService:
    """What ``context.timers`` gives. A time (milliseconds) that has passed fires as soon as the record is done."""

    __slots__ = ("_alarms", "_check", "_store")

    def __init__(self, host: AlarmHost, store: TimerStore, fire: Callable[[int, Any], None]) -> None:
        self._store = store
        self._check = host.key_check(store.spec.name)
        self._alarms = {kind: Alarm(host, store, kind, fire) for kind in PunctuationType}

    def register_event_time(self, key: Any, timestamp: int) -> None:
        """Fire for ``key`` when stream time reaches ``timestamp``."""
        self._register(PunctuationType.STREAM_TIME, key, timestamp)

    def register_processing_time(self, key: Any, timestamp: int) -> None:
        """Fire for ``key`` when the wall clock reaches ``timestamp``."""
        self._register(PunctuationType.WALL_CLOCK_TIME, key, timestamp)

    def delete_event_time(self, key: Any, timestamp: int) -> None:
        """Take an event-time timer back; harmless if there is none."""
        self._store.delete(DOMAINS[PunctuationType.STREAM_TIME], key, timestamp)

    def delete_processing_time(self, key: Any, timestamp: int) -> None:
        """Take a processing-time timer back; harmless if there is none."""
        self._store.delete(DOMAINS[PunctuationType.WALL_CLOCK_TIME], key, timestamp)

    def _register(self, kind: PunctuationType, key: Any, timestamp: int) -> None:
        if timestamp < 0:
            raise TopologyError(f"the time of a timer must not be negative, but is {timestamp}")
        if self._check is not None:
            self._check(key)
        self._store.register(DOMAINS[kind], key, timestamp)
        self._alarms[kind].ring_by(timestamp)


def open_timers(instance: Any, host: AlarmHost, fire: Callable[[int, Any], None]) -> TimerService | None:
    """Return the timers of a node that has a timer store, else None; ``fire(timestamp, key)`` calls the user."""
    names = [name for name in host.stores if host.store(name).spec.kind is StoreKind.TIMERS]
    if not names:
        return None
    if len(names) > 1:
        raise TopologyError(f"node {host.node} is connected to several timer stores {names}: give it one")
    if not callable(getattr(instance, "on_timer", None)):
        raise TopologyError(
            f"node {host.node} has the timer store {names[0]!r}, but {type(instance).__name__} has no "
            "on_timer(timestamp, key, context)"
        )
    return TimerService(host, host.store(names[0]), fire)
