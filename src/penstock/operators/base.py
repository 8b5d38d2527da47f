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
from typing import Any, ClassVar, Protocol, TypeAlias

from penstock.processor.context import NodeHost
from penstock.record import Change, Headers, Origin
from penstock.state.partition_times import PartitionTimes

#: hands a record to the next node(s): (key, value, timestamp, headers)
Forward: TypeAlias = Callable[[Any, Any, int, Headers], None]
#: forwards a table update: (key, new, old, timestamp, headers)
Emit: TypeAlias = Callable[[Any, Any, Any, int, Headers], None]
#: reads a table by key: (value, timestamp), or None where the key is absent
Lookup: TypeAlias = Callable[[Any], "tuple[Any, int] | None"]


class ObservedTime(PartitionTimes):
    """The clock of one operator in one shard (section 6 of the design).

    ``now`` is the minimum over source partition indexes of the greatest timestamp seen from that index; with one index it is
    Kafka Streams' observed stream time. −1 before the first record.
    """

    __slots__ = ("_task",)

    def __init__(self, task: HasOrigin) -> None:
        super().__init__()
        self._task = task

    def advance(self, timestamp: int) -> int:
        """Take in the timestamp of the record at hand; return the time now, this record included."""
        origin = self._task.origin
        if origin.floor > timestamp:
            timestamp = origin.floor
        times, index = self.times, origin.partition_index
        if timestamp > times.get(index, -1):
            if len(times) == 1 and index in times:
                times[index] = self.now = timestamp
            else:
                self.see(index, timestamp)
        return self.now


class HasOrigin(Protocol):
    """Anything that knows the record at hand."""

    origin: Origin


class OperatorContext(NodeHost, Protocol):
    """What an operator may ask of its task (one shard of one stage): all that a processor's context is made of, and more."""

    @property
    def origin(self) -> Origin:
        """Coordinates of the record at hand (``NO_ORIGIN`` in punctuation)."""
        ...

    @origin.setter
    def origin(self, origin: Origin) -> None: ...

    def observed_time(self, shared: str | None = None) -> ObservedTime:
        """Make this operator's clock; with ``shared``, the one clock of that name (the two sides of a join)."""
        ...

    def drop(self, reason: str) -> None:
        """Count the record at hand as dropped by this node, under a reason (``null_key``, ``late_window`` …)."""
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
    #: True where it runs code that may schedule or keep something: it must be in a lane even without a store
    scheduling: ClassVar[bool] = False

    @abstractmethod
    def open(self, context: OperatorContext, forward: Forward) -> Forward:
        """Bind to one shard; return ``on_record``."""

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions in this operator, for error messages."""
        return ()


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

    A cached store forwards once per key and epoch; the node then has nothing to do at the update itself.
    """

    def emit_flushed(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
        forward(key, Change(new, old if send_old else None), timestamp, headers)

    if store is None or not store.cached:
        if store is not None and store.spec.ttl is not None:
            store.on_flush(emit_flushed, send_old=send_old)
        return emit_flushed
    store.on_flush(emit_flushed, send_old=send_old)
    return _nothing


def _nothing(key: Any, new: Any, old: Any, timestamp: int, headers: Headers) -> None:
    """The store forwards at the barrier."""
