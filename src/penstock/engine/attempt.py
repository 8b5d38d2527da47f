"""The attempts of one epoch after another: what is read, run, committed, and run again smaller.

`engine.loop` says in which order, by the table of ``engine.epoch``; here is what is done at each state.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable

import msgspec

from penstock.clock import stopwatch_us
from penstock.engine import commit
from penstock.engine.changelog_ends import ChangelogEnds
from penstock.engine.committed_state import CommittedState
from penstock.engine.due_work import DueWork
from penstock.engine.epoch import STEPS, EpochEvent, EpochState, event_of, is_limit
from penstock.engine.epoch_sizer import EpochSizer
from penstock.engine.failure_log import FailureLog
from penstock.engine.history import History
from penstock.engine.meters import Meters
from penstock.engine.offsets import Input
from penstock.engine.registry_schemas import NO_SCHEMAS, RegistrySchemas
from penstock.engine.stalls import Stalls
from penstock.engine.totals import Totals
from penstock.engine.tracing import tracer_for
from penstock.engine.transaction_recovery import TransactionRecovery
from penstock.engine.work import EpochContext, Work
from penstock.errors import BrokerError, EpochTooLarge, ProductionError
from penstock.log.base import Offsets
from penstock.protocol.request import EpochRequest, Range, offsets
from penstock.protocol.worker_log import levels_set
from penstock.query.barriers import Barrier, position_of
from penstock.query.changes import ChangeFeeds
from penstock.state.cache import budget_of_shard

logger = logging.getLogger("penstock.engine")

#: told before each step: (step, epoch)
Observer = Callable[[str, int], None]


class Attempts:
    """Performs the states of epochs. What it holds between two is the committed state."""

    def __init__(
        self,
        context: EpochContext,
        *,
        source: Input,
        sizer: EpochSizer,
        committed: CommittedState,
        ends: ChangelogEnds,
        due: DueWork,
        changes: ChangeFeeds | None = None,
        schemas: RegistrySchemas = NO_SCHEMAS,
    ) -> None:
        self.context = context
        self._schemas = schemas
        self.input = source
        self.committed = committed
        self.totals = Totals()
        self.history = History()
        self.stalls = Stalls()
        self.meters = Meters()
        #: the attempt under way, or that failed
        self.work: Work | None = None
        #: up to where the topics of global tables are part of the last barrier
        self.global_ends: Offsets = {}
        self.observers: list[Observer] = []
        self.on_barrier: list[Callable[[CommittedState], None]] = []
        #: user code of the last epoch has asked for a commit: the next epoch does not wait for the commit interval
        self.commit_requested = False
        self._sizer = sizer
        self._ends = ends
        self._due = due
        self._at_barrier: tuple[CommittedState, EpochRequest] | None = None
        #: who wants to hear which rows each barrier has changed
        self._changes = changes
        self._transaction = TransactionRecovery(context)
        self._failure_log = FailureLog(context.clock)
        self._tracer = tracer_for(context.config)
        #: whether rows of sinks carry their source record: not before one was refused, and it is not known
        self._traced = False

    @property
    def ranges(self) -> list[Range]:
        """What the attempt under way reads."""
        return [] if self.work is None else self.work.ranges

    def is_chosen(self) -> bool:
        """Whether the input of a failed attempt is kept for the next one: it is not too much."""
        return self.work is not None and _count(self.ranges) <= max(1, self._sizer.records)

    def prepare(self, ranges: list[Range]) -> Work:
        """Return an attempt that reads these ranges."""
        request = self.committed.request(
            f"{self.committed.epoch + 1}.{uuid.uuid4().hex[:12]}",
            source_of=self.input.source_of,
            partitions=self.context.partitions,
            global_ends=self.input.global_ends(),
            now=self.context.clock.now_ms(),
            time_update=self._due.time_update(self.committed, ranges),
            cache_bytes=budget_of_shard(self.context.config["cache_max_bytes"], len(self.committed.shards)),
            levels=levels_set(),
        )
        request = msgspec.structs.replace(request, schemas=self._schemas.resolve())
        work = Work(
            self.context,
            self.committed,
            msgspec.structs.replace(request, places=True) if self._traced else request,
            ranges,
            positions=dict(self.input.positions) | {(r.topic, r.partition): r.end for r in ranges},
            ends=self._ends.offsets,
            topic_ids=self.input.topic_ids,
            profile=self.totals.profile,
        )
        self._tracer.begin(work)
        return work

    def perform(self, state: EpochState) -> EpochEvent:
        """Perform any state but the choice of the input; return how it ended."""
        if state is EpochState.PUBLISH:
            self._publish(self._current)
        elif state in STEPS:
            self._step(state, self._current)
        elif state is EpochState.LOCATE_ENDS:
            self._ends.locate()
        elif state is EpochState.SETTLE:
            return EpochEvent.COMMITTED if self._transaction.settle(self._current) else EpochEvent.NOT_COMMITTED
        elif state is EpochState.ABORT:
            self._transaction.abort()
        else:
            self._abort_once()
        return EpochEvent.DONE

    def classify(self, state: EpochState, error: BaseException, *, stopping: bool) -> tuple[EpochEvent, BaseException]:
        """Return which event an error is, and the error to raise if it is not mended."""
        self._tracer.failed(error)
        age, learnt = self._transaction.age, False
        limit = error if state in STEPS[:-1] and isinstance(error, BrokerError) and is_limit(error) else None
        if limit is not None:
            try:
                learnt = self.context.limits.adapt(limit.code, +self._current.written)
            except BrokerError as other:
                return event_of(state, other, age=age), other
        event = event_of(state, error, age=age, learnt=learnt, traceable=not self._traced, stopping=stopping)
        if event is EpochEvent.FATAL and limit is not None:
            refused = ProductionError(str(error))
            refused.__cause__ = error
            return event, refused
        return event, error

    def at_barrier(self) -> EpochRequest:
        """Return what the shards must be at now, for lanes and readers; made once for each barrier."""
        if self._at_barrier is None or self._at_barrier[0] is not self.committed:
            request = self.committed.request("", source_of={}, partitions={}, global_ends=self.global_ends)
            self._at_barrier = self.committed, request
        return self._at_barrier[1]

    def count_retry(self, state: EpochState, error: BaseException) -> None:
        """Count an attempt that failed and is run again."""
        self.stalls.begin(error)
        self.meters.retries[type(error).__name__] += 1
        self.history.failed(self.context.clock.now_ms(), self.committed.epoch + 1, state.value, error)

    def halve(self, error: BaseException) -> None:
        """Let the next attempt take half of what this one took."""
        count = _count(self.ranges)
        if count < 2:
            return
        if isinstance(error, EpochTooLarge):
            self._sizer.fail(count, read=error.records, size=error.size)
        else:
            self._sizer.fail(count)
        self.input.take_at_most(self._sizer.records)
        logger.warning(
            "epoch %d took %d offsets, the next run takes %d", self.committed.epoch + 1, count, self._sizer.records
        )

    def trace(self) -> None:
        """Let rows of sinks carry their source record from the next attempt on."""
        self._traced = True

    @property
    def _current(self) -> Work:
        assert self.work is not None
        return self.work

    def _step(self, state: EpochState, work: Work) -> None:
        self._notify(state.value, work)
        began = stopwatch_us()
        if state is EpochState.BEGIN:
            self._transaction.begin()
        with self._tracer.step(state.value):
            commit.PERFORM[state](work)
        if state is EpochState.COMMIT:
            self._transaction.end()
        self.totals.last[state.value] = stopwatch_us() - began

    def _abort_once(self) -> None:
        """Abort what is open, if that can be done: readers of the topics would wait for its end until it times out."""
        try:
            self._transaction.abort()
        except BrokerError as error:
            logger.warning("the transaction of the epoch that failed stays open until it times out: %s", error)

    def _publish(self, work: Work) -> None:
        """Go on from the new barrier, and tell of it."""
        assert work.after is not None
        self._notify("publish", work)
        self.commit_requested = any(report.commit_requested for report in work.reports)
        self._ends.advance(work.after.changelogs)
        self.committed = work.after
        self.global_ends = offsets(work.request.global_ends)
        self.context.executor.follow(self.at_barrier())
        self.input.advance(work.ranges)
        self._due.ran(work.ranges)
        self._failure_log.committed(work)
        self.totals.count(work, self.context.executor.spent)
        committing = sum(us for step, us in self.totals.last.items() if step != EpochState.RUN_LANES)
        self._sizer.learn(work.reports, committing)
        self.input.take_at_most(self._sizer.records)
        self._measure(work)
        self.work = None
        if self._changes is not None and self._changes.wanted:
            barrier = Barrier(self.committed.epoch, position_of({**self.committed.positions, **self.global_ends}))
            self._changes.publish(barrier, commit.changelog_rows(work, self._changes.wanted))
        for listener in self.on_barrier:
            listener(self.committed)
        self._notify("published", work)

    def _measure(self, work: Work) -> None:
        now, inline = self.context.clock.now_ms(), self.context.executor.inline
        epoch = self.history.committed(work, inline, self.totals.profile, now)
        self.meters.count(epoch)
        self._tracer.committed(work, epoch.records, epoch.kind)
        self.meters.changelog_rows += work.changed
        self.meters.add_latencies(work.rows, now)
        self.meters.produced_bytes += work.written_bytes

    def _notify(self, step: str, work: Work) -> None:
        for observer in self.observers:
            observer(step, work.request.epoch)


def _count(ranges: Iterable[Range]) -> int:
    return sum(end - start for _, _, start, end in ranges)
