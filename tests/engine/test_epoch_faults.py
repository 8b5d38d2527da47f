"""Every step × before and after its effect × every fault: the loop itself, on a log in memory and lanes in memory.

The lanes copy each record to a sink and to a changelog. After any faults, and a restart if the application has ended, every record is
in both exactly once, and the offsets of the group are those of the last epoch record.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from itertools import product
from types import SimpleNamespace

import pyarrow as pa
import pytest

from penstock import Serdes, StreamsBuilder
from penstock.config import load
from penstock.engine.attempt import Attempts
from penstock.engine.changelog_ends import ChangelogEnds
from penstock.engine.committed_state import CommittedState
from penstock.engine.due_work import DueWork
from penstock.engine.epoch import FINAL, STEPS, EpochState
from penstock.engine.epoch_sizer import EpochSizer
from penstock.engine.limits import Limits
from penstock.engine.loop import Loop
from penstock.engine.offsets import Input
from penstock.engine.record import read_last
from penstock.engine.topics import ensure_own
from penstock.engine.work import EpochContext
from penstock.errors import BrokerError, EngineError, EpochTooLarge, FencedError, ProductionError
from penstock.log.base import TopicSpec
from penstock.log.memory import MemoryLog
from penstock.log.topics import changelog_name, epochs_name
from penstock.protocol.envelope import CHANGELOG, NOTE, SCHEMA, SINK, EnvelopeRow, batches_of
from penstock.protocol.report import TaskReport, encode_report
from penstock.protocol.request import ShardRequest
from penstock.protocol.timing import Timing

S = EpochState
BEFORE, AFTER = "before", "after"
RECORDS = 4
TIMEOUT_MS = 60_000
#: name → the error, and whether a commit that had its effect can be answered so
FAULTS = {
    "abortable": (BrokerError("x", abortable=True), False),
    "away": (BrokerError("x", retriable=True, abortable=True), False),
    "no answer": (BrokerError("x", retriable=True), True),
    "stuck": (BrokerError("x", fatal=True), True),
    "fenced": (FencedError("x", fatal=True), True),
    "forbidden": (BrokerError("x", code="CLUSTER_AUTHORIZATION_FAILED", fatal=True), True),
    "refused": (BrokerError("x", code="MSG_SIZE_TOO_LARGE", abortable=True), False),
    "rejected": (BrokerError("x"), True),
    "worker lost": (EngineError("x"), False),
    "too large": (EpochTooLarge("x", records=1, size=1), False),
    "row refused": (ProductionError("x"), False),
    "bug": (ValueError("x"), True),
}
#: those after which the epoch is run again
PASSING = ("abortable", "away", "worker lost", "too large")
BUILDER = StreamsBuilder()
BUILDER.stream("in", value=Serdes.string).group_by_key().count(store="counts").to_stream().to("out")
TOPOLOGY = BUILDER.build()
CONFIG = load({"application_id": "app", "state_dir": "none"}, environ={})


class Clock:
    """A clock that only pauses and late faults move."""

    now = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


class Killed(BaseException):
    """The process has ended: nothing that it would do after this reaches the log."""


class Plan:
    """Faults that are still to come: (state, when) → errors, and by how many milliseconds each is late."""

    def __init__(self, *faults: tuple[EpochState, str, BaseException, int]) -> None:
        self.left = list(faults)
        self.clock = Clock()
        self.killed = False
        self.loop: Loop | None = None

    def __call__(self, when: str) -> None:
        """Fail if it is planned for what the loop does now; a process that was killed does nothing any more."""
        if self.killed:
            raise Killed
        state = None if self.loop is None else self.loop._machine.state
        for fault in self.left:
            if fault[:2] == (state, when):
                self.left.remove(fault)
                self.clock.now += fault[3]
                self.killed = isinstance(fault[2], Killed)
                raise fault[2]


class Faulty:
    """Calls methods of something else, with planned faults before and after."""

    def __init__(self, inner, plan, *names):
        self._inner, self._plan, self._names = inner, plan, names

    def __getattr__(self, name):
        method = getattr(self._inner, name)
        if name not in self._names:
            return method

        def call(*args, **kwargs):
            self._plan(BEFORE)
            result = method(*args, **kwargs)
            self._plan(AFTER)
            return result

        return call


class CopyingLanes:
    """Lanes in memory: a sink row and a changelog row for each record that is read."""

    def __init__(self, log):
        self._reader = log.reader()
        self.spent, self.inline = {}, True

    def run(self, request, ranges):
        records = [record for each in ranges for record in self._reader.read(*each)]
        rows = [EnvelopeRow(SINK, n, "out", 0, r.key, r.value, r.timestamp) for n, r in enumerate(records)]
        rows += [EnvelopeRow(CHANGELOG, n, "counts", 0, r.value, r.value, 1) for n, r in enumerate(records)]
        report = TaskReport(0, 0, records=len(records), size=10 * len(records))
        return pa.Table.from_batches(
            batches_of([*rows, EnvelopeRow(NOTE, 0, "", 0, None, encode_report(report), 0)]), SCHEMA
        )

    def follow(self, request):
        pass

    def cancel(self):
        pass


class World:
    """An application and the log that outlives it."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.log.admin.ensure_topics([TopicSpec("in", 1), TopicSpec("out", 1, {"max.message.bytes": "1000000"})])
        ensure_own(self.log, TOPOLOGY, "app", 1, 1)
        rows = [("in", 0, b"k", b"%d" % number, 1, ()) for number in range(RECORDS)]
        self.log.producer(None).produce(rows)

    def start(self, plan: Plan) -> Loop:
        """Start an instance as the engine does: fence, resume at the last epoch record."""
        log, clock = self.log, plan.clock
        calls = ("init", "begin", "produce", "produce_columns", "send_offsets", "commit", "abort")
        producer = Faulty(log.producer("app"), plan, *calls)
        producer.init()
        record = read_last(log, "app")
        committed = CommittedState("app", "life", 1, (ShardRequest(),), changelogs={"counts": [0]})
        if record is not None:
            committed = CommittedState.from_record(record, 1)
        limits = Limits(log, TOPOLOGY, "app", 1_000_000)
        lanes = Faulty(CopyingLanes(log), plan, "run", "follow")
        context = EpochContext(log, lanes, producer, CONFIG, clock, "", "", {"out": 1}, limits)
        source = Input(log, TOPOLOGY, group="app", clock=clock, max_records=RECORDS)
        source.start(committed.positions)
        due = DueWork(source, Timing(TOPOLOGY, idle_ms=5000), {}, clock, 100)
        ends = Faulty(ChangelogEnds(log, "app", {"counts": [0]}), plan, "locate")
        sizer = EpochSizer(RECORDS, 1 << 20, 1)
        attempts = Attempts(
            context, source=Faulty(source, plan, "choose"), sizer=sizer, committed=committed, ends=ends, due=due
        )
        loop = plan.loop = Loop(attempts, due)
        loop._pause = plan.clock.pause
        loop.observers.append(lambda step, epoch: self.check())
        loop.on_barrier.append(self._check_barrier)
        return loop

    def run(self, plan: Plan, *, stopping: bool = False) -> Loop:
        """Run until all is read; what ends the application is followed by a restart without faults."""
        loop = self.start(plan)
        loop.stopping = stopping
        try:
            while loop.step():
                self.check()
        except (BrokerError, EngineError, ProductionError, ValueError, Killed):
            assert loop._machine.state is S.FAILED
        self.check()
        again = self.start(Plan())
        while again.step():
            self.check()
        return loop

    def check(self) -> None:
        """What readers see at any moment: whole epochs, each record once at most, offsets that belong to the records."""
        out, changelog = self._values("out"), self._values(changelog_name("app", "counts"))
        record = read_last(self.log, "app")
        positions = {} if record is None else record.positions
        assert self.log.admin.committed("app") == positions, "offsets moved without a commit"
        assert out == changelog == [b"%d" % number for number in range(positions.get(("in", 0), 0))]
        assert record is None or record.epoch == len(self._values(epochs_name("app"))), "an epoch was committed twice"
        assert record is None or record.changelogs["counts"][0] >= len(changelog)

    def _check_barrier(self, committed: CommittedState) -> None:
        record = read_last(self.log, "app")
        assert record is not None
        assert record.epoch == committed.epoch, "published before it was committed"
        assert record.positions == committed.positions

    def _values(self, topic: str) -> list[bytes | None]:
        end = self.log.admin.stable_offsets([(topic, 0)])[topic, 0]
        return [record.value for record in self.log.reader().read(topic, 0, 0, end)]

    def check_all(self) -> None:
        """Every record was read, and written once."""
        self.check()
        assert len(self._values("out")) == RECORDS


def can_be(state: EpochState, when: str, name: str) -> bool:
    """Whether a fault can be: the cluster does not tell of a commit that was done to abort it."""
    return not (state is S.COMMIT and when == AFTER) or FAULTS[name][1]


POINTS = [(state, when) for state in (S.CHOOSE, *STEPS) for when in (BEFORE, AFTER)]
SINGLE = [(state, when, name) for (state, when), name in product(POINTS, FAULTS) if can_be(state, when, name)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Markers are written at once in memory."""
    monkeypatch.setattr("penstock.engine.changelog_ends.MOST_LOOKS", 3)


@pytest.mark.parametrize(
    ("stopping", "late"),
    [(False, 0), (False, TIMEOUT_MS // 2), (False, TIMEOUT_MS), (True, 0)],
    ids=["at once", "when the transaction is slow", "when the transaction has timed out", "while it stops"],
)
def test_a_fault_at_any_step_changes_nothing(stopping, late):
    met = Counter()
    for state, when, name in SINGLE:
        world, plan = World(), Plan((state, when, FAULTS[name][0], late))
        loop = world.run(plan, stopping=stopping)
        assert not plan.left, (state, when, name)
        assert loop._machine.state in FINAL
        world.check_all()
        met[loop._machine.state] += 1
        if name in PASSING and state in STEPS[:-1]:
            assert loop._machine.state is (S.LEFT if stopping else S.IDLE), (state, when, name)
    assert met.keys() == {S.FAILED, S.LEFT if stopping else S.IDLE}


def test_a_second_fault_while_the_first_one_is_dealt_with_changes_nothing():
    some = ("away", "no answer", "stuck", "fenced")
    firsts = [at for at in SINGLE if at[0] in (S.RUN_LANES, S.SEND_OFFSETS, S.COMMIT) and at[2] in some[:2]]
    seconds = list(product((S.ABORT, S.SETTLE, S.LOCATE_ENDS, S.RUN_LANES, S.COMMIT), (BEFORE, AFTER), some))
    met = Counter()
    for (one, when, name), (two, then, other) in product(firsts, seconds):
        if not can_be(two, then, other):
            continue
        world, plan = World(), Plan((one, when, FAULTS[name][0], 0), (two, then, FAULTS[other][0], 0))
        loop = world.run(plan)
        world.check_all()
        met[loop._machine.state, len(plan.left)] += 1
    assert min(met[S.IDLE, 0], met[S.FAILED, 0]) > 50


def test_a_kill_of_the_driver_at_any_step_changes_nothing_also_while_a_fault_is_dealt_with():
    first = {
        S.ABORT: (S.SEND_OFFSETS, BEFORE, FAULTS["away"][0], 0),
        S.SETTLE: (S.COMMIT, AFTER, FAULTS["no answer"][0], 0),
        S.LOCATE_ENDS: (S.SEND_OFFSETS, BEFORE, FAULTS["away"][0], 0),
    }
    for state, when in [*POINTS, *product(first, (BEFORE, AFTER))]:
        world, plan = World(), Plan(*filter(None, [first.get(state)]), (state, when, Killed(), 0))
        world.run(plan)
        assert plan.killed, (state, when)
        world.check_all()


def test_a_fault_that_does_not_pass_is_given_up_and_nothing_of_it_is_seen():
    for state, when in POINTS:
        for name in ("abortable", "worker lost", "stuck"):
            if (state, when) == (S.COMMIT, AFTER):
                continue  # it was committed, and that is found out
            world, plan = World(), Plan(*[(state, when, FAULTS[name][0], 0)] * 40)
            loop = world.run(plan)
            assert loop._machine.state is S.FAILED, (state, when, name)
            world.check_all()


def test_an_epoch_that_is_too_much_is_run_in_halves():
    for name in ("worker lost", "too large"):
        world, plan = World(), Plan((S.RUN_LANES, BEFORE, FAULTS[name][0], 0))
        loop = world.run(plan)
        assert loop.totals.epochs > 1
        assert loop.totals.retries == 1


def test_a_commit_whose_answer_is_lost_is_found_and_not_run_again():
    world, plan = World(), Plan((S.COMMIT, AFTER, FAULTS["no answer"][0], 0))
    loop = world.run(plan)
    assert (loop.totals.epochs, loop.totals.retries) == (1, 1)


def test_observers_are_told_before_each_step_of_the_table_and_after_the_last():
    loop, told = World().start(Plan()), []
    loop.observers.append(lambda step, epoch: told.append((step, epoch)))
    assert loop.step()
    assert told == [(moment, 1) for moment in (*STEPS, "published")]


def test_the_rows_of_a_failed_attempt_are_let_go_before_the_next_one_runs(caplog):
    caplog.set_level("CRITICAL", "penstock.engine")  # what is captured keeps the error
    plan = Plan((S.SEND_OFFSETS, BEFORE, BrokerError("x", abortable=True), 0))
    loop = World().start(plan)
    run, made, alive = loop.attempts.context.executor.run, [], []

    def watched(request, ranges):
        gc.collect()
        alive.append(sum(table() is not None for table in made))
        table = run(request, ranges)
        made.append(weakref.ref(table))
        return table

    loop.attempts.context.executor = SimpleNamespace(run=watched, follow=lambda request: None, spent={}, inline=True)
    assert loop.step()
    assert alive == [0, 0]
