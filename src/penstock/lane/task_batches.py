"""Batches in a task: the kernels run them, or its nodes do record by record; and what kernels ask of the task (``KernelHost``)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.batch.batch import Batch
from penstock.batch.fallback import Undecodable
from penstock.lane.context import NodeContext
from penstock.lane.sink import SinkBatch
from penstock.plan.batch_paths import BatchPaths
from penstock.processor.node_meter import ALL_CALLS
from penstock.topology.node import SinkNode

if TYPE_CHECKING:
    from penstock.lane.task import Task


class TaskBatches:
    """The batch path of a task."""

    def __init__(self, task: Task, batch_paths: BatchPaths | None, counted: Container[str]) -> None:
        self._task = task
        self.topology = task.topology
        self.meter = task.meter
        self.partitions_of = task.partitions_of
        #: topics of ours whose records are only counted
        self._counted = counted
        #: batches, or parts of them, that went to the record path, by node and reason
        self.fallbacks: dict[tuple[str, str], int] = {}
        # where each update leaves as it is made, no batch can
        each = any(store.forwards_each for store in task.stores.values())
        self._paths = None if each else batch_paths
        self._path = None if self._paths is None else self._paths.open(self)

    def takes(self, *sources: str) -> bool:
        """Whether records of a source may go as a batch; of several sources: whether they may go together."""
        path = self._path
        if path is None or not path.takes(sources):
            return False
        if not (self._task.time.waits and self._task.time.stops_batches(self._below(sources))):
            return True
        if self._paths is not None and sources[0] not in self._paths.reasons:  # not known to the plan
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

    def process(self, source: str, batch: Batch) -> bool:
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
        task, on_record, cursors = self._task, self._task.opened[node], self._task.time.cursors
        for key, value, timestamp, headers, origin in batch.records():
            if cursors:
                task.time.visit(origin)
            task.origin = origin
            on_record(key, value, timestamp, headers)

    def _run_batch(self, source: str, run: Callable[[Any], bool]) -> bool:
        try:
            return bool(self.meter.within(source, run, self._path, calls=ALL_CALLS))
        except Undecodable:
            raise
        except Exception as error:
            self._task.errors.fail(error)

    def _has_run(self, source: str, batch: Batch) -> None:
        self.meter.count_in(source, batch.count)
        task, cache = self._task, self._task.cache
        task.origin = batch.origin(len(batch) - 1)
        if task.time.cursors:
            task.time.skip_to(task.origin)
        if cache.counts:
            cache.add(batch.size)
            if cache.is_full:
                task.flush_when_full()

    def kernel_context(self, node: str) -> NodeContext:
        """Return the context of a node's kernel."""
        return NodeContext(self._task, node, {}, self.topology.stores_of(node))

    def is_counted(self, topic: str) -> bool:
        """Whether the records of a topic of ours are only counted."""
        return topic in self._counted

    def emit_batch(self, sink: SinkNode, partitions: list[int] | None, keys: Any, values: Any, batch: Batch) -> None:
        """Emit a batch of records to a sink."""
        self._task.outputs.append(SinkBatch(sink, self._task.shard, partitions, keys, values, batch))

    def refuse_at(self, sink: SinkNode, batch: Batch, errors: Mapping[int, Exception]) -> None:
        """Ask the production policy about records that the serdes of a sink have refused, by their places."""
        for at, error in sorted(errors.items()):
            self._task.origin = batch.origin(at)
            headers = () if batch.headers is None else batch.headers[at]
            record = batch.keys.items[at], batch.values.items[at], int(batch.timestamps[at]), headers
            self._task.errors.refuse(sink, *record, error)

    def fell_back(self, node: str, reason: str) -> None:
        """Count a batch, or a part of one, that goes to the record path."""
        self.fallbacks[node, reason] = self.fallbacks.get((node, reason), 0) + 1
