"""A task: the nodes of a topology, or of one of its stages, open over one shard.

The closures of the nodes call each other directly; a node with one child forwards straight into it. The task owns what the nodes
share: the stores, the clocks, the record at hand, the rows that leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import CodeType, FunctionType
from typing import Any, NoReturn

from penstock.clock import Clock
from penstock.errors import ProcessingError, StreamsError, TopologyError, describe_function
from penstock.lane.context import NodeContext
from penstock.lane.failure import decide, error_headers, failing_node, name_code, processing_error
from penstock.lane.sink import Row, open_sink, refused
from penstock.operators.base import Forward, ObservedTime
from penstock.processor.punctuation import PunctuationQueue, PunctuationType
from penstock.processor.timers import Stoppable
from penstock.record import NO_ORIGIN, Headers, Origin, Record
from penstock.state.base import Sealed, ShardState
from penstock.state.open import open_store
from penstock.topology.functions import takes
from penstock.topology.node import ProcessorNode, SinkNode, Wrapper
from penstock.topology.topology import Topology

#: passes over the cached stores at one barrier; more of them do not end by themselves
MOST_FLUSHES = 1000


class Task:
    """One shard's running nodes. ``outputs`` collects the rows that leave; whoever runs the task empties it.

    Invariant: between two records ``origin`` is that of the last record, and no closure holds state of a record.
    """

    def __init__(
        self,
        topology: Topology,
        shard: int,
        state: ShardState,
        *,
        application_id: str,
        config: Mapping[str, Any],
        clock: Clock,
        nodes: Iterable[str] | None = None,
        global_stores: Mapping[str, Any] | None = None,
        views: Callable[[str], Any] | None = None,
        partitions: Callable[[str], int] = lambda topic: 1,
    ) -> None:
        self.topology = topology
        self.shard = shard
        self.state = state
        self.application_id = application_id
        self.config = config
        self.clock = clock
        self.origin: Origin = NO_ORIGIN
        self.stream_time = -1
        self.outputs: list[Row] = []
        self.dropped: dict[tuple[str, str], int] = {}
        self.clocks: dict[str, ObservedTime] = {}
        self.commit_requested = False
        self.global_stores = global_stores or {}
        self.views = views or self._no_views
        self.init_calls: dict[str, list[Callable[[], None]]] = {}
        self.close_calls: list[Callable[[], None]] = []
        self._punctuation = {kind: PunctuationQueue(kind) for kind in PunctuationType}
        self._partitions = partitions
        self._node_of_code: dict[CodeType, str] = {}
        self._order = tuple(topology.nodes if nodes is None else nodes)
        self._guarded = config["on_processing_error"] != "fail"
        self.stores: dict[str, Any] = self._open_stores()
        self.entries: dict[str, Forward] = {}
        self._open_nodes()
        for name in self._order:
            for initialise in self.init_calls.get(name, ()):
                initialise()

    # records

    def process(self, source: str, key: Any, value: Any, timestamp: int, headers: Headers, origin: Origin) -> None:
        """Run one record through the nodes below a source."""
        self.origin = origin
        if timestamp > self.stream_time:
            self.stream_time = timestamp
        try:
            self.entries[source](key, value, timestamp, headers)
        except Exception as error:
            self._fail(error)

    def process_all(self, source: str, records: Iterable[tuple[Any, Any, int, Headers, Origin]]) -> None:
        """Run a batch of decoded records, in order: the hot loop of a lane.

        Punctuators of stream time run between records, as soon as they are due.
        """
        entry = self.entries[source]
        waiting = self._punctuation[PunctuationType.STREAM_TIME].waiting
        stream_time = self.stream_time
        try:
            for key, value, timestamp, headers, origin in records:
                self.origin = origin
                if timestamp > stream_time:
                    stream_time = self.stream_time = timestamp
                entry(key, value, timestamp, headers)
                if waiting:
                    self.punctuate(PunctuationType.STREAM_TIME)
        except Exception as error:
            self._fail(error)

    def drop_at(self, node: str, reason: str) -> None:
        """Count a dropped record."""
        counter = (node, reason)
        self.dropped[counter] = self.dropped.get(counter, 0) + 1

    def drop(self, reason: str) -> None:
        """Count a record that a store dropped."""
        self.drop_at("store", reason)

    # time

    def schedule(
        self, node: str, every: int, punctuation: PunctuationType, f: Callable[[int], None], start: int | None
    ) -> Stoppable:
        """Register a punctuation of a node."""
        now = self.stream_time if punctuation is PunctuationType.STREAM_TIME else self.clock.now_ms()
        return self._punctuation[punctuation].schedule(node, every, f, start, now)

    def punctuate(self, punctuation: PunctuationType) -> bool:
        """Run what is due now; True if something ran."""
        if punctuation is PunctuationType.STREAM_TIME:
            return self.stream_time >= 0 and self._punctuation[punctuation].punctuate(
                self.stream_time, self._run_punctuator
            )
        return self._punctuation[punctuation].punctuate(self.clock.now_ms(), self._run_punctuator)

    def _run_punctuator(self, node: str, f: Callable[[int], None], timestamp: int) -> None:
        self.origin = NO_ORIGIN._replace(timestamp=timestamp)
        try:
            f(timestamp)
        except Exception as error:
            try:
                self.judge(failing_node(error, self._node_of_code) or node, None, timestamp, (), error)
            except _Decided as decided:
                self._fail(decided)

    # the barrier

    def flush(self) -> None:
        """Let the cached stores forward what changed, upstream stores first, again until nothing is left.

        A node that is reached may write into a store that has had its turn, so one pass is not always enough.
        """
        try:
            for _ in range(MOST_FLUSHES):
                forwarded = [store.flush() for store in self.stores.values()]
                if not any(forwarded):
                    return
            cached = ", ".join(name for name, store in self.stores.items() if store.cached)
            raise ProcessingError(
                f"the cached stores {cached} still forward updates after {MOST_FLUSHES} passes of one barrier: a processor "
                "writes into a cached store upstream of itself whenever it is called, so that each update causes the next\n"
                "  remedy:   write only what has changed, or give that store cached=False",
                origin=self.origin,
            )
        except Exception as error:
            self._fail(error)

    def seal(self) -> dict[str, Sealed]:
        """Hand out the epoch's writes by store."""
        return {name: store.seal() for name, store in self.stores.items()}

    def apply(self, sealed: Mapping[str, Sealed]) -> None:
        """Write a committed epoch to the shard's state."""
        for name, writes in sealed.items():
            self.stores[name].apply(writes)

    def snapshot(self) -> dict[str, Any]:
        """Return what the changelogs do not tell of this task at a barrier: all that a new task needs besides its stores' rows.

        Plain data (text, whole numbers, lists): it goes into the epoch's record.

        ::

            stream_time   the greatest timestamp taken out for processing
            clocks        clock → [partition index, greatest timestamp]…
            punctuations  kind → how many each node has scheduled, when the next ones are due
            stores        store → times, sequence numbers, marks (``Store.snapshot``)
        """
        kept = {name: store.snapshot() for name, store in self.stores.items()}
        return {
            "stream_time": self.stream_time,
            "clocks": {name: [list(pair) for pair in clock.times.items()] for name, clock in self.clocks.items()},
            "punctuations": {kind.value: queue.snapshot() for kind, queue in self._punctuation.items()},
            "stores": {name: numbers for name, numbers in kept.items() if numbers},
        }

    def resume(self, snapshot: Mapping[str, Any]) -> None:
        """Go on where the task stood that gave the snapshot; to be called before the first record.

        Clocks and stores that are new since then begin as they would without it; what is no longer there is ignored.
        """
        self.stream_time = snapshot["stream_time"]
        for name, clock in self.clocks.items():
            clock.set((index, time) for index, time in snapshot["clocks"].get(name, ()))
        for kind, queue in self._punctuation.items():
            queue.resume(snapshot["punctuations"][kind.value])
        self.resume_stores(snapshot["stores"])

    def resume_stores(self, numbers: Mapping[str, Mapping[str, Any]]) -> None:
        """Take in what a task told of the stores that this one has, too; what a store knows better already it keeps."""
        for name, told in numbers.items():
            if name in self.stores:
                self.stores[name].resume(told)

    def close(self) -> None:
        """Close the user's processors, last opened first."""
        for f in reversed(self.close_calls):
            f()
        self.close_calls.clear()

    # failures

    def judge(
        self, node: str, record: Record[Any, Any] | None, timestamp: int, headers: Headers, error: Exception
    ) -> None:
        """Ask the processing policy about a node's failure; raises if it says fail."""
        if isinstance(error, _Decided):
            raise error
        explained = processing_error(error, node, self.origin, self._functions(node))
        answer = decide(self.config["on_processing_error"], explained, record)
        if answer == "fail":
            raise _Decided(explained)
        self.drop_at(node, "processing_error")
        if answer == "dead_letter":
            self.dead_letter(timestamp, headers, error)

    def dead_letter(self, timestamp: int, headers: Headers, error: BaseException) -> None:
        """Keep the raw source record of a failure in the dead-letter topic, inside the same barrier."""
        origin = self.origin
        topic = self.config["dead_letter_topic"]
        self.outputs.append(
            Row(topic, None, origin.key, origin.value, timestamp, error_headers(headers, origin, error), False, origin)
        )

    def _refuse(self, sink: SinkNode, key: Any, value: Any, timestamp: int, headers: Headers, error: Exception) -> None:
        explained = refused(sink, self.origin, error)
        answer = decide(self.config["on_production_error"], explained, Record(key, value, max(timestamp, 0), headers))
        if answer == "fail":
            raise explained
        self.drop_at(sink.name, "serialization_error")
        if answer == "dead_letter":
            self.dead_letter(timestamp, headers, error)

    def _fail(self, error: Exception) -> NoReturn:
        """Raise an exception with node, record and function; one that was judged already is raised as it is."""
        if isinstance(error, _Decided):
            explained = error.error
        else:
            node = failing_node(error, self._node_of_code)
            explained = processing_error(error, node, self.origin, self._functions(node))
        raise explained from explained.__cause__

    def _functions(self, node: str | None) -> tuple[Callable[..., Any], ...]:
        found = None if node is None else self.topology.node(node)
        if isinstance(found, SinkNode):
            return tuple(f for f in (found.extractor, found.partitioner) if f is not None)
        return found.operator.functions if isinstance(found, ProcessorNode) else ()

    # opening

    def _open_stores(self) -> dict[str, Any]:
        names = dict.fromkeys(store for node in self._order for store in self.topology.stores_of(node))
        return {
            name: open_store(self.topology.stores[name], self.state, self)
            for name in names
            if name not in self.global_stores
        }

    def _open_nodes(self) -> None:
        """Open children before parents, so that a parent's forward is its child itself."""
        opened: dict[str, Forward] = {}
        for name in reversed(self._order):
            node = self.topology.node(name)
            children = {child: opened[child] for child in self.topology.children(name)}
            forward = fan_out(tuple(children.values()))
            if isinstance(node, ProcessorNode):
                context = NodeContext(self, name, children, self.topology.stores_of(name))
                opened[name] = self._named(name, node.operator.open(context, forward))
            elif isinstance(node, SinkNode):
                # as in Kafka, a sink's failure is judged at the node before it
                opened[name] = self._with_name(open_sink(node, self, self._partitions, self._refuse), name)
            else:
                self.entries[name] = forward

    def _named(self, name: str, on_record: Forward) -> Forward:
        named = self._with_name(on_record, name)
        if self.topology.wrapper is not None:
            named = self._with_name(wrap(self.topology.wrapper, name, named), name)
        return guard(self, name, named) if self._guarded else named

    def _with_name(self, on_record: Forward, name: str) -> Forward:
        """Give a closure the name of its node, so that an exception below it is the node's."""
        named = name_code(on_record, name)
        code = getattr(named, "__code__", None)
        if code is not None:
            self._node_of_code[code] = name
        return named

    def _no_views(self, name: str) -> Any:
        return self.stores[name]


class _Decided(Exception):
    """A failure that the policy has judged: it passes every other guard on its way out."""

    def __init__(self, error: StreamsError) -> None:
        super().__init__(str(error))
        self.error = error


def fan_out(children: tuple[Forward, ...]) -> Forward:
    """Return how a node forwards: straight into its only child, or to each in order."""
    if len(children) == 1:
        return children[0]
    if not children:
        return _nowhere

    def forward(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        for child in children:
            child(key, value, timestamp, headers)

    return forward


def _nowhere(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
    """A node without children forwards to nobody."""


def wrap(wrapper: Wrapper, node: str, process: Forward) -> Forward:
    """Return what the user's wrapper makes of a node, as a plain function."""
    wrapped = wrapper(node, process)
    if not callable(wrapped) or not takes(wrapped, 4):
        raise TopologyError(
            f"the wrapper must return a function of (key, value, timestamp, headers), but for node {node!r} it returned "
            f"{wrapped!r}: {describe_function(wrapper)}"
        )
    if isinstance(wrapped, FunctionType):
        return wrapped

    def call(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        wrapped(key, value, timestamp, headers)

    return call


def guard(task: Task, node: str, on_record: Forward) -> Forward:
    """Wrap a node so that its failure is judged here, and only its subtree is skipped."""

    def guarded(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            on_record(key, value, timestamp, headers)
        except Exception as error:
            task.judge(node, Record(key, value, max(timestamp, 0), headers), timestamp, headers, error)

    return guarded
