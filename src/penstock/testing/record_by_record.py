"""Record by record, as Kafka's driver: a barrier follows each, and what went to internal topics is fed back, smallest timestamp first.

Each record is processed to its end, with the punctuators that its time makes due. Time goes by source records: it comes to the next
one when nothing of the one before is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.engine.committed_state import CommittedState
from penstock.lane.siblings import FIRST_ROW, Siblings
from penstock.lane.sink import Row
from penstock.lane.source import Raw
from penstock.lane.task_time import PUNCTUATED, RELEASED
from penstock.log.partitioner import partition_for
from penstock.state.merged import merged_view
from penstock.state.open import Standalone, open_store
from penstock.testing.application import TestedApplication
from penstock.testing.queues import QueueHeap, RecordQueue
from penstock.testing.record_tasks import Decoded, RecordTasks


class RecordByRecord:
    """Runs each record as soon as it is piped."""

    #: records that are not part of a barrier yet: none, between two calls
    waiting: tuple[Raw, ...] = ()

    def __init__(
        self, application: TestedApplication, committed: CommittedState | None = None, *, keep_processors: bool = False
    ) -> None:
        """``committed``: the barrier to go on from; None: there was none yet."""
        self._application = application
        self._views: dict[str, Any] = {}
        self._tasks = RecordTasks(application, self._view, keep_processors=keep_processors)
        if committed is not None:
            self._tasks.resume(committed)
        self._queues: dict[tuple[str, int], RecordQueue] = {}
        self._heap = QueueHeap()
        self._emitted = FIRST_ROW - 1  # number of the last row for a later step
        self._siblings = Siblings()
        self._leaving: list[Raw] = []  # rows for later steps
        self._unfinished: list[int] = []  # levels whose tasks are not at the time of the end yet

    def pipe(self, raw: Raw) -> None:
        """Run a record, and all that comes of it."""
        if self._application.source_of(raw.topic) is not None:
            self._enqueue(raw)
            self._complete_work()
        if raw.topic in self._application.globals.topics:
            self._application.globals.apply(raw)
            self._publish(self._tasks.take_rows())  # dead letters

    def advance(self) -> None:
        """Do what the wall clock makes due."""
        self._begin()
        self._tasks.punctuate_wall_clock()
        self._flush()
        self._complete_work()

    def commit(self) -> None:
        """Let caches forward, and write what a test has written to stores."""
        self._begin()
        self._flush()
        self._complete_work()

    def committed(self) -> CommittedState:
        """Return all that is known at the barrier, for whoever goes on from it."""
        return self._tasks.committed()

    def dropped(self) -> Counter[tuple[str, str]]:
        """Return what the tasks have dropped, by (node, reason)."""
        return sum((Counter(task.dropped) for task in self._tasks.tasks), Counter[tuple[str, str]]())

    def close(self) -> None:
        """Close the user's processors, end the calls."""
        self._tasks.close()

    # ---- stores

    def catch_up(self) -> None:
        """Let the stores come to the time of the last barrier."""
        self._tasks.catch_up()

    def stores(self, name: str) -> list[Any]:
        """Return a store of every shard."""
        return [task.stores[name] for task in self._tasks.tasks]

    def store_of(self, name: str, shard: int) -> Any:
        """Return the store of a shard, to be written to: that is work of the epoch."""
        return self._tasks.touch(shard).stores[name]

    def snapshots(self) -> Mapping[int, Mapping[int, Any]]:
        """Return what tasks know of their stores."""
        stores = {task.shard: {name: s.snapshot() for name, s in task.stores.items()} for task in self._tasks.tasks}
        return {0: {shard: {"stores": told} for shard, told in stores.items()}}

    def _view(self, name: str) -> Any:
        """Return what a processor sees of a store that is not its own: any key, at the last barrier, as in production."""
        if name not in self._views:
            spec, tables = self._application.spec(name), self._application.globals.stores
            stores = [open_store(spec, state, Standalone()) for state in self._application.states]
            self._views[name] = merged_view(spec, [tables[name]] if name in tables else stores)
        return self._views[name]

    # ---- records

    def _complete_work(self) -> None:
        """Run all that waits, each record with a barrier of its own; time goes by source records, with all that becomes of them."""
        self._publish(self._tasks.take_rows())
        try:
            while self._heap or self._unfinished or self._tasks.is_due(self._tasks.time_update()):
                if self._heap:
                    self._run(self._poll())
                elif not self._unfinished:  # an epoch without a record, as the engine runs one
                    self._begin()
                self._finish_steps()
                self._views = {}
                self._tasks.commit()
                self._application.epoch += 1
        except BaseException:
            self._unfinished, self._leaving = [], []
            raise

    def _poll(self) -> Decoded:
        queue = self._heap.poll()
        record = queue.poll()
        if queue.head is not None:
            self._heap.offer(queue)
        return record

    def _run(self, record: Decoded) -> None:
        if not self._unfinished or not self._application.stage.sources[record.source].internal:
            self._begin(record)
        self._tasks.process(record)
        self._flush()

    def _begin(self, record: Decoded | None = None) -> None:
        """Begin with a source record, or with none; time has come to its end for the one before."""
        while self._unfinished:
            self._finish_step(self._unfinished.pop(0))
        waiting = () if record is None else {(record.origin.topic or "", record.origin.partition)}
        self._tasks.begin(self._tasks.time_update(waiting))
        self._unfinished = [step.level for step in self._application.plan.steps] or [0]

    def _finish_steps(self) -> None:
        """Bring the levels to the end of time that have no record left."""
        while self._unfinished and self._unfinished[0] < min(self._levels_waiting(), default=self._unfinished[0] + 1):
            self._finish_step(self._unfinished.pop(0))
        if not self._unfinished:
            self._tasks.end_time()

    def _levels_waiting(self) -> Iterator[int]:
        heads = (queue.head.source for queue in self._queues.values() if queue.head is not None)
        sources, level_of = self._application.stage.sources, self._application.plan.level_of
        return (level_of[source] for source in heads if sources[source].internal)

    def _finish_step(self, level: int) -> None:
        self._tasks.finish_step(level)
        self._flush()
        ready = [raw for raw in self._leaving if self._level_of(raw) == level + 1]
        self._leaving = [raw for raw in self._leaving if self._level_of(raw) > level + 1]
        for raw in self._in_order(ready):
            self._enqueue(raw)

    def _in_order(self, ready: list[Raw]) -> list[Raw]:
        """Return the rows of one source record in order: what time gives out is first, punctuators are last, the others are as they came;
        but of those that one row has become, what stands for the row itself is first."""
        came: dict[tuple[int, ...], int] = {}

        def order_key(raw: Raw) -> tuple[Any, ...]:
            assert raw.origin is not None
            sub, carried = raw.origin.sub, self._source_of(raw) in self._application.plan.carried
            if sub[0] in (RELEASED, PUNCTUATED):
                return (0 if sub[0] == RELEASED else 2, sub)
            return 1, came.setdefault(sub[:-2] if carried else sub[:-1], len(came)), not carried

        return sorted(ready, key=order_key)

    def _source_of(self, raw: Raw) -> str:
        return self._application.source_of(raw.topic) or ""

    def _level_of(self, raw: Raw) -> int:
        return self._application.plan.level_of[self._source_of(raw)]

    def _flush(self) -> None:
        self._tasks.flush()
        self._publish(self._tasks.take_rows())

    def _enqueue(self, raw: Raw) -> None:
        place = (raw.topic, raw.partition)
        if self._application.stage.sources[self._source_of(raw)].internal:
            # rows on their way to a later step keep their order in all partitions
            place = ("" if self._application.plan.carried else raw.topic, -1)
        if place not in self._queues:
            self._queues[place] = RecordQueue(self._decode)
        if self._queues[place].add(raw):
            self._heap.offer(self._queues[place])

    def _decode(self, raw: Raw, partition_time: int) -> Decoded | None:
        return self._tasks.read(self._source_of(raw), raw, partition_time)

    # ---- rows

    def _publish(self, rows: list[Row]) -> None:
        """Show the rows, and feed back those whose topic some source or global table reads.

        Rows for a later step wait until all steps before it have come to their end: those of several shards go on in order.
        """
        application = self._application
        for row in rows:
            if row.internal:
                self._leaving.append(self._sent_on(row))
                continue
            raw = application.write(*row[:6])
            if application.source_of(raw.topic) is not None:
                self._enqueue(raw)
            if raw.topic in application.globals.topics:
                application.globals.apply(raw)

    def _sent_on(self, row: Row) -> Raw:
        """Return a row on its way to a later step, with its position among its siblings."""
        application, plan = self._application, self._application.plan
        topic, partition = application.full_name(row.topic), row.partition
        if partition is None:
            count = application.partitions_of(row.topic)
            without_key = max(row.origin.partition_index, 0) % count  # it stays with its source partition
            partition = without_key if row.key is None else partition_for(row.key, count)
        raw = application.numbered(topic, partition, *row[2:6])
        if row.topic in application.topology.internal_topics:  # else it stays in its sub-topology
            application.show(topic, *row[2:6], partition)
        source, origin = self._source_of(raw), row.origin
        self._emitted += 1
        carried, returning = source in plan.carried, source in plan.returning
        number = plan.subtopology_of[source]
        sub = self._siblings.placed(self._emitted, origin, number, carried=carried, returning=returning)
        return raw._replace(origin=origin._replace(sub=sub))
