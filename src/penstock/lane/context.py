"""What an operator sees of its task: one per node, thin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.batch.batch import Batch
from penstock.errors import StoreError, nearest
from penstock.operators.async_map import Calls, CallSpec
from penstock.operators.base import Forward
from penstock.processor.punctuation import Cancellable
from penstock.processor.scope import GlobalStoreView, KeyScope, ScopedStore
from penstock.processor.timers import Stoppable
from penstock.processor.user_metrics import CollectedMetrics
from penstock.record import Headers, Origin, Record
from penstock.schedule import Schedule
from penstock.serde import Serdes
from penstock.state.event_time import EventTime
from penstock.topology.node import ProcessorNode, SourceNode
from penstock.topology.topology import Topology
from penstock.watermark import LatePolicy

if TYPE_CHECKING:
    from penstock.lane.task import Task


class NodeContext:
    """The context of one node in one task; see ``operators.base.OperatorContext``."""

    def __init__(self, task: Task, node: str, children: Mapping[str, Forward], stores: tuple[str, ...]) -> None:
        self._task = task
        self.stores = stores
        self.node = node
        self.children = children
        self.application_id = task.application_id
        self.shard = task.shard
        self.config = task.config
        self.resources = task.resources
        self._handles: dict[str, Any] = {}
        #: whether records come straight from topics of the user's, so that they have the time and headers of their origin
        self.is_first = task.topology.wrapper is None and _is_first(task.topology, node)

    @property
    def origin(self) -> Origin:
        """Coordinates of the record at hand."""
        return self._task.origin

    @origin.setter
    def origin(self, origin: Origin) -> None:
        self._task.origin = origin

    @property
    def stream_time(self) -> int:
        """How far the sources of the node have come."""
        return self._task.time.now_of(self.node)

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds."""
        return self._task.clock.now_ms()

    def store(self, name: str) -> Any:
        """Return a connected store, or a global one."""
        if name in self._task.global_stores:
            return self._task.global_stores[name]
        if name not in self.stores:
            reachable = [*self.stores, *self._task.global_stores]
            raise StoreError(
                f"node {self.node} has no access to the store {name!r}{nearest(name, reachable)}: connected are {reachable}. "
                "Connect it with stores=[...] in process(), or with topology.connect(processor, store)"
            )
        return self._task.followed.table(self.node, name) or self._task.stores[name]

    def user_store(self, name: str) -> Any:
        """Return a store as user code is handed it: its own for the keys of its shard, a global one to be read."""
        handle = self._handles.get(name)
        if handle is None:
            store, check = self.store(name), self.key_check(name)
            if name in self._task.global_stores:
                handle = GlobalStoreView(store, self.node)
            else:
                handle = store if check is None else ScopedStore(store, check)
            self._handles[name] = handle
        return handle

    def key_check(self, name: str) -> Callable[[Any], None] | None:
        """Return what refuses the keys of other shards; None where any key will do: one shard, a store of its own partition or lane."""
        serdes = self._task.scopes.get(self.node)
        if serdes is None or self._task.shards == 1:
            return None
        spec = self._task.topology.stores[name]
        return KeyScope(self.node, self.shard, self._task.shards, serdes).checks(name, spec.key or Serdes.string)

    def view(self, name: str) -> Any:
        """Return a read-only view of any store, any key, at the last barrier."""
        return self._task.views(name)

    def event_time(self, shared: str | None = None) -> EventTime:
        """Return this node's clock, or one that it shares with others by name."""
        return self._task.time.clock(self.node if shared is None else shared)

    def clock_of(self, node: str) -> EventTime:
        """Return the clock of another node of the task; this node's own where that node has none."""
        found = self._task.topology.nodes.get(node)
        timed = isinstance(found, ProcessorNode) and found.operator.timed and self._task.runs(node)
        return self._task.time.clock(node if timed else self.node)

    def times_of(self, batch: Batch, shared: str | None = None, *, included: bool = True) -> Any:
        """Return the time of this node's clock at many records: with each of them, or without it."""
        return self._task.times_of(self.node if shared is None else shared, batch, included=included)

    def times_at_most(self, batch: Batch, shared: str | None = None) -> Any:
        """Return times that a clock has not passed at many records; None: nothing is known."""
        return self._task.times_at_most(self.node if shared is None else shared, batch)

    def release(self, time: int, key: bytes) -> None:
        """Give what is forwarded next its place: it leaves because time has come, and was due then. Call ``released`` after it."""
        self._task.punctuation.release(self.node, time, key)

    def released(self) -> None:
        """The row that ``release`` was for has gone."""
        self._task.punctuation.released()

    def drop(self, reason: str) -> None:
        """Count the record at hand as dropped by this node."""
        self._task.drop_at(self.node, reason)

    def handle_error(self, key: Any, value: Any, timestamp: int, headers: Headers, error: Exception) -> None:
        """Ask the processing policy about a record that this node failed at after its turn."""
        self._task.errors.handle(self.node, Record(key, value, max(timestamp, 0), headers), timestamp, headers, error)

    @property
    def forgives(self) -> bool:
        """Whether the processing policy may let the application go on after a failure."""
        return bool(self._task.config["on_processing_error"] != "fail")

    def one_by_one(self, batch: Batch) -> None:
        """Run a batch through this node record by record: its kernel has sorted out what a function failed at, or deletes."""
        self._task.batches.fell_back(self.node, "failed_or_deleted")
        self._task.batches.process_counted(self.node, batch)

    @property
    def user_metrics(self) -> CollectedMetrics:
        """What user code counts."""
        return self._task.meter.user

    def count_event(self, metric: str, *labels: str) -> None:
        """Count something that happened at this node."""
        self._task.meter.count(metric, self.node, *labels)

    def count_out(self, count: int) -> None:
        """Count records that this node has forwarded as a batch."""
        self._task.meter.count_out(self.node, count)

    def calls(self, spec: CallSpec) -> Calls:
        """Return what makes this node's calls."""
        return self._task.calls(self.node, spec)

    def on_barrier(self, f: Callable[[], None]) -> None:
        """Call ``f`` at the end of every epoch."""
        self._task.barrier_calls.append(partial(self._task.meter.timed, self.node, f))

    def drop_late(self, reason: str, start: int, end: int, now: int) -> None:
        """Count the record at hand as too late for a window; what else becomes of it, its source says."""
        self._task.drop_late(self.node, reason, start, end, now)

    def refuses_late(self) -> bool:
        """Whether the source of the record at hand grants no grace."""
        return self.late_policy() is LatePolicy.drop

    def late_policy(self) -> LatePolicy | None:
        """Return the late policy of the source of the record at hand."""
        source = self._task.source_of(self._task.origin.topic)
        return None if source is None else source.late

    @property
    def late_policies(self) -> frozenset[LatePolicy]:
        """The policies that sources of the topology have, besides the default."""
        return self._task.late_policies

    def time_reaching(self, due: int, shared: str | None = None) -> int:
        """Return the time of this node's clock once it is at least ``due``."""
        return self._task.time.reaching(self.node if shared is None else shared, due)

    def on_time(
        self,
        f: Callable[[int], None],
        due: Callable[[], int | None],
        shared: str | None = None,
        *,
        in_batches: bool = False,
    ) -> None:
        """Call ``f(now)`` when time has come that no record of this node has brought."""
        self._task.time.add_call(self.node, self.node if shared is None else shared, f, due, in_batches)

    @property
    def is_late(self) -> bool:
        """Whether time had passed the timestamp of the record at hand; False where no record is."""
        origin = self._task.origin
        return origin.topic is not None and origin.timestamp < self._task.time.clock(self.node).now

    def on_init(self, f: Callable[[], None]) -> None:
        """Call ``f`` once all nodes are open."""
        self._task.init_calls.setdefault(self.node, []).append(f)

    def on_close(self, f: Callable[[], None]) -> None:
        """Call ``f`` when the task closes."""
        self._task.close_calls.append(f)

    def schedule(self, every: int, punctuation: Any, f: Callable[[int], None], start: int | None = None) -> Stoppable:
        """Call ``f(timestamp)`` regularly."""
        return self._task.punctuation.schedule(self.node, every, punctuation, f, start)

    def schedule_at(self, schedule: Schedule, f: Callable[[int], None]) -> Cancellable:
        """Call ``f(due time)`` at the times of a schedule, by the wall clock."""
        return self._task.punctuation.schedule_at(self.node, schedule, f)

    def request_commit(self) -> None:
        """Ask for a barrier soon."""
        self._task.commit_requested = True


def _is_first(topology: Topology, node: str) -> bool:
    found = topology.node(node)
    if not isinstance(found, ProcessorNode):
        return False
    parents = map(topology.node, found.parents)
    return all(isinstance(above, SourceNode) and not above.internal and above.schedule is None for above in parents)
