"""A task: the nodes of a topology, or of one of its stages, open over one shard.

The closures of the nodes call each other directly; a node with one child forwards straight into it. The task owns what the nodes
share: the stores, the clocks, the record at hand, the rows that leave.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import islice
from types import FrameType
from typing import Any

from penstock.batch.batch import Batch
from penstock.clock import Clock
from penstock.errors import ProcessingError, TopologyError
from penstock.lane.error_handler import ErrorHandler
from penstock.lane.followed_table import FollowedTables
from penstock.lane.sink import Row, SinkBatch
from penstock.lane.task_batches import TaskBatches
from penstock.lane.task_opening import open_nodes, open_stores, watch_ends
from penstock.lane.task_punctuation import TaskPunctuation
from penstock.lane.task_time import TaskTime
from penstock.lane.timeline import NO_MOVES, Timelines
from penstock.lane.worker_log import record_at
from penstock.operators.async_map import Calls, CallSpec
from penstock.operators.base import Forward
from penstock.plan.batch_paths import BatchPaths
from penstock.plan.feeds import Feed, forwarded_at_once
from penstock.processor.node_meter import ONE_OF, NodeMeter
from penstock.processor.punctuation import merged_snapshots
from penstock.processor.resources import Resources
from penstock.protocol.failed_records import FailureGroups
from penstock.protocol.failure import late_headers
from penstock.protocol.timing import feeds_of
from penstock.record import NO_ORIGIN, Headers, Origin
from penstock.serde import Serde
from penstock.state.base import MOST_FLUSHES, Sealed, ShardState
from penstock.state.buffer import BufferStore
from penstock.state.cache import CacheBudget
from penstock.state.changes import TableChanges
from penstock.topology.node import SourceNode
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
        self.outputs: list[Row | SinkBatch] = []
        self.dropped: dict[tuple[str, str], int] = {}
        #: records that a policy left out
        self.failures = FailureGroups()
        #: counts the records of the nodes; tasks of other shards may share it
        self.meter = NodeMeter() if meter is None else meter
        self._feeds = feeds_of(topology) if feeds is None else feeds
        self.time = TaskTime(self, timelines or NO_TIMELINES, self._feeds)
        self.commit_requested = False
        self.global_stores = global_stores or {}
        self.views = views or self._no_views
        self.init_calls: dict[str, list[Callable[[], None]]] = {}
        self.close_calls: list[Callable[[], None]] = []
        self.barrier_calls: list[Callable[[], None]] = []
        self.calls = calls or self._no_calls
        self.punctuation = TaskPunctuation(self)
        #: how many partitions a topic has
        self.partitions_of = partitions
        #: asked about every failure
        self.errors = ErrorHandler(self)
        self.order = tuple(topology.nodes if nodes is None else nodes)
        sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode)]
        self.late_policies = frozenset(node.late for node in sources if node.late is not None) - {LatePolicy.accept}
        self._sources: dict[str | None, SourceNode | None] = {None: None}
        #: store → the first of its nodes
        self.keepers: dict[str, str] = {}
        self.stores: dict[str, Any] = open_stores(self)
        self.at_once = forwarded_at_once(topology).intersection(
            name for name, store in self.stores.items() if store.cached
        )
        self._at_once = [store for name, store in self.stores.items() if name in self.at_once]
        #: the batch path
        self.batches = TaskBatches(self, batch_paths, counted)
        #: tables that records come back to (``Plan.follows``)
        self.followed = FollowedTables(self, follows or {}, changes)
        self.entries: dict[str, Forward] = {}
        self.opened: dict[str, Forward] = {}
        open_nodes(self)
        for name in self.order:
            for initialise in self.init_calls.get(name, ()):
                initialise()
        watch_ends(self)
        self.time.in_order(self.order)
        self.punctuation.sealed = for_one_epoch

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
                self.forward_at_once()
            if budget is not None and budget.is_full:
                self._flush_stores()
            if queues:
                self.time.punctuate(origin, source)
            count += 1
        return count

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
            self.meter.count("records_late_total", "dead_letter")
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

    def runs(self, node: str) -> bool:
        """Whether a node is one of this task's."""
        return node in self.order

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
        """Advance to the time at the end of the epoch; what that makes due leaves."""
        self.time.finish()

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

    def forward_at_once(self) -> None:
        """Let the stores forward what has changed whose updates reach a node that acts on time: it is to get each at its time."""
        for store in self._at_once:
            store.flush()

    def _flush_stores(self) -> None:
        """Let the cached stores forward what changed, upstream stores first, again until nothing is left.

        A node that is reached may write into a store that has had its turn, so one pass is not always enough.
        """
        for _ in range(MOST_FLUSHES):
            forwarded = [self.meter.within(self.keepers[name], store.flush) for name, store in self.stores.items()]
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

    def buffers(self) -> list[tuple[str, BufferStore]]:
        """Return the buffers of the suppress nodes."""
        return [(name, store) for name, store in self.stores.items() if isinstance(store, BufferStore)]

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
                "wall_clock_time": self.punctuation.wall_clock.snapshot(),
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
        self.punctuation.wall_clock.resume(snapshot["punctuations"]["wall_clock_time"])
        self.resume_stores(snapshot["stores"])

    def resume_stores(self, numbers: Mapping[str, Mapping[str, Any]]) -> None:
        """Observe what a task told of the stores that this one has, too; what a store knows better already it keeps."""
        for name, told in numbers.items():
            if name in self.stores:
                self.stores[name].resume(told)

    def close(self) -> None:
        """Close the user's processors, last opened first."""
        for f in reversed(self.close_calls):
            f()
        self.close_calls.clear()

    def _no_views(self, name: str) -> Any:
        return self.stores[name]

    def _no_calls(self, node: str, spec: CallSpec) -> Calls:
        raise TopologyError(f"node {node} makes asynchronous calls, but runs where there is nobody to make them")
