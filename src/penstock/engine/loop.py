"""The epoch loop: performs the table of ``engine.epoch``, epoch after epoch. One thread; it ends at a barrier."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from penstock.clock import stopwatch_us
from penstock.engine.attempt import Attempts
from penstock.engine.committed_state import CommittedState
from penstock.engine.due_work import DueWork
from penstock.engine.epoch import FINAL, RETRYING, EpochAction, EpochEvent, EpochMachine, EpochState
from penstock.engine.history import StepNow
from penstock.engine.production_errors import keep_failed_record
from penstock.engine.retry_policy import RetryPolicy
from penstock.engine.stopping import cancel_if_unreachable
from penstock.errors import BrokerError, EngineError, ProductionError
from penstock.log_lines import about
from penstock.protocol.timing import PartitionTime

logger = logging.getLogger("penstock.engine")


class Loop:
    """Runs epochs until it is told to stop, or until one fails for good."""

    def __init__(self, attempts: Attempts, due: DueWork) -> None:
        self.attempts = attempts
        self.totals = attempts.totals
        self.observers = attempts.observers
        self.on_barrier = attempts.on_barrier
        self.stopping = False
        self.paused = False
        self.history = attempts.history
        #: what is being done, for those who watch; None: nothing, the loop rests
        self.now: StepNow | None = None
        self._due = due
        self._input, self._context = attempts.input, attempts.context
        self._machine = EpochMachine()
        self._ended = threading.Event()
        self._wake = threading.Event()

    @property
    def committed(self) -> CommittedState:
        """The committed state as of the last barrier."""
        return self.attempts.committed

    @property
    def lag(self) -> int:
        """How many offsets wait."""
        return self._input.lag()

    def lags(self) -> Mapping[tuple[str, int], int]:
        """Return how many offsets of each partition wait."""
        return self._input.lags()

    def partition_times(self) -> list[PartitionTime]:
        """Return how far each source partition has come, as of the last barrier."""
        return self._due.partition_times(self.committed)

    def run(self) -> None:
        """Run epochs until ``stop``; returns at a barrier."""
        clock, interval = self._context.clock, self._context.config["commit_interval_ms"]
        try:
            while not self.stopping:
                began = clock.now_ms()
                worked = not self.paused and self.step()
                rest = interval - (clock.now_ms() - began)
                at_once = rest <= 0 or self.attempts.commit_requested or self._input.behind()
                if not self.stopping and not (worked and at_once):
                    self._pause((rest if worked else self._due.idle_ms(self.committed, paused=self.paused)) / 1000)
        finally:
            self._ended.set()

    def _pause(self, seconds: float) -> None:
        self.now = None
        self._wake.wait(seconds)
        self._wake.clear()

    def step(self) -> bool:
        """Run one epoch if there is work for one; return whether it was committed. Raises what cannot be mended."""
        machine, error = self._machine, None
        about(epoch=self.committed.epoch + 1)
        machine.handle(EpochEvent.NEXT_EPOCH)
        self._policy = self._new_policy()
        while (state := machine.state) not in FINAL:
            self.now = StepNow(state.value, self.committed.epoch + 1, stopwatch_us())
            try:
                event = self._choose() if state is EpochState.CHOOSE else self.attempts.perform(state)
            except BaseException as fault:
                event, error = self.attempts.classify(state, fault, stopping=self.stopping)
            action = machine.handle(event, stopping=self.stopping)
            if action is not EpochAction.PROCEED and error is not None:
                error = self._act(action, state, error)
        self.now = None
        self.attempts.stalls.end()
        if state is EpochState.FAILED and error is not None:
            keep_failed_record(self._context, error)
            raise error
        if state is EpochState.LEFT and self.attempts.work is not None:
            logger.warning("epoch %d is left to the next start: %s", self.committed.epoch + 1, error)
        return state is EpochState.PUBLISHED

    def _new_policy(self) -> RetryPolicy:
        return RetryPolicy(self._context.clock, self._pause, self._context.config["task_timeout_ms"])

    def _choose(self) -> EpochEvent:
        """Choose what to read; what a failed attempt was to read is read again, unless it was too much."""
        ranges = self.attempts.ranges
        if not self.attempts.is_chosen():
            ranges = self._input.choose()
            self._policy = self._new_policy()
        # asked again: what was sent after ``pause`` may be in an answer that was waited for before it
        if self.attempts.work is None and (self.paused or not (ranges or self._due.is_due(self.committed))):
            return EpochEvent.NOTHING
        self.attempts.work = self.attempts.prepare(ranges)
        return EpochEvent.DONE

    def _act(self, action: EpochAction, state: EpochState, error: BaseException) -> BaseException | None:
        """Run again, as the table says about an error; return what to raise if the epoch is given up instead."""
        if action is EpochAction.TRACE:
            self.attempts.trace()
        if action is EpochAction.RUN_HALVES:
            self.attempts.halve(error)
        if action in RETRYING:
            self.attempts.count_retry(state, error)
            try:
                self._policy.retry(f"epoch {self.committed.epoch + 1}, {state}", error, self.attempts.ranges)
            except (BrokerError, EngineError, ProductionError) as last:
                self._machine.handle(EpochEvent.GIVEN_UP)
                return last
            self.totals.retries += state is not EpochState.CHOOSE
        return None  # the error holds on to the rows of the attempt that failed

    def wake(self) -> None:
        """Look for work now."""
        self._wake.set()

    def stop(self) -> None:
        """End after the epoch that runs; at once if the cluster does not answer."""
        if not self.stopping:
            self.stopping = True
            self._context.log.expedite()
            cancel_if_unreachable(self._context.log, self._context.executor, self._ended)
        self._wake.set()

    def close(self) -> None:
        """Note that no epoch will be run any more."""
        self._ended.set()
