"""The operator contract: a frozen spec that opens into a closure.

An operator holds configuration only, so it pickles into a stage. ``open`` binds it to one shard of one node and returns
``on_record(key, value, timestamp, headers)``; it calls ``forward`` with the same four arguments for each result, depth first.
Between table nodes the value is a ``Change``.

``open`` must return a plain Python function (a ``def`` inside ``open``), not a bound method: the task gives its code object
the node's name, so that a traceback names the node at no cost per record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from penstock.processor.context import NodeHost
from penstock.processor.punctuation import Cancellable
from penstock.record import Change, Headers, Origin
from penstock.schedule import Schedule
from penstock.state.event_time import EventTime
from penstock.watermark import LatePolicy

if TYPE_CHECKING:
    from penstock.operators.async_map import Calls, CallSpec

#: hands a record to the next node(s): (key, value, timestamp, headers)
Forward: TypeAlias = Callable[[Any, Any, int, Headers], None]
#: forwards a table update: (key, new, old, timestamp, headers)
Emit: TypeAlias = Callable[[Any, Any, Any, int, Headers], None]
#: reads a table by key: (value, timestamp), or None where the key is absent
Lookup: TypeAlias = Callable[[Any], "tuple[Any, int] | None"]


class OperatorContext(NodeHost, Protocol):
    """What an operator may ask of its task (one shard of one stage): all that a processor's context is made of, and more."""

    @property
    def origin(self) -> Origin:
        """Coordinates of the record at hand (``NO_ORIGIN`` in punctuation)."""
        ...

    @origin.setter
    def origin(self, origin: Origin) -> None: ...

    @property
    def is_first(self) -> bool:
        """Whether records come straight from topics of the user's, so that they have the time and headers of their origin."""
        ...

    def event_time(self, shared: str | None = None) -> EventTime:
        """Return this node's clock, the record at hand included; with ``shared``, the one clock of that name (the two sides of a join)."""
        ...

    def release(self, time: int, key: bytes) -> None:
        """Give what is forwarded next its place in the order: it leaves because time has come, and was due at ``time``.

        ``key``: the order among rows that were due at the same time. Call ``released`` once it is forwarded.
        """
        ...

    def released(self) -> None:
        """Tell that the row that ``release`` was for has gone."""
        ...

    def schedule_at(self, schedule: Schedule, f: Callable[[int], None]) -> Cancellable:
        """Call ``f(due time)`` at the times of a schedule, by the wall clock."""
        ...

    def clock_of(self, node: str) -> EventTime:
        """Return the clock of another node of the task; this operator's own where that node has none."""
        ...

    def drop(self, reason: str) -> None:
        """Count the record at hand as dropped by this node, under a reason (``null_key``, ``late_window`` …)."""
        ...

    def handle_error(self, key: Any, value: Any, timestamp: int, headers: Headers, error: Exception) -> None:
        """Ask the processing policy about a record that this node failed at after its turn; raises if it says fail."""
        ...

    def calls(self, spec: CallSpec) -> Calls:
        """Return what makes this node's calls; all shards of a lane share it, and with it the bound."""
        ...

    def on_barrier(self, f: Callable[[], None]) -> None:
        """Call ``f`` at the end of every epoch, once the caches have forwarded."""
        ...

    def drop_late(self, reason: str, start: int, end: int, now: int) -> None:
        """Count the record at hand as too late for the window ``start`` to ``end``; its source says what else becomes of it."""
        ...

    def late_policy(self) -> LatePolicy | None:
        """Return the late policy of the source of the record at hand."""
        ...

    def refuses_late(self) -> bool:
        """Whether the source of the record at hand grants no grace (``LatePolicy.drop``)."""
        ...

    @property
    def late_policies(self) -> frozenset[LatePolicy]:
        """The policies that sources of the topology have, besides the default."""
        ...

    def on_time(
        self,
        f: Callable[[int], None],
        due: Callable[[], int | None],
        shared: str | None = None,
        *,
        in_batches: bool = False,
    ) -> None:
        """Call ``f(now)`` when time has come that no record of this node has brought, in front of the next record of the shard.

        ``due`` says the least time of the clock at which ``f`` has something to give, or None. ``in_batches``: where records go by
        batch, what is due meanwhile leaves with them.
        """
        ...

    def on_init(self, f: Callable[[], None]) -> None:
        """Call ``f`` once all nodes are open, in topological order."""
        ...

    def on_close(self, f: Callable[[], None]) -> None:
        """Call ``f`` when the task closes."""
        ...


class Operator(ABC):
    """A node's behaviour as frozen data. Subclasses are ``@dataclass(frozen=True, slots=True)``."""

    __slots__ = ()

    #: True where results depend on how far time has come: a record then brings the time that its partition had reached
    timed: ClassVar[bool] = False

    @property
    def gives_final(self) -> bool:
        """Whether what it makes of its records is final once time has come: which of them it gets must not depend on a cache."""
        return self.timed and not self.scheduling

    #: True where it runs code that may schedule or keep something: it must be in a lane even without a store
    scheduling: ClassVar[bool] = False
    #: True where records wait for calls, so many of them at a time in a lane: not more tasks than lanes may run
    waits: ClassVar[bool] = False

    @property
    def releases(self) -> bool:
        """Whether rows may leave because time has come, between two records, so that these cannot go as a batch."""
        return False

    @property
    def shared_clock(self) -> str | None:
        """The name of the clock that the node shares with another one, if it does."""
        return None

    @property
    def span(self) -> int:
        """How long the windows of this node are: so much older than its window's end a result may be."""
        return 0

    def delay(self, span: int) -> int:
        """Return how far behind time the results are that this node gives out because time has come.

        ``span``: the length of the windows that its records are of.
        """
        return 0

    @abstractmethod
    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""

    def writes_to(self, store: str) -> bool:
        """Whether it may write to a store that it is connected to: its own, or any if it runs code of the user's."""
        own = (getattr(self, name, None) for name in ("store", "shared_store", "buffer"))
        return self.scheduling or store in own

    #: names of the fields that hold functions of the user's
    calls: ClassVar[tuple[str, ...]] = ()

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this operator."""
        return tuple(function for name in self.calls if (function := getattr(self, name)) is not None)


class TableView(ABC):
    """How to read a table by key from another node, whether or not it has a store of its own."""

    __slots__ = ()

    @property
    def stores(self) -> tuple[str, ...]:
        """Stores that a node reading through this view must be connected to."""
        return ()

    @abstractmethod
    def open(self, context: OperatorContext) -> Lookup:
        """Bind to one shard; return ``lookup(key) -> (value, timestamp) | None``."""

    def open_as_of(self, context: OperatorContext) -> Callable[[Any, int], tuple[Any, int] | None] | None:
        """Return ``lookup(key, as_of)`` if the table is versioned, else None."""
        return None


def table_emitter(store: Any, forward: Forward, send_old: bool) -> Emit:
    """Return how a table node forwards its updates: at once, or through the store's cache at the barrier.

    A cached store forwards once per key and epoch; the node then has nothing to do at the update itself, unless the
    cache holds back nothing.
    """

    def emit_flushed(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
        forward(key, Change(new, old if send_old else None), timestamp, headers)

    if store is None or not store.cached:
        if store is not None and store.spec.ttl is not None:
            store.on_flush(emit_flushed, send_old=send_old)
        return emit_flushed
    store.on_flush(emit_flushed, send_old=send_old)
    if store.forwards_each:
        flush_now = store.flush_now

        def emit_now(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
            flush_now()

        return emit_now
    return _nothing


def _nothing(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
    """The store forwards at the barrier."""
