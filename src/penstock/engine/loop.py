"""The epoch loop: choose the ranges, perform the steps, go on. One thread; it ends at a barrier.

What an epoch is made of is in ``commit.STEPS``; what is known between two of them is the `CommittedState`.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.clock import Clock, stopwatch_us
from penstock.engine import commit
from penstock.engine.commit import STEPS, Work
from penstock.engine.committed_state import CommittedState
from penstock.engine.epoch_sizer import EpochSizer
from penstock.engine.limits import Limits, is_limit
from penstock.engine.offsets import Input, Range
from penstock.engine.retry_policy import RetryPolicy, passing
from penstock.engine.transaction_recovery import SETTLE, TransactionRecovery
from penstock.errors import BrokerError, EngineError, EpochTooLarge, ProductionError, SparkEnded
from penstock.lane.orders import offsets
from penstock.lane.timing import Timing, Told
from penstock.log.base import Log, Offsets, Producer
from penstock.log.topics import epochs_name

logger = logging.getLogger("penstock.engine")

#: told before each step: (step, epoch)
Observer = Callable[[str, int], None]
#: milliseconds between two looks for input, if there was none: at first, and at last
SHORTEST_LOOK_MS, LONGEST_LOOK_MS = 10, 100
#: between two looks whether an epoch that is to be the last one still has a cluster
STOP_SECONDS = 2.0
#: the step that is not of the transaction
LANES = STEPS[0][0]
#: looks at the changelogs until the markers of an aborted transaction are in all of them
MOST_LOOKS = 10_000


#: of an epoch while its lanes run, in the order in which a record meets them; time of all tasks together, and of the driver
PHASES = ("read", "exchange", "order", "decode", "operators", "state", "encode", "collect")


@dataclass(slots=True)
class Totals:
    """Counters since the start."""

    epochs: int = 0
    records_in: int = 0
    records_out: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    #: microseconds by step of the driver, and by phase of the lanes, of all epochs and of the last one
    spent: Counter[str] = field(default_factory=Counter)
    last: dict[str, int] = field(default_factory=dict)


class Loop:
    """Runs epochs until it is told to stop, or until something fails that a second run does not mend."""

    def __init__(
        self,
        *,
        log: Log,
        lanes: commit.RunsLanes,
        source: Input,
        sizer: EpochSizer,
        producer: Producer,
        committed: CommittedState,
        config: Mapping[str, Any],
        clock: Clock,
        fingerprint: str,
        topology: str,
        ends: dict[str, list[int]],
        partitions: Mapping[str, int],
        limits: Limits,
        waking: Mapping[int, Container[int]],
        timing: Timing,
    ) -> None:
        self._log = log
        self._lanes = lanes
        self._input = source
        self._sizer = sizer
        self._profile: dict[str, int] = {}
        self._producer = producer
        self.committed = committed
        self._config = config
        self._clock = clock
        self._fingerprint = fingerprint
        self._topology = topology
        self._ends = ends
        self._partitions = partitions
        self._limits = limits
        #: whether rows for sinks say which record they came from: not before one was refused, and nobody knows
        self._places = False
        #: level → the shards that may have work of the wall clock
        self._waking = waking
        self._timing = timing
        self._marker = 1 if config["processing_guarantee"] == "exactly_once" else 0
        self._recovery = TransactionRecovery(log, producer, clock, config)
        #: a run that has failed, until what it left behind is settled
        self._left: Work | None = None
        self._doing = ""
        self._ended = threading.Event()
        self._wake = threading.Event()
        self.stopping = False
        self.paused = False
        self.totals = Totals()
        #: up to where the topics of global tables are part of the last barrier
        self.global_ends: Offsets = {}
        self.observers: list[Observer] = []
        self.on_barrier: list[Callable[[CommittedState], None]] = []
        self._first = True
        #: user code of the last epoch has asked for a barrier: the next one does not wait for its time
        self._hurried = False
        #: wall-clock time of the last barrier that input was part of
        self._read_at = 0

    # ---- the loop

    def run(self) -> None:
        """Run epochs until ``stop``; returns at a barrier."""
        try:
            self._run()
        finally:
            self._ended.set()

    def _run(self) -> None:
        while not self.stopping:
            began = self._clock.now_ms()
            worked = not self.paused and self.step()
            rest = self._config["commit_interval_ms"] - (self._clock.now_ms() - began)
            if self.stopping or (worked and (rest <= 0 or self._hurried or self._input.behind())):
                continue
            self._pause((rest if worked else self._idle_ms()) / 1000)

    def _idle_ms(self) -> int:
        """How long to rest before the next look for work: until something is due, but not so long that input waits."""
        look = look_ms(self._clock.now_ms() - self._read_at, self._config["commit_interval_ms"])
        due = None if self.paused or not self._waking else self.committed.due(self._waking)
        return look if due is None else max(1, min(look, due - self._clock.now_ms()))

    def step(self) -> bool:
        """Run one epoch if there is work for one; tell whether there was."""
        ranges = self._choose()
        # asked again: what was sent after ``pause`` may be in an answer that was waited for before it
        if ranges is None or self.paused or not (ranges or self._is_due()):
            return False
        try:
            return self._epoch(ranges)
        except BaseException as error:
            self._leave(error)
            raise

    def stop(self) -> None:
        """End after the epoch that runs; at once if the cluster does not answer."""
        if not self.stopping:
            self.stopping = True
            self._log.hurry()
            threading.Thread(target=self._see_to_the_end, name="penstock-stop", daemon=True).start()
        self._wake.set()

    def close(self) -> None:
        """Be told that no epoch will be run any more."""
        self._ended.set()

    def _see_to_the_end(self) -> None:
        """Let the lanes go when they wait for a cluster that does not answer. What they do is not committed, and so not lost."""
        told = False
        while not self._ended.wait(STOP_SECONDS):
            try:
                self._log.admin.topics()
            except BrokerError as error:
                if not error.retriable:  # it answers
                    continue
                if not told:
                    logger.warning("the epoch that runs is given up: %s", error)
                told = True
                self._lanes.cancel()

    def wake(self) -> None:
        """Look for work now."""
        self._wake.set()

    @property
    def lag(self) -> int:
        """How many offsets wait."""
        return self._input.lag()

    def lags(self) -> Mapping[tuple[str, int], int]:
        """Return how many offsets of each partition wait."""
        return self._input.lags()

    def _pause(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def _is_due(self) -> bool:
        """Whether there is work without input: event time is due somewhere, a punctuation's time has come, or a node that
        schedules has not run yet."""
        if self.committed.is_due(self._told([])):
            return True
        if not self._waking:
            return False
        due = self.committed.due(self._waking)
        return self._first or (due is not None and due <= self._clock.now_ms())

    def _told(self, ranges: list[Range]) -> Told:
        """Return what lanes are told of time now."""
        waiting = {place for place, count in self._input.lags().items() if count}
        waiting.update((r.topic, r.partition) for r in ranges)
        return self._timing.told(self.committed.heard, self._input.source_of, waiting, self._clock.now_ms())

    # ---- one epoch

    def _choose(self) -> list[Range] | None:
        """Choose what to read, whenever the cluster answers; None if the application is to end before it does."""
        policy = RetryPolicy(self._clock, self._pause)
        while True:
            try:
                return self._input.choose()
            except BrokerError as error:
                if self.stopping and passing(error):
                    return None
                policy.retry("input is looked for", error)

    def _epoch(self, ranges: list[Range]) -> bool:
        """Run ranges until they are committed; a fault that a second run may mend is waited out, one of their size makes them smaller.

        False if the application is to end and the epoch cannot: it is left to the next start.
        """
        policy = RetryPolicy(self._clock, self._pause)
        while True:
            try:
                work = self._settled()
                if work is None:
                    if self._too_much(ranges):
                        self._doing = "choose less"
                        ranges, policy = self._input.choose(), RetryPolicy(self._clock, self._pause)
                    work = self._attempt(ranges)
            except (BrokerError, EngineError) as error:
                mended = self._recovery.judge(self._doing, error)
                if isinstance(error, BrokerError) and is_limit(error) and self._left is not None:
                    if not self._limits.adapt(error.code, +self._left.written):
                        raise ProductionError(str(error)) from error
                    mended = True
                if self.stopping and (mended or isinstance(error, SparkEnded)):
                    logger.warning("epoch %d is left to the next start: %s", self.committed.epoch + 1, error)
                    self._leave(error)
                    return False
                if mended:
                    self._make_smaller(ranges, error)
                retry(policy, f"epoch {self.committed.epoch + 1}, {self._doing}", error, ranges, mended=mended)
                self.totals.retries += 1
            except ProductionError as error:
                if error.origin is not None or self._places or self.stopping:
                    raise
                self._places = True  # run once more, to say which record the row came from
            else:
                self._publish(work)
                return True

    def _make_smaller(self, ranges: list[Range], error: BrokerError | EngineError) -> None:
        """Let the next run take half of what has failed, if it may have been too much: for memory, or for the time of a transaction."""
        count = offsets_of(ranges)
        slow = self._doing != SETTLE and self._recovery.is_slow()
        if count < 2 or not (isinstance(error, EngineError) or slow):
            return
        if isinstance(error, EpochTooLarge):
            self._sizer.fail(count, read=error.records, size=error.size)
        else:
            self._sizer.fail(count)
        self._input.take_at_most(self._sizer.records)
        logger.warning(
            "epoch %d took %d offsets, the next run takes %d", self.committed.epoch + 1, count, self._sizer.records
        )

    def _too_much(self, ranges: list[Range]) -> bool:
        return offsets_of(ranges) > max(1, self._sizer.records)

    def _settled(self) -> Work | None:
        """Come back from a run that has failed, if there was one; return it if it was committed after all."""
        if self._left is None:
            return None
        self._doing = SETTLE
        committed = self._recovery.settle(self._left)
        if not committed:
            self._find_ends()
        left, self._left = self._left, None
        return left if committed else None

    def _attempt(self, ranges: list[Range]) -> Work:
        """Run an epoch; return the run that was committed."""
        self._doing = "prepare"
        self._left = self._work(ranges)
        self._perform(self._left)
        work, self._left = self._left, None
        return work

    def _leave(self, error: BaseException) -> None:
        """Abort what a failure has left open."""
        try:
            self._recovery.leave(self._doing, error)
        except BrokerError as other:
            logger.warning("the transaction of the epoch that failed stays open until it times out: %s", other)

    def _perform(self, work: Work) -> None:
        for name, step in STEPS:
            self._doing = name
            self._tell(name, work.orders.epoch)
            began = stopwatch_us()
            if name == "begin":
                self._recovery.begin()
            step(work)
            self.totals.last[name] = stopwatch_us() - began
        self._recovery.end()

    def _work(self, ranges: list[Range]) -> Work:
        token = f"{self.committed.epoch + 1}.{uuid.uuid4().hex[:12]}"
        positions = dict(self._input.positions) | {(r.topic, r.partition): r.end for r in ranges}
        orders = self.committed.orders(
            token,
            source_of=self._input.source_of,
            partitions=self._partitions,
            global_ends=self._input.global_ends(),
            now=self._clock.now_ms(),
            told=self._told(ranges),
        )
        if self._places:
            orders = msgspec.structs.replace(orders, places=True)
        return Work(
            committed=self.committed,
            orders=orders,
            ranges=ranges,
            positions=positions,
            lanes=self._lanes,
            producer=self._producer,
            config=self._config,
            clock=self._clock,
            fingerprint=self._fingerprint,
            topology=self._topology,
            ends=self._ends,
            marker=self._marker,
            limits=self._limits,
            topic_ids=self._input.topic_ids,
            profile=self._profile,
        )

    def _find_ends(self) -> None:
        """Find out anew where the changelogs end, after a run that has failed; a cluster that is away is waited for here."""
        self._log.admin.end_offsets([(epochs_name(self.committed.application_id), 0)])
        found = changelog_ends(self._log, self.committed.application_id, self._ends)
        self._ends = {  # the markers of the last barrier are counted, but may not be written yet
            store: [max(pair) for pair in zip(found[store], ends, strict=True)] for store, ends in self._ends.items()
        }

    def _publish(self, work: Work) -> None:
        """Go on from the new barrier, and tell of it."""
        assert work.after is not None
        self._tell("publish", work.orders.epoch)
        self._first = False
        self._hurried = any(report.commit_requested for report in work.reports)
        self._ends = {store: work.after.changelogs[store] for store in self._ends}
        self.committed = work.after
        self.global_ends = offsets(work.orders.global_ends)
        self._lanes.follow(self.committed.orders("", source_of={}, partitions={}, global_ends={}))
        self._input.advance(work.ranges)
        if work.ranges:
            self._read_at = self._clock.now_ms()
        self._count(work)
        self._sizer.learn(work.reports, sum(us for step, us in self.totals.last.items() if step != LANES))
        self._input.take_at_most(self._sizer.records)
        for listener in self.on_barrier:
            listener(self.committed)
        self._tell("published", work.orders.epoch)

    def _count(self, work: Work) -> None:
        totals = self.totals
        totals.epochs += 1
        totals.records_in += sum(report.records for report in work.reports if report.level == 0)
        totals.records_out += work.written
        totals.refused += work.refused
        for report in work.reports:
            for node, reason, count in report.dropped:
                totals.dropped[node, reason] += count
        phases: Counter[str] = Counter(self._lanes.spent)
        for report in work.reports:
            phases.update(report.spent)
        self._profile = {f"lane: {phase}": phases[phase] for phase in PHASES if phase in phases} | totals.last
        totals.spent.update(self._profile)

    def _tell(self, step: str, epoch: int) -> None:
        for observer in self.observers:
            observer(step, epoch)


def offsets_of(ranges: Iterable[Range]) -> int:
    """Return how many offsets ranges have."""
    return sum(end - start for _, _, start, end in ranges)


def retry(
    policy: RetryPolicy, doing: str, error: BrokerError | EngineError, ranges: list[Range], *, mended: bool
) -> None:
    """Bear a failure; where Spark fails again and again with the same records, say which they are."""
    try:
        policy.retry(doing, error, mended=mended)
    except EngineError as last:
        if not ranges or isinstance(last, SparkEnded):
            raise
        named = ", ".join(f"{topic}-{partition} {start} to {end - 1}" for topic, partition, start, end in ranges[:20])
        raise EngineError(f"{last}. It was to read the offsets {named}", passing=False) from last


def look_ms(quiet_ms: int, interval_ms: int) -> int:
    """Return how long to wait before the next look for input, when there was none for so long: a tenth of that.

    So a record waits little where records are frequent, and looks cost little where they are rare.

    >>> [look_ms(quiet, 100) for quiet in (0, 300, 5000)]
    [10, 30, 100]
    """
    return max(SHORTEST_LOOK_MS, min(interval_ms, LONGEST_LOOK_MS, quiet_ms // 10))


def changelog_ends(log: Log, application_id: str, stores: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Return where the changelogs end now, aborted rows and markers counted."""
    from penstock.log.topics import changelog_name

    places = {
        (changelog_name(application_id, store), shard): (store, shard)
        for store, by_shard in stores.items()
        for shard in range(len(by_shard))
    }
    found = log.admin.end_offsets(places)
    for _ in range(MOST_LOOKS):
        if log.admin.stable_offsets(places) == found:
            break
        found = log.admin.end_offsets(places)  # an abort returns before its markers are written
    else:
        raise BrokerError("the changelogs do not come to rest: another program writes to them", retriable=True)
    ends = {store: [0] * len(by_shard) for store, by_shard in stores.items()}
    for place, (store, shard) in places.items():
        ends[store][shard] = found[place]
    return ends
