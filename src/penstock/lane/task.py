"""A task: the nodes of a topology, or of one of its stages, open over one shard.

The closures of the nodes call each other directly; a node with one child forwards straight into it. The task owns what the nodes
share: the stores, the clocks, the record at hand, the rows that leave.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from types import FrameType
from typing import Any

from penstock.batch.batch import Batch
from penstock.batch.fallback import Undecodable
from penstock.clock import Clock
from penstock.errors import ProcessingError, TopologyError
from penstock.lane.closures import guard, wrap
from penstock.lane.context import NodeContext
from penstock.lane.error_handler import ErrorHandler
from penstock.lane.followed_table import FollowedTables
from penstock.lane.sink import Row, SinkBatch, open_sink
from penstock.lane.task_time import PUNCTUATED, WOKEN, TaskTime, released_at
from penstock.lane.timeline import NO_MOVES, Timelines
from penstock.lane.worker_log import record_at
from penstock.operators.async_map import Calls, CallSpec
from penstock.operators.base import Forward
from penstock.plan.batch_paths import BatchPaths
from penstock.plan.feeds import Feed, forwarded_at_once
from penstock.processor.node_meter import ALL_CALLS, ONE_OF, NodeMeter
from penstock.processor.punctuation import ONCE, Cancellable, PunctuationQueue, PunctuationType, merged_snapshots
from penstock.processor.resources import Resources
from penstock.processor.timers import Stoppable
from penstock.protocol.failed_records import FailureGroups
from penstock.protocol.failure import late_headers
from penstock.protocol.timing import feeds_of
from penstock.record import NO_ORIGIN, Headers, Origin
from penstock.schedule import Schedule
from penstock.serde import Serde
from penstock.state.base import MOST_FLUSHES, Sealed, ShardState
from penstock.state.cache import CacheBudget
from penstock.state.changes import TableChanges
from penstock.state.open import open_store
from penstock.state.spec import StoreKind
from penstock.topology.node import ProcessorNode, SinkNode, SourceNode
from penstock.topology.topology import Topology
from penstock.watermark import LatePolicy

#: of a task that runs without an epoch: global tables
NO_TIMELINES = Timelines(NO_MOVES, (), {}, {}, ())


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
        timelines: Timelines | None = None,
        feeds: Mapping[str, Feed] | None = None,
        resources: Resources | None = None,
        shards: int = 1,
        scopes: Mapping[str, tuple[Serde[Any], ...]] | None = None,
        batch_paths: BatchPaths | None = None,
        follows: Mapping[str, frozenset[str]] | None = None,
        changes: Mapping[str, TableChanges] | None = None,
        cache_bytes: int | None = None,
        meter: NodeMeter | None = None,
    ) -> None:
        self.topology = topology
        self.shard = shard
        self.state = state
        self.application_id = application_id
        self.config = config
        self.resources = Resources() if resources is None else resources
        #: how many shards there are, and by which serdes keys go to them, of nodes whose stores belong to keys (``Plan.scopes``)
        self.shards = shards
        self.scopes = scopes or {}
        self.clock = clock
        #: what cached stores may hold back
        self.cache = CacheBudget(cache_bytes)
        self.origin: Origin = NO_ORIGIN
        #: the place in the order of what time gives out at the moment; None while a record is at hand
        self.placed: Origin | None = None
        #: what was at hand before each row that time gives out at the moment: (record, its place)
        self._at_hand: list[tuple[Origin, Origin | None]] = []
        self.outputs: list[Row | SinkBatch] = []
        #: topics of ours whose records are only counted
        self._counted = counted
        self.dropped: dict[tuple[str, str], int] = {}
        #: records that a policy left out
        self.failures = FailureGroups()
        #: counts the records of the nodes; tasks of other shards may share it
        self.meter = NodeMeter() if meter is None else meter
        #: batches, or parts of them, that went to the record path, by node and reason
        self.fallbacks: dict[tuple[str, str], int] = {}
        self._feeds = feeds_of(topology) if feeds is None else feeds
        self.time = TaskTime(self, timelines or NO_TIMELINES, self._feeds)
        self.commit_requested = False
        self.global_stores = global_stores or {}
        self.views = views or self._no_views
        self.init_calls: dict[str, list[Callable[[], None]]] = {}
        self.close_calls: list[Callable[[], None]] = []
        self.barrier_calls: list[Callable[[], None]] = []
        self.calls = calls or self._no_calls
        self._wall_clock = PunctuationQueue(PunctuationType.WALL_CLOCK_TIME)
        #: how many partitions a topic has
        self.partitions_of = partitions
        #: asked about every failure
        self.errors = ErrorHandler(self)
        self._order = tuple(topology.nodes if nodes is None else nodes)
        sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode)]
        self.late_policies = frozenset(node.late for node in sources if node.late is not None) - {LatePolicy.accept}
        self._sources: dict[str | None, SourceNode | None] = {None: None}
        self._guarded = config["on_processing_error"] != "fail"
        self._sealed_schedule = False
        #: store → the first of its nodes
        self._keepers: dict[str, str] = {}
        self.stores: dict[str, Any] = self._open_stores()
        # where each update leaves as it is made, no batch can
        each = any(store.forwards_each for store in self.stores.values())
        self._batch_paths = None if each else batch_paths
        self._batch_path = None if self._batch_paths is None else self._batch_paths.open(self)
        #: tables that records come back to (``Plan.follows``)
        self.followed = FollowedTables(self, follows or {}, changes)
        self.entries: dict[str, Forward] = {}
        self._opened: dict[str, Forward] = {}
        self._open_nodes()
        for name in self._order:
            for initialise in self.init_calls.get(name, ()):
                initialise()
        self._watch_ends()
        self.time.in_order(self._order)
        self._sealed_schedule = for_one_epoch

    @property
    def position(self) -> Origin:
        """The origin of what is at hand: a record, or what time gives out."""
        return self.origin if self.placed is None else self.placed

    # records

    def process(self, source: str, key: Any, value: Any, timestamp: int, headers: Headers, origin: Origin) -> None:
        """Run one record through the nodes below a source."""
        self.process_all(source, [(key, value, timestamp, headers, origin)])

    def process_all(self, source: str, records: Iterable[tuple[Any, Any, int, Headers, Origin]]) -> None:
        """Run a batch of decoded records, in order: the hot loop of a lane.

        Punctuators of stream time run between records, as soon as they are due.
        """
        try:
            self.meter.within(source, self._process_all, source, iter(records))
        except Exception as error:
            self.errors.fail(error)

    def _process_all(self, source: str, records: Iterator[tuple[Any, Any, int, Headers, Origin]]) -> None:
        """Run records; of some of them the time at each node is measured."""
        count = ran = self._process_some(source, islice(records, 1))
        while ran:
            self.meter.measure_no_more()
            ran = self._process_some(source, islice(records, ONE_OF - 1))
            self.meter.measure_again()
            ran += self._process_some(source, islice(records, 1)) if ran == ONE_OF - 1 else 0
            count += ran
        self.meter.count_in(source, count)

    def _process_some(self, source: str, records: Iterable[tuple[Any, Any, int, Headers, Origin]]) -> int:
        """Run records in order; return how many there were."""
        entry, come_to, cursors, queues = self.entries[source], self.time.come_to, self.time.cursors, self.time.queues
        at_once, budget, count = self._at_once, self.cache if self.cache.counts else None, 0
        for key, value, timestamp, headers, origin in records:
            if cursors:
                come_to(origin, source)
            self.origin = origin
            entry(key, value, timestamp, headers)
            if at_once:
                self._forward_at_once()
            if budget is not None and budget.is_full:
                self._flush_stores()
            if queues:
                self.time.punctuate(origin, source)
            count += 1
        return count

    def takes_batch(self, *sources: str) -> bool:
        """Whether records of a source may go as a batch; of several sources: whether they may go together."""
        path = self._batch_path
        if path is None or not path.takes(sources):
            return False
        if not (self.time.waits and self.time.stops_batches(self._below(sources))):
            return True
        if self._batch_paths is not None and sources[0] not in self._batch_paths.reasons:  # not known to the plan
            self.fell_back(sources[0], "time_between_records")
        return False

    def _below(self, sources: Iterable[str]) -> set[str]:
        """Return the nodes that records of these sources reach."""
        found: set[str] = set()
        waiting = list(sources)
        while waiting:
            name = waiting.pop()
            found.add(name)
            waiting += [child for child in self.topology.children(name) if child not in found]
        return found

    def process_batch(self, source: str, batch: Batch) -> bool:
        """Run a batch; False, and nothing has happened, if its records have to go one by one."""
        if not self._run_batch(source, lambda path: path.run(source, batch)):
            return False
        self._has_run(source, batch)
        return True

    def process_together(self, parts: Mapping[str, Batch]) -> bool:
        """Run batches of several sources, whose records have places; False, and nothing has happened, if they have to go one by one."""
        if not self._run_batch(next(iter(parts)), lambda path: path.run_together(parts)):
            return False
        for source, batch in sorted(parts.items(), key=lambda part: int(part[1].places[-1])):
            self._has_run(source, batch)
        return True

    def process_at(self, node: str, batch: Batch) -> None:
        """Run a batch, which has come to a node, record by record through it and all below."""
        self.meter.count_in(node, len(batch))
        self.process_counted(node, batch)

    def process_counted(self, node: str, batch: Batch) -> None:
        """Run a batch so whose records were counted when they came to the node."""
        self.meter.within(node, self._process_at, node, batch)

    def _process_at(self, node: str, batch: Batch) -> None:
        on_record, cursors = self._opened[node], self.time.cursors
        for key, value, timestamp, headers, origin in batch.records():
            if cursors:
                self.time.visit(origin)
            self.origin = origin
            on_record(key, value, timestamp, headers)

    def _run_batch(self, source: str, run: Callable[[Any], bool]) -> bool:
        try:
            return bool(self.meter.within(source, run, self._batch_path, calls=ALL_CALLS))
        except Undecodable:
            raise
        except Exception as error:
            self.errors.fail(error)

    def _has_run(self, source: str, batch: Batch) -> None:
        self.meter.count_in(source, batch.count)
        self.origin = batch.origin(len(batch) - 1)
        if self.time.cursors:
            self.time.skip_to(self.origin)
        if self.cache.counts:
            self.cache.add(batch.size)
            if self.cache.is_full:
                self.flush_when_full()

    # what kernels ask for

    def kernel_context(self, node: str) -> NodeContext:
        """Return the context of a node's kernel."""
        return NodeContext(self, node, {}, self.topology.stores_of(node))

    def is_counted(self, topic: str) -> bool:
        """Whether the records of a topic of ours are only counted."""
        return topic in self._counted

    def emit_batch(self, sink: SinkNode, partitions: list[int] | None, keys: Any, values: Any, batch: Batch) -> None:
        """Let records leave together."""
        self.outputs.append(SinkBatch(sink, self.shard, partitions, keys, values, batch))

    def refuse_at(self, sink: SinkNode, batch: Batch, errors: Mapping[int, Exception]) -> None:
        """Ask the production policy about records that the serdes of a sink have refused, by their places."""
        for at, error in sorted(errors.items()):
            self.origin = batch.origin(at)
            headers = () if batch.headers is None else batch.headers[at]
            record = batch.keys.items[at], batch.values.items[at], int(batch.timestamps[at]), headers
            self.errors.refuse(sink, *record, error)

    def fell_back(self, node: str, reason: str) -> None:
        """Count a batch, or a part of one, that goes to the record path."""
        self.fallbacks[node, reason] = self.fallbacks.get((node, reason), 0) + 1

    def take_rows(self) -> list[Row]:
        """Return the single rows that have left, once."""
        rows = [row for row in self.outputs if isinstance(row, Row)]
        self.outputs.clear()
        return rows

    def log_fields(self, frame: FrameType | None) -> dict[str, Any]:
        """Return what a line that is logged now is about: the node, and the record if records go one by one."""
        if (node := self.errors.node_at(frame)) is not None:
            return {"shard": self.shard, "node": node, **record_at(self.origin)}
        return {"shard": self.shard} | ({} if self.meter.working is None else {"node": self.meter.working})

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
        if punctuation is PunctuationType.STREAM_TIME:
            return self.time.queue_of(node).schedule(node, every, f, start, self.time.now_of(node))
        return self._wall_clock.schedule(node, every, f, start, self.clock.now_ms())

    def schedule_at(self, node: str, schedule: Schedule, f: Callable[[int], None]) -> Cancellable:
        """Register what a source does at the times of a schedule."""
        return self._wall_clock.schedule_at(node, schedule, f, self.clock.now_ms())

    def runs(self, node: str) -> bool:
        """Whether a node is one of this task's."""
        return node in self._order

    def times_of(self, clock: str, batch: Batch, *, included: bool) -> Any:
        """Return the time of a clock at many records: with each of them, or without it."""
        return self.time.of_records(clock, batch, included=included)

    def times_at_most(self, clock: str, batch: Batch) -> Any:
        """Return times that a clock has not passed at many records; None: nothing is known."""
        return self.time.at_most(clock, batch)

    def begin(self) -> None:
        """Do what time has made due since the last barrier without a record: partitions that are idle, the wall clock."""
        self.time.begin()

    def finish(self) -> None:
        """Come to the time at the end of the epoch; what that makes due leaves."""
        self.time.finish()

    @property
    def wall_clock_due(self) -> int | None:
        """When the next punctuation by the wall clock is due, or None."""
        return self._wall_clock.due

    def punctuate(self) -> bool:
        """Run what is due by the wall clock; True if something ran."""
        return self._wall_clock.punctuate(
            self.clock.now_ms(), lambda node, f, time: self.run_punctuator(node, f, time, NO_ORIGIN)
        )

    def run_punctuator(self, node: str, f: Callable[[int], None], timestamp: int, origin: Origin) -> None:
        """Call a punctuator or timer. Its rows come behind those of the record that moved time, of several shards in their order."""
        sub = (WOKEN, self.shard) if origin.topic is None else (PUNCTUATED, self._numbers[node], self.shard)
        self.placed = origin._replace(key=None, value=None, headers=(), sub=sub)
        self.origin = NO_ORIGIN._replace(timestamp=timestamp)
        self.meter.count("punctuations_total", node, "wall_clock" if origin.topic is None else "stream")
        try:
            self.meter.timed(node, f, timestamp)
            self._forward_at_once()
        except Exception as error:
            self.errors.handle_timed(node, timestamp, error)
        finally:
            self.placed = None

    def run_timed(self, node: str, f: Callable[[int], None], now: int, origin: Origin) -> None:
        """Let a node give out what is due at a move of time."""
        self.origin = origin
        try:
            self.meter.timed(node, f, now)
            self._forward_at_once()
        except Exception as error:
            self.errors.handle_timed(node, now, error)

    def release(self, node: str, time: int, key: bytes) -> None:
        """Give what the node forwards next its place in the order: it leaves because time has come, and was due then.

        Invariant: whoever calls this calls ``released`` when the row has gone.
        """
        due = time + self.time.clock(self._clock_of(node)).hold
        self._at_hand.append((self.origin, self.placed))
        self.time.cap()
        self.placed = self.origin = released_at(self.origin, self._release_numbers[node], due, key)

    def _clock_of(self, node: str) -> str:
        """Return the clock that a node goes by: its own, or that of both sides of a join."""
        found = self.topology.nodes[node]
        assert isinstance(found, ProcessorNode)
        return found.operator.shared_clock or node

    def released(self) -> None:
        """The row has gone: the record at hand is that of before. What it has changed in a cache leaves with it, at its time."""
        if self._at_once:
            self._forward_at_once()
        self.time.uncap()
        self.origin, self.placed = self._at_hand.pop()
        if self._at_hand:  # the row was given out while another one is on its way
            self.time.cap()

    @cached_property
    def _release_numbers(self) -> dict[str, int]:
        """Return the numbers of nodes, the two sides of a join with that of the first: either may give out the unmatched rows of both."""
        numbers, specs = dict(self._numbers), self.topology.stores
        shared: dict[str, int] = {}
        for node in self.topology.nodes:
            for store in self.topology.stores_of(node):
                if specs[store].kind is StoreKind.OUTER_JOIN:
                    numbers[node] = shared.setdefault(store, numbers[node])
        return numbers

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {node: number for number, node in enumerate(self.topology.nodes)}

    # the barrier

    def flush(self) -> None:
        """Let the cached stores forward what changed, then wait for the calls that the records of the epoch have started."""
        try:
            self._flush_stores()
            for settle in self.barrier_calls:
                settle()
        except Exception as error:
            self.errors.fail(error)

    def flush_when_full(self) -> None:
        """Let the cached stores forward in the middle of an epoch; they go on with an empty cache."""
        try:
            self._flush_stores()
        except Exception as error:
            self.errors.fail(error)

    def _forward_at_once(self) -> None:
        """Let the stores forward what has changed whose updates reach a node that acts on time: it is to get each at its time."""
        for store in self._at_once:
            store.flush()

    def _flush_stores(self) -> None:
        """Let the cached stores forward what changed, upstream stores first, again until nothing is left.

        A node that is reached may write into a store that has had its turn, so one pass is not always enough.
        """
        for _ in range(MOST_FLUSHES):
            forwarded = [self.meter.within(self._keepers[name], store.flush) for name, store in self.stores.items()]
            if not any(forwarded):
                self.cache.clear()
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
        return {name: store.seal() for name, store in self.stores.items() if not self.followed.only_reads(name)}

    def apply(self, sealed: Mapping[str, Sealed]) -> None:
        """Write a committed epoch to the shard's state."""
        for name, writes in sealed.items():
            self.stores[name].apply(writes)
        self.followed.forget()

    def snapshot(self) -> dict[str, Any]:
        """Return what the changelogs do not tell of this task at a barrier: all that a new task needs besides its stores' rows.

        Plain data (text, whole numbers, lists): it goes into the epoch's record.

        ::

            punctuations  kind → how many each node has scheduled, when the next ones are due
            due           feed → the time that the task knows, the least time at which a node has something to do without a record
            stores        store → times, sequence numbers, marks (``Store.snapshot``)
        """
        kept = {name: store.snapshot() for name, store in self.stores.items()}
        return {
            "punctuations": {
                "stream_time": merged_snapshots(queue.snapshot() for queue in self.time.queues.values()),
                "wall_clock_time": self._wall_clock.snapshot(),
            },
            "due": self.time.due(),
            "stores": {name: numbers for name, numbers in kept.items() if numbers},
        }

    def resume(self, snapshot: Mapping[str, Any]) -> None:
        """Go on where the task stood that gave the snapshot; to be called before the first record.

        Stores that are new since then begin as they would without it; what is no longer there is ignored.
        """
        for queue in self.time.queues.values():
            queue.resume(snapshot["punctuations"]["stream_time"])
        self._wall_clock.resume(snapshot["punctuations"]["wall_clock_time"])
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
        for node in self._order:
            for name in self.topology.stores_of(node):
                self._keepers.setdefault(name, node)
        opened = {
            name: open_store(self.topology.stores[name], self.state, self)
            for name in self._keepers
            if name not in self.global_stores
        }
        self.at_once = forwarded_at_once(self.topology).intersection(
            name for name, store in opened.items() if store.cached
        )
        self._at_once = [opened[name] for name in opened if name in self.at_once]
        for name, store in opened.items():
            if store.keeps_time:
                self.time.add_store(name, store)
        return opened

    def _watch_ends(self) -> None:
        """Let rows that end by time leave, and those downstream hear of it, in front of the first record whose time it is."""
        for node in self._order:
            for name in self.topology.stores_of(node):
                store = self.stores.get(name)
                if store is not None and store.spec.ttl is not None and store.keeps_time:
                    self.time.add_call(node, f"store/{name}", store.expire, store.earliest_end)

    def _open_nodes(self) -> None:
        """Open children before parents, so that a parent's forward is its child itself."""
        opened = self._opened
        for name in reversed(self._order):
            node = self.topology.node(name)
            children, forward = self._edges(name)
            if isinstance(node, ProcessorNode):
                context = NodeContext(self, name, children, self.topology.stores_of(name))
                opened[name] = self._named(name, node.operator.open(context, forward))
            elif isinstance(node, SinkNode):
                # as in Kafka, a sink's failure is handled at the node before it
                opened[name] = self.errors.named(open_sink(node, self, self.partitions_of, self.errors.refuse), name)
            else:
                self.entries[name] = forward
                if node.schedule is not None:
                    node.schedule.open(NodeContext(self, name, children, ()), forward)

    def _edges(self, name: str) -> tuple[dict[str, Forward], Forward]:
        """Return the ways from a node to each of the next ones, and to all of them in order."""
        below = tuple((child, self._opened[child]) for child in self.topology.children(name))
        children = {child: self.meter.edge(name, ((child, on_record),)) for child, on_record in below}
        return children, next(iter(children.values())) if len(children) == 1 else self.meter.edge(name, below)

    def _named(self, name: str, on_record: Forward) -> Forward:
        named = self.errors.named(on_record, name)
        if self.topology.wrapper is not None:
            named = self.errors.named(wrap(self.topology.wrapper, name, named), name)
        return guard(self.errors.handle, name, named) if self._guarded else named

    def _no_views(self, name: str) -> Any:
        return self.stores[name]

    def _no_calls(self, node: str, spec: CallSpec) -> Calls:
        raise TopologyError(f"node {node} makes asynchronous calls, but runs where there is nobody to make them")
