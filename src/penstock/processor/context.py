"""What user code sees of the task: forward, stores, time, punctuation, timers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NoReturn, Protocol, TypeVar

from penstock.durations import millis
from penstock.errors import StoreError, TopologyError, nearest
from penstock.processor.fixed_key import KEY_IS_FIXED, FixedKeyRecord
from penstock.processor.punctuation import PunctuationType, Punctuator
from penstock.processor.resources import Resources
from penstock.processor.timers import AlarmHost, Stoppable, TimerService
from penstock.processor.user_metrics import CollectedMetrics, NodeMetrics
from penstock.record import Headers, Origin, Record, RecordMetadata

T = TypeVar("T")


class NodeHost(AlarmHost, Protocol):
    """What a context needs from the task of its node (``operators.base.OperatorContext`` has it all)."""

    @property
    def application_id(self) -> str:
        """The application's id."""
        ...

    @property
    def shard(self) -> int:
        """The shard this task holds."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The application's settings."""
        ...

    @property
    def origin(self) -> Origin:
        """Coordinates of the record at hand."""
        ...

    @property
    def children(self) -> Mapping[str, Callable[[Any, Any, int, Headers], None]]:
        """The next nodes by name, in order, for operators that choose."""
        ...

    @property
    def resources(self) -> Resources:
        """What user code keeps in this process."""
        ...

    @property
    def user_metrics(self) -> CollectedMetrics:
        """What user code counts."""
        ...

    def count_event(self, metric: str, *labels: str) -> None:
        """Count something that happened at this node."""
        ...

    def view(self, name: str) -> Any:
        """Return a read-only view of any store of the application at the last barrier."""
        ...

    def user_store(self, name: str) -> Any:
        """Return a store as user code is handed it: its own for the keys of its shard, a global one to be read."""
        ...

    def request_commit(self) -> None:
        """Ask for a barrier soon."""
        ...

    @property
    def is_late(self) -> bool:
        """Whether time had passed the timestamp of the record at hand."""
        ...


class UserContext:
    """What all user code sees of its node, be it given records or only told that it is due."""

    __slots__ = ("_host",)

    def __init__(self, host: NodeHost) -> None:
        self._host = host

    @property
    def application_id(self) -> str:
        """The application's id."""
        return self._host.application_id

    @property
    def node(self) -> str:
        """Name of the node."""
        return self._host.node

    @property
    def config(self) -> Mapping[str, Any]:
        """The application's settings, all of them; ``config["user_config"]`` is what was given as ``user_config={...}``."""
        return self._host.config

    def resource(self, name: str, make: Callable[[], T], close: Callable[[T], object] | None = None) -> T:
        """Return what ``make()`` makes, once for each process, for all processors that ask for this name.

        A processor object lives for one epoch; what is expensive to make (a connection, a model) is a resource. ``close(resource)`` is
        called when the application ends.
        """
        found: T = self._host.resources.get(name, make, close)
        return found

    @property
    def system_time(self) -> int:
        """Wall-clock time in milliseconds."""
        return self._host.now_ms()

    def view(self, name: str) -> Any:
        """Return a read-only view of any store of the application, any key, as of the last barrier."""
        return self._host.view(name)


class ProcessingContext(UserContext):
    """What every context of user code has: all but ``forward``."""

    __slots__ = ("timer_service",)

    def __init__(self, host: NodeHost) -> None:
        super().__init__(host)
        #: set by the node, if it has a timer store
        self.timer_service: TimerService | None = None

    @property
    def shard(self) -> int:
        """The shard that this instance works for."""
        return self._host.shard

    @property
    def metrics(self) -> NodeMetrics:
        """Metrics of your own: ``metrics.counter("orders").inc()``; see `docs/metrics.md`."""
        return NodeMetrics(self._host.node, self._host.user_metrics)

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the source record at hand; None in punctuations and timers."""
        origin = self._host.origin
        return None if origin.topic is None else RecordMetadata(origin.topic, origin.partition, origin.offset)

    @property
    def stream_time(self) -> int:
        """The greatest timestamp seen so far (milliseconds); −1 before the first record."""
        return self._host.stream_time

    @property
    def is_late(self) -> bool:
        """Whether event time had passed the timestamp of the record at hand when it was taken; False in punctuations.

        Event time is that of the slowest source partition that is not idle, by the watermark strategies of the sources.
        """
        return self._host.is_late

    def store(self, name: str) -> Any:
        """Return a store that is connected to this node, for the keys of its shard, or a global one (read only)."""
        return self._host.user_store(name)

    def schedule(
        self,
        every: timedelta | int,
        punctuation: PunctuationType,
        f: Punctuator,
        start: int | None = None,
    ) -> Stoppable:
        """Call ``f(timestamp)`` every so often, by stream time or by wall clock.

        ``start`` (milliseconds) anchors it: ``f`` is then due at start + n × every only.
        """
        if not isinstance(punctuation, PunctuationType):
            raise TopologyError(
                f"schedule() takes PunctuationType.STREAM_TIME or .WALL_CLOCK_TIME, but got {punctuation!r}"
            )
        return self._host.schedule(millis(every, "every", least=1), punctuation, f, start)

    @property
    def timers(self) -> TimerService:
        """Timers per key; the node needs a store made with ``Stores.timers``."""
        if self.timer_service is None:
            raise StoreError(
                f"node {self._host.node} uses context.timers, but has no timer store: "
                "add Stores.timers(name) and connect it, e.g. process(..., stores=[name])"
            )
        return self.timer_service

    def commit(self) -> None:
        """Ask for a barrier as soon as the epoch at hand is done; the next epoch then begins without waiting for ``commit_interval_ms``."""
        self._host.request_commit()


class TransformerContext(ProcessingContext):
    """The context of a ValueTransformer."""

    __slots__ = ()

    def forward(self, record: Any, child: str | None = None) -> NoReturn:
        """Refuse: a transformer returns its result."""
        raise TopologyError("transform_values() forwards what transform() returns; use process() to forward freely")


class ProcessorContext(ProcessingContext):
    """The context of a Processor."""

    __slots__ = ("_forward",)

    def __init__(self, host: NodeHost, forward: Callable[[Any, Any, int, Headers], None]) -> None:
        super().__init__(host)
        self._forward = forward

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Hand a record to every next node in order, or to the one named ``child``; returns when they are done."""
        if not isinstance(record, Record):
            raise not_a_record(record)
        forward = self._forward if child is None else self._child(child)
        forward(record.key, record.value, record.timestamp, record.headers)

    def _child(self, name: str) -> Callable[[Any, Any, int, Headers], None]:
        children = self._host.children
        if name not in children:
            raise TopologyError(
                f"node {self._host.node} has no next node {name!r}{nearest(name, children)}: it has {list(children)}"
            )
        return children[name]


class FixedKeyProcessorContext(ProcessorContext):
    """The context of a FixedKeyProcessor: ``forward`` refuses another key."""

    __slots__ = ("key",)

    def __init__(self, host: NodeHost, forward: Callable[[Any, Any, int, Headers], None]) -> None:
        super().__init__(host, forward)
        #: the key of the record at hand; the node sets it
        self.key: Any = NO_KEY

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        """Hand a record on under its own key: one made from the record at hand with ``with_value`` and the like."""
        if record.__class__ is not FixedKeyRecord:
            if not isinstance(record, Record):
                raise not_a_record(record)
            if record.key != self.key:
                raise TopologyError(KEY_IS_FIXED)
        forward = self._forward if child is None else self._child(child)
        forward(record.key, record.value, record.timestamp, record.headers)


#: the key at hand in punctuations and timers
NO_KEY: Any = object()


def not_a_record(given: Any) -> TypeError:
    """Explain what ``forward`` takes."""
    return TypeError(f"forward() takes a Record, e.g. record.with_value(...), but got {given!r}")
