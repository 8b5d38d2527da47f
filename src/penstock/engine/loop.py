"""The epoch loop: choose the ranges, perform the steps, go on. One thread; it ends at a barrier.

What an epoch is made of is in ``commit.STEPS``; what is known between two of them is the `Ledger`.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.clock import Clock, stopwatch_us
from penstock.engine import commit, topics
from penstock.engine.commit import STEPS, Work
from penstock.engine.ledger import Ledger
from penstock.engine.offsets import Input, Range
from penstock.errors import BrokerError, EngineError, ProductionError, TopicError
from penstock.lane.orders import offsets
from penstock.log.base import Log, Offsets, Producer

logger = logging.getLogger("penstock.engine")

#: told before each step: (step, epoch)
Observer = Callable[[str, int], None]
#: runs of one epoch that fail for a passing reason before the application gives up
MOST_RUNS = 8
LONGEST_PAUSE = 5.0
#: the cluster's word for a row that its topic does not take
TOO_LARGE = "MSG_SIZE_TOO_LARGE"
#: looks at the changelogs until the markers of an aborted transaction are in all of them
MOST_LOOKS = 10_000


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
        producer: Producer,
        ledger: Ledger,
        config: Mapping[str, Any],
        clock: Clock,
        fingerprint: str,
        topology: str,
        ends: dict[str, list[int]],
        partitions: Mapping[str, int],
        limits: Mapping[str, int],
        scheduling: bool,
    ) -> None:
        self._log = log
        self._lanes = lanes
        self._input = source
        self._producer = producer
        self.ledger = ledger
        self._config = config
        self._clock = clock
        self._fingerprint = fingerprint
        self._topology = topology
        self._ends = ends
        self._partitions = partitions
        self._limits = dict(limits)
        self._scheduling = scheduling
        self._marker = 1 if config["processing_guarantee"] == "exactly_once" else 0
        self._in_transaction = False
        self._doing = ""
        self._wake = threading.Event()
        self.stopping = False
        self.paused = False
        self.totals = Totals()
        #: up to where the topics of global tables are part of the last barrier
        self.global_ends: Offsets = {}
        self.observers: list[Observer] = []
        self.on_barrier: list[Callable[[Ledger], None]] = []
        self._first = True

    # ---- the loop

    def run(self) -> None:
        """Run epochs until ``stop``; returns at a barrier."""
        while not self.stopping:
            began = self._clock.now_ms()
            worked = not self.paused and self.step()
            least = self._config["commit_interval_ms"]
            rest = least - (self._clock.now_ms() - began)
            if not self.stopping and (rest > 0 or not worked) and not (worked and self._input.behind()):
                self._pause(max(rest, 1 if worked else 10) / 1000)

    def step(self) -> bool:
        """Run one epoch if there is work for one; tell whether there was."""
        ranges = self._input.choose()
        if not ranges and not self._is_due():
            return False
        try:
            self._epoch(ranges)
        except BaseException as error:
            self._leave(error)
            raise
        return True

    def stop(self) -> None:
        """End after the epoch that runs."""
        self.stopping = True
        self._wake.set()

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
        """Whether there is wall-clock work: a node that schedules has not run yet, or a punctuation's time has come."""
        if not self._scheduling:
            return False
        due = self.ledger.due()
        return self._first or (due is not None and due <= self._clock.now_ms())

    # ---- one epoch

    def _epoch(self, ranges: list[Range]) -> None:
        """Run the same ranges until they are committed; a fault that a second run may mend is waited out."""
        for attempt in range(MOST_RUNS):
            work = self._work(ranges)
            try:
                self._perform(work)
            except (BrokerError, EngineError) as error:
                if isinstance(error, BrokerError) and error.code == TOO_LARGE:
                    self._find_limits(work, error)
                elif attempt + 1 == MOST_RUNS or not self._may_run_again(error) or self.stopping:
                    raise
                self.totals.retries += 1
                logger.warning("epoch %d is run again: %s", work.orders.epoch, error)
                self._abort()
                self._pause(min(0.2 * 2**attempt, LONGEST_PAUSE))
            else:
                self._publish(work)
                return

    def _find_limits(self, work: Work, error: BrokerError) -> None:
        """Ask how large a row of the epoch's topics may be, so that the next run asks the policy; raise if that is known."""
        found = topics.row_limits(self._log, +work.written)
        if found.items() <= self._limits.items():
            raise ProductionError(str(error)) from error
        self._limits |= found

    def _may_run_again(self, error: BrokerError | EngineError) -> bool:
        """Whether a second run may mend it. A commit whose outcome is unknown is not run again: the next start finds out."""
        if self._doing == "commit" and not (isinstance(error, BrokerError) and error.abortable):
            return False
        return _passing(error)

    def _leave(self, error: BaseException) -> None:
        """Abort what a failure has left open: readers of the topics would wait for its end until it times out."""
        if not self._in_transaction or (isinstance(error, BrokerError) and (error.fatal or not error.abortable)):
            return
        try:
            self._in_transaction = False
            self._producer.abort()
        except BrokerError as other:
            logger.warning("the transaction of the epoch that failed stays open until it times out: %s", other)

    def _perform(self, work: Work) -> None:
        for name, step in STEPS:
            self._doing = name
            self._tell(name, work.orders.epoch)
            began = stopwatch_us()
            self._in_transaction |= name == "begin"
            step(work)
            self.totals.last[name] = stopwatch_us() - began
        self._in_transaction = False

    def _work(self, ranges: list[Range]) -> Work:
        token = f"{self.ledger.epoch + 1}.{uuid.uuid4().hex[:12]}"
        positions = dict(self._input.positions) | {(r.topic, r.partition): r.end for r in ranges}
        orders = self.ledger.orders(
            token,
            source_of=self._input.source_of,
            partitions=self._partitions,
            global_ends=self._input.global_ends(),
            now=self._clock.now_ms(),
        )
        return Work(
            ledger=self.ledger,
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
        )

    def _abort(self) -> None:
        """Forget what was produced; find out anew where the changelogs end."""
        if self._in_transaction:
            self._in_transaction = False
            self._producer.abort()
        found = changelog_ends(self._log, self.ledger.application_id, self._ends)
        self._ends = {  # the markers of the last barrier are counted, but may not be written yet
            store: [max(pair) for pair in zip(found[store], ends, strict=True)] for store, ends in self._ends.items()
        }

    def _publish(self, work: Work) -> None:
        """Go on from the new barrier, and tell of it."""
        assert work.after is not None
        self._tell("publish", work.orders.epoch)
        self._first = False
        self._ends = {store: work.after.changelogs[store] for store in self._ends}
        self.ledger = work.after
        self.global_ends = offsets(work.orders.global_ends)
        self._input.advance(work.ranges)
        self._count(work)
        for listener in self.on_barrier:
            listener(self.ledger)
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
            for phase, spent in report.spent.items():
                totals.spent[f"lane: {phase}"] += spent
        totals.spent.update(totals.last)

    def _tell(self, step: str, epoch: int) -> None:
        for observer in self.observers:
            observer(step, epoch)


def _passing(error: BrokerError | EngineError) -> bool:
    if isinstance(error, EngineError):
        return error.passing
    if isinstance(error, TopicError):  # known topics are there: a record has named one that is not
        return False
    return (error.retriable or error.abortable) and not error.fatal


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
