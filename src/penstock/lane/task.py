"""A task: the nodes of a topology, or of one of its stages, open over one shard.

The closures of the nodes call each other directly; a node with one child forwards straight into it. The task owns what the nodes
share: the stores, the clocks, the record at hand, the rows that leave.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import Any

from penstock.clock import Clock
from penstock.errors import ProcessingError, TopologyError
from penstock.lane.by_column import ByColumn
from penstock.lane.closures import fan_out, guard, wrap
from penstock.lane.contain import records
from penstock.lane.context import NodeContext
from penstock.lane.failure import late_headers
from penstock.lane.judge import Judge
from penstock.lane.sink import Row, SinkColumns, open_sink
from penstock.lane.timing import Told
from penstock.operators.async_map import Calls, CallSpec
from penstock.operators.base import Forward, MarkedTime, ObservedTime
from penstock.processor.punctuation import ONCE, Cancellable, PunctuationQueue, PunctuationType
from penstock.processor.timers import Stoppable
from penstock.record import NO_ORIGIN, Headers, Origin
from penstock.schedule import Schedule
from penstock.serde.columns import Columns, Unreadable
from penstock.state.base import Sealed, ShardState
from penstock.state.open import open_store
from penstock.topology.node import ProcessorNode, SinkNode, SourceNode
from penstock.topology.topology import Topology
from penstock.watermark import LatePolicy

#: the order of rows that time gives out at the end of an epoch: behind those of all records
AT_THE_END = 1 << 62
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
        for_one_epoch: bool = False,
        calls: Callable[[str, CallSpec], Calls] | None = None,
        counted: Container[str] = (),
    ) -> None:
        self.topology = topology
        self.shard = shard
        self.state = state
        self.application_id = application_id
        self.config = config
        self.clock = clock
        self.origin: Origin = NO_ORIGIN
        self.stream_time = -1
        self.outputs: list[Row | SinkColumns] = []
        #: topics of ours whose records are only counted
        self.counted = counted
        self.dropped: dict[tuple[str, str], int] = {}
        self.clocks: dict[str, ObservedTime] = {}
        #: node → its clock; and what it does when time is told, with what says when that is due
        self.clock_names: dict[str, str] = {}
        self.time_calls: dict[str, list[tuple[Callable[[int], None], Callable[[], int | None]]]] = {}
        self.commit_requested = False
        self._at_end = False
        self.global_stores = global_stores or {}
        self.views = views or self._no_views
        self.init_calls: dict[str, list[Callable[[], None]]] = {}
        self.close_calls: list[Callable[[], None]] = []
        self.barrier_calls: list[Callable[[], None]] = []
        self.calls = calls or self._no_calls
        self._punctuation = {kind: PunctuationQueue(kind) for kind in PunctuationType}
        #: how many partitions a topic has
        self.partitions_of = partitions
        #: asked about every failure
        self.judge = Judge(self)
        self._order = tuple(topology.nodes if nodes is None else nodes)
        sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode)]
        self.late_policies = frozenset(node.late for node in sources if node.late is not None) - {LatePolicy.accept}
        self._has_marks = any(_is_marked(node) for node in sources)
        self._sources: dict[str | None, SourceNode | None] = {None: None}
        #: where sources have watermark strategies: the watermark of the record at hand (None: its source has none)
        self.watermark: Callable[[], int | None] | None = self._watermark if self._has_marks else None
        self._guarded = config["on_processing_error"] != "fail"
        self._sealed_schedule = False
        self._columns = ByColumn(self, plain=not self._has_marks and topology.wrapper is None)
        self.stores: dict[str, Any] = self._open_stores()
        self.entries: dict[str, Forward] = {}
        self._opened: dict[str, Forward] = {}
        self._open_nodes()
        for name in self._order:
            for initialise in self.init_calls.get(name, ()):
                initialise()
        self._sealed_schedule = for_one_epoch

    # records

    def process(self, source: str, key: Any, value: Any, timestamp: int, headers: Headers, origin: Origin) -> None:
        """Run one record through the nodes below a source."""
        self.origin = origin
        self._reach(timestamp)
        try:
            self.entries[source](key, value, timestamp, headers)
        except Exception as error:
            self.judge.fail(error)

    def _reach(self, timestamp: int) -> None:
        """Let stream time come to that of the record at hand, or to its watermark."""
        if self._has_marks and self.marked(self.origin.topic):
            timestamp = self.origin.floor
        if timestamp > self.stream_time:
            self.stream_time = timestamp

    def process_all(self, source: str, records: Iterable[tuple[Any, Any, int, Headers, Origin]]) -> None:
        """Run a batch of decoded records, in order: the hot loop of a lane.

        Punctuators of stream time run between records, as soon as they are due.
        """
        if self._has_marks:
            self._process_marked(source, records)
            return
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
            self.judge.fail(error)

    def takes_columns(self, *sources: str) -> bool:
        """Whether records of a source may go by column; of several sources: whether they may go together."""
        if self._punctuation[PunctuationType.STREAM_TIME].waiting:
            return False
        return self._columns.takes(*sources) if len(sources) == 1 else self._columns.takes_together(sources)

    def process_columns(self, source: str, columns: Columns) -> bool:
        """Run many records by column; False, and nothing has happened, if they have to go one by one."""
        if not self._run_columns(partial(self._columns.run, source, columns)):
            return False
        self._has_run(columns)
        return True

    def process_together(self, parts: Mapping[str, Columns]) -> bool:
        """Run records of several sources, which have places, by column; False, and nothing has happened, if they have to go one by one."""
        if not self._run_columns(partial(self._columns.run_together, parts)):
            return False
        for columns in sorted(parts.values(), key=lambda columns: int(columns.places[-1])):
            self._has_run(columns)
        return True

    def process_at(self, node: str, columns: Columns) -> None:
        """Run records by column, which have come to a node, one by one through it and all below."""
        on_record = self._opened[node]
        for key, value, timestamp, headers, origin in records(columns):
            self.origin = origin
            on_record(key, value, timestamp, headers)

    def _run_columns(self, run: Callable[[], bool]) -> bool:
        try:
            return run()
        except Unreadable:
            raise
        except Exception as error:
            self.judge.fail(error)

    def _has_run(self, columns: Columns) -> None:
        self.stream_time = max(self.stream_time, int(columns.timestamps.max()))
        self.origin = columns.origin(len(columns) - 1)

    def _process_marked(self, source: str, records: Iterable[tuple[Any, Any, int, Headers, Origin]]) -> None:
        for record in records:
            self.process(source, *record)
            self.punctuate(PunctuationType.STREAM_TIME)

    def drop_at(self, node: str, reason: str) -> None:
        """Count a dropped record."""
        counter = (node, reason)
        self.dropped[counter] = self.dropped.get(counter, 0) + 1

    def drop(self, reason: str) -> None:
        """Count a record that a store dropped."""
        self.drop_at("store", reason)

    def drop_late(self, node: str, reason: str, start: int, end: int, now: int) -> None:
        """Count a record that is too late for a window; keep it in the dead-letter topic if its source says so."""
        self.drop_at(node, reason)
        source = self.source_of(self.origin.topic)
        if source is not None and source.late is LatePolicy.dead_letter:
            origin = self.origin
            headers = late_headers(origin, node, start, end, now)
            topic = self.config["dead_letter_topic"]
            self.outputs.append(Row(topic, None, origin.key, origin.value, origin.timestamp, headers, False, origin))

    # sources

    def source_of(self, topic: str | None) -> SourceNode | None:
        """Return the source that reads a topic of the user's."""
        if topic not in self._sources:
            nodes = [
                node for node in self.topology.nodes.values() if isinstance(node, SourceNode) and not node.internal
            ]
            self._sources[topic] = next((node for node in nodes if node.reads(topic)), None)
        return self._sources[topic]

    def marked(self, topic: str | None) -> bool:
        """Whether the source of a topic has a watermark strategy that is not the default."""
        source = self.source_of(topic)
        return source is not None and _is_marked(source)

    def _watermark(self) -> int | None:
        return self.origin.floor if self.marked(self.origin.topic) else None

    # time

    def schedule(
        self, node: str, every: int, punctuation: PunctuationType, f: Callable[[int], None], start: int | None
    ) -> Stoppable:
        """Register a punctuation of a node. In the runtime ``init`` alone may do it: a task is made anew for every epoch."""
        if self._sealed_schedule and every != ONCE:
            raise TopologyError(
                f"node {node} calls schedule() outside of init: a processor object lives for one epoch, so the punctuation would be "
                "lost with it\n  remedy:   schedule it in init(), and keep in a store whether it has anything to do; or set timers, "
                "which are state: stores=[Stores.timers(name)] and context.timers"
            )
        now = self.stream_time if punctuation is PunctuationType.STREAM_TIME else self.clock.now_ms()
        return self._punctuation[punctuation].schedule(node, every, f, start, now)

    def schedule_at(self, node: str, schedule: Schedule, f: Callable[[int], None]) -> Cancellable:
        """Register what a source does at the times of a schedule."""
        return self._punctuation[PunctuationType.WALL_CLOCK_TIME].schedule_at(node, schedule, f, self.clock.now_ms())

    def runs(self, node: str) -> bool:
        """Whether a node is one of this task's."""
        return node in self._order

    def clock_named(self, name: str) -> ObservedTime:
        """Return the clock of this name, made when it is first asked for."""
        if name not in self.clocks:
            self.clocks[name] = MarkedTime(self) if self._has_marks else ObservedTime(self)
        return self.clocks[name]

    def meet(self, told: Told, nodes: Container[str] | None = None) -> None:
        """Let the clocks know, before the records of an epoch, how far the sources have come; nothing is given out.

        A clock behind a node that holds results back hears only of source partitions that it has seen nothing of: what comes
        out in this epoch may be older than the rest. A store hears of those, too: nothing of it expires before their time.
        """
        for node in self._order:
            if nodes is not None and node not in nodes:
                continue
            name = self.clock_names.get(node, node)
            pairs = told.clocks.get(name)
            if pairs is None:
                continue
            if name in self.clocks:
                clock = self.clocks[name]
                (clock.meet if name in told.behind else clock.see_all)(pairs)
            for store in self.topology.stores_of(node):
                if store in self.stores:
                    self.stores[store].meet(pairs, name in told.behind)

    def tell(self, told: Told, nodes: Container[str] | None = None) -> None:
        """Let the clocks know how far the sources have come over all shards, and give out what that makes due.

        Node by node, upstream first: what a node gives out meets clocks behind it that are not told yet. ``nodes``: of these
        only. To be called when the records of the epoch are done and the caches have forwarded; they have to once more, then.
        """
        told_of: set[str] = set()  # a shard that sees every record itself is told of idle partitions only
        for name in self._order:
            clock = self.clocks.get(self.clock_names.get(name, ""))
            if clock is None or (nodes is not None and name not in nodes):
                continue
            pairs = told.clocks.get(self.clock_names[name])
            if pairs is None:
                continue
            before = clock.now
            clock.take(pairs)
            if clock.now > before or max((time for _, time in pairs), default=-1) >= 0:
                told_of.add(self.clock_names[name])
            for call, _ in self.time_calls.get(name, ()) if self.clock_names[name] in told_of else ():
                self._run_timed(name, call, clock.now)
            for store in self.topology.stores_of(name):
                if store in self.stores:
                    self.stores[store].take(pairs)
        if told.stream_time > self.stream_time:
            self.stream_time = told.stream_time
            self._at_end = True
            self.punctuate(PunctuationType.STREAM_TIME)
            self._at_end = False

    def _run_timed(self, node: str, f: Callable[[int], None], now: int) -> None:
        self._at_end = True
        self._run_punctuator(node, f, now)
        self._at_end = False

    def _due(self, nodes: Container[str] | None = None) -> dict[str, int]:
        """Return, by clock, the least time at which a node has something to give."""
        found: dict[str, int] = {}
        for node, calls in self.time_calls.items():
            if nodes is not None and node not in nodes:
                continue
            name = self.clock_names[node]
            for _, due in calls:
                at = due()
                if at is not None:
                    found[name] = min(at, found.get(name, at))
        return found

    def punctuate(self, punctuation: PunctuationType) -> bool:
        """Run what is due now; True if something ran."""
        if punctuation is PunctuationType.STREAM_TIME:
            return self.stream_time >= 0 and self._punctuation[punctuation].punctuate(
                self.stream_time, self._run_punctuator
            )
        return self._punctuation[punctuation].punctuate(self.clock.now_ms(), self._run_punctuator)

    def _run_punctuator(self, node: str, f: Callable[[int], None], timestamp: int) -> None:
        # rows for other steps: in front of the epoch's records, or behind them; of several shards in their order
        reached = AT_THE_END if self._at_end else NO_ORIGIN.reached
        self.origin = NO_ORIGIN._replace(timestamp=timestamp, reached=reached, sub=(self.shard,))
        try:
            f(timestamp)
        except Exception as error:
            self.judge.judge_timed(node, timestamp, error)

    # the barrier

    def flush(self) -> None:
        """Let the cached stores forward what changed, then wait for the calls that the records of the epoch have started."""
        try:
            self._flush_stores()
            for settle in self.barrier_calls:
                settle()
        except Exception as error:
            self.judge.fail(error)

    def _flush_stores(self) -> None:
        """Let the cached stores forward what changed, upstream stores first, again until nothing is left.

        A node that is reached may write into a store that has had its turn, so one pass is not always enough.
        """
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
            due           clock → the least time at which a node has something to give without a record
            stores        store → times, sequence numbers, marks (``Store.snapshot``)
        """
        times = self.times()
        kept = {name: store.snapshot() for name, store in self.stores.items()}
        return {**times, "stores": {name: numbers for name, numbers in kept.items() if numbers}}

    def times(self, nodes: Container[str] | None = None) -> dict[str, Any]:
        """Return the part of the snapshot that is about time; ``nodes``: what is due of these only."""
        return {
            "stream_time": self.stream_time,
            "clocks": {name: [list(pair) for pair in clock.times.items()] for name, clock in self.clocks.items()},
            "punctuations": {kind.value: queue.snapshot() for kind, queue in self._punctuation.items()},
            "due": self._due(nodes),
        }

    def resume(self, snapshot: Mapping[str, Any]) -> None:
        """Go on where the task stood that gave the snapshot; to be called before the first record.

        Clocks and stores that are new since then begin as they would without it; what is no longer there is ignored.
        """
        self.stream_time = snapshot["stream_time"]
        for name, times in snapshot["clocks"].items():
            if name in self.clocks or self.runs(name):  # a node that asks whether a record is late makes its clock then
                self.clock_names.setdefault(name, name)
                self.clock_named(name).set((index, time) for index, time in times)
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
        opened = self._opened
        for name in reversed(self._order):
            node = self.topology.node(name)
            children = {child: opened[child] for child in self.topology.children(name)}
            forward = fan_out(tuple(children.values()))
            if isinstance(node, ProcessorNode):
                context = NodeContext(self, name, children, self.topology.stores_of(name))
                opened[name] = self._named(name, node.operator.open(context, forward))
            elif isinstance(node, SinkNode):
                # as in Kafka, a sink's failure is judged at the node before it
                opened[name] = self.judge.named(open_sink(node, self, self.partitions_of, self.judge.refuse), name)
            else:
                self.entries[name] = forward
                if node.schedule is not None:
                    node.schedule.open(NodeContext(self, name, children, ()), forward)

    def _named(self, name: str, on_record: Forward) -> Forward:
        named = self.judge.named(on_record, name)
        if self.topology.wrapper is not None:
            named = self.judge.named(wrap(self.topology.wrapper, name, named), name)
        return guard(self.judge.judge, name, named) if self._guarded else named

    def _no_views(self, name: str) -> Any:
        return self.stores[name]

    def _no_calls(self, node: str, spec: CallSpec) -> Calls:
        raise TopologyError(f"node {node} makes asynchronous calls, but runs where there is nobody to make them")


def _is_marked(source: SourceNode) -> bool:
    return source.watermark is not None and not source.watermark.moves_with_timestamps
