"""What a failed run leaves behind is aborted, or found to be committed; an instance that has taken over is let be."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from penstock.engine.committed_state import CommittedState
from penstock.engine.epoch import TABLE, EpochState, event_of
from penstock.engine.record import EpochRecord, read_last, rows_of
from penstock.engine.transaction_recovery import TransactionRecovery
from penstock.engine.work import EpochContext
from penstock.errors import BrokerError, EngineError, FencedError
from penstock.log.base import TopicSpec
from penstock.log.memory import MemoryLog
from penstock.log.topics import epochs_name
from penstock.protocol.request import ShardRequest

S = EpochState
UNKNOWN = BrokerError("no answer", retriable=True)
STUCK = BrokerError("it does not return", code="STUCK", fatal=True)
FENCED = FencedError("another instance has taken over", fatal=True)


class Clock:
    """A clock that is set by hand."""

    now = 1_000_000

    def now_ms(self) -> int:
        return self.now


class Run:
    """An instance of an application in memory that writes nothing but its epoch records."""

    def __init__(self, log: MemoryLog, epoch: int = 0, guarantee: str = "exactly_once") -> None:
        self.clock = Clock()
        self.producer = log.producer("app" if guarantee == "exactly_once" else None)
        self.producer.init()
        config = {"processing_guarantee": guarantee, "kafka": {}}
        self.context = EpochContext(log, None, self.producer, config, self.clock, "", "", {}, None)
        self.recovery = TransactionRecovery(self.context)
        self.committed = CommittedState("app", "life", 1, (ShardRequest(),), epoch=epoch)

    def begin(self, token: str) -> SimpleNamespace:
        """Come as far as the commit of the next epoch."""
        self.recovery.begin()
        self.producer.begin()
        record = EpochRecord(epoch=self.committed.epoch + 1, token=token, application_id="app", shards=1, lanes=1)
        self.producer.produce(rows_of(record, 1))
        return SimpleNamespace(committed=self.committed, request=SimpleNamespace(token=token), application_id="app")

    def classify(self, state: EpochState, error: BaseException) -> EpochState:
        """Return the state that follows an error."""
        return TABLE[state][event_of(state, error, age=self.recovery.age)].state

    def settle(self, work: SimpleNamespace, state: EpochState) -> bool:
        """Do what the table says from a state on, until it is known whether the run was committed."""
        if state is S.ABORT:
            try:
                self.recovery.abort()
            except BrokerError as error:
                state = self.classify(S.ABORT, error)
                if state is not S.SETTLE:
                    raise
            else:
                return False
        assert state is S.SETTLE
        return self.recovery.settle(work)


@pytest.fixture
def log():
    made = MemoryLog()
    made.admin.ensure_topics([TopicSpec(epochs_name("app"), 1)])
    return made


def last_token(log):
    record = read_last(log, "app")
    return None if record is None else record.token


def test_an_open_transaction_is_aborted(log):
    run = Run(log)
    work = run.begin("1.a")
    assert run.classify(S.SEND_OFFSETS, BrokerError("x", abortable=True)) is S.ABORT
    assert not run.settle(work, S.ABORT)
    run.begin("1.b")
    run.producer.commit()
    assert last_token(log) == "1.b"


def test_a_commit_of_which_nobody_knows_whether_it_was_done_is_found_when_it_was(log):
    run = Run(log)
    work = run.begin("1.a")
    run.producer.commit()
    assert run.classify(S.COMMIT, UNKNOWN) is S.SETTLE
    assert run.settle(work, S.SETTLE)
    assert last_token(log) == "1.a"


def test_a_commit_of_which_nobody_knows_whether_it_was_done_is_undone_when_it_was_not(log):
    run = Run(log)
    work = run.begin("1.a")
    assert run.classify(S.COMMIT, UNKNOWN) is S.SETTLE
    assert not run.settle(work, S.SETTLE)
    assert last_token(log) is None
    run.begin("1.b")
    run.producer.commit()
    assert last_token(log) == "1.b"


def test_a_client_that_is_stuck_is_replaced(log):
    run = Run(log)
    work = run.begin("1.a")
    assert run.classify(S.SEND_OFFSETS, STUCK) is S.SETTLE
    assert not run.settle(work, S.SETTLE)
    assert run.classify(S.RUN_LANES, EngineError("no JVM", passing=False)) is S.FAILED


def test_a_fenced_producer_stops(log):
    run = Run(log)
    run.begin("1.a")
    assert run.classify(S.COMMIT, FENCED) is S.FAILED


def test_a_transaction_that_was_open_for_too_long_is_no_sign_of_another_instance(log):
    run = Run(log)
    work = run.begin("1.a")
    run.clock.now += 60_000
    assert run.classify(S.COMMIT, FENCED) is S.SETTLE
    assert not run.settle(work, S.SETTLE)


def test_an_instance_that_went_on_meanwhile_is_not_robbed(log):
    run = Run(log)
    work = run.begin("1.a")
    run.clock.now += 60_000
    other = Run(log)
    other.begin("1.b")
    other.producer.commit()
    assert run.classify(S.COMMIT, FENCED) is S.SETTLE
    with pytest.raises(FencedError, match="epoch 1 is committed, and this one knows of 0") as caught:
        run.settle(work, S.SETTLE)
    assert run.classify(S.SETTLE, caught.value) is S.FAILED
    other.committed = CommittedState("app", "life", 1, (ShardRequest(),), epoch=1)
    other.begin("2.b")
    other.producer.commit()
    assert last_token(log) == "2.b"


def test_an_abort_that_is_refused_because_another_instance_has_taken_over_is_the_end(log):
    run = Run(log)
    work = run.begin("1.a")
    Run(log)
    assert run.classify(S.SEND_OFFSETS, UNKNOWN) is S.ABORT
    with pytest.raises(FencedError, match="has taken over"):
        run.settle(work, S.ABORT)
    assert run.classify(S.ABORT, FENCED) is S.FAILED


def test_at_least_once_a_run_is_never_taken_for_committed(log):
    run = Run(log, guarantee="at_least_once")
    work = run.begin("1.a")
    run.producer.commit()
    assert run.classify(S.COMMIT, UNKNOWN) is S.SETTLE
    assert not run.settle(work, S.SETTLE)


def test_a_right_that_is_missing_is_not_waited_for(log):
    run = Run(log)
    run.begin("1.a")
    refused = BrokerError("not allowed", code="TRANSACTIONAL_ID_AUTHORIZATION_FAILED", fatal=True)
    assert run.classify(S.SEND_OFFSETS, refused) is S.FAILED
