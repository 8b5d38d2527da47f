"""The table of the epoch: it is whole, and whatever happens in whatever order, the promises of the barrier hold.

The model below is the log as a set of facts. All states × all events are explored from it, each fault before and after the effect
of its step, until nothing new is found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import pytest

from penstock.engine.commit import PERFORM
from penstock.engine.epoch import (
    FINAL,
    RETRYING,
    STEPS,
    TABLE,
    TRANSACTION,
    EpochAction,
    EpochEvent,
    EpochMachine,
    EpochState,
    Transition,
    event_of,
)
from penstock.errors import (
    BrokerError,
    EngineError,
    EpochTooLarge,
    FencedError,
    ProductionError,
    SparkEnded,
    TopicError,
)
from penstock.record import NO_ORIGIN

S, E = EpochState, EpochEvent
FLAGS = ("retriable", "abortable", "fatal")
CODES = (None, "MSG_SIZE_TOO_LARGE", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
ERRORS = [
    *(
        kind("x", code=code, **dict(zip(FLAGS, flags, strict=True)))
        for kind in (BrokerError, FencedError, TopicError)
        for code in CODES
        for flags in product((False, True), repeat=3)
    ),
    EngineError("x"),
    EngineError("x", passing=False),
    EpochTooLarge("x", records=1, size=1),
    SparkEnded("x"),
    ProductionError("x"),
    ProductionError("x", origin=NO_ORIGIN),
    ValueError("x"),
    KeyboardInterrupt(),
]


def circumstances():
    for age, learnt, traceable, stopping in product((0.0, 0.5, 1.0), *[(False, True)] * 3):
        yield {"age": age, "learnt": learnt, "traceable": traceable, "stopping": stopping}


# the table is whole


def test_every_state_has_a_row_and_every_event_and_state_is_reached():
    assert list(TABLE) == list(EpochState)
    assert {event for row in TABLE.values() for event in row} == set(EpochEvent)
    assert {following for row in TABLE.values() for _, following in row.values()} == set(EpochState)


def test_the_steps_follow_each_other_and_each_one_is_performed():
    state, done = S.RUN_LANES, []
    while state is not S.PUBLISHED:
        done.append(state)
        state = TABLE[state][E.DONE].state
    assert tuple(done) == STEPS
    assert list(PERFORM) == list(STEPS[:-1])


@pytest.mark.parametrize("state", [state for state in EpochState if state not in FINAL])
def test_every_error_is_an_event_that_the_state_knows(state):
    for error, how in product(ERRORS, circumstances()):
        assert event_of(state, error, **how) in TABLE[state], (error, how)


def test_every_fault_of_the_table_is_some_error():
    no_error = {E.DONE, E.NOTHING, E.COMMITTED, E.NOT_COMMITTED, E.STOP_ASKED, E.GIVEN_UP, E.NEXT_EPOCH}
    for state in set(EpochState) - FINAL:
        found = {event_of(state, error, **how) for error, how in product(ERRORS, circumstances())}
        assert set(TABLE[state]) - no_error == found, state


def test_whatever_is_run_again_can_be_stopped_and_given_up():
    for row in TABLE.values():
        for action, following in row.values():
            if action in RETRYING:
                assert TABLE[following].keys() >= {E.STOP_ASKED, E.GIVEN_UP}


def test_a_stop_leaves_what_would_be_run_again_and_nothing_else():
    for state, event in ((state, event) for state, row in TABLE.items() for event in row):
        machine, stopped = EpochMachine(), EpochMachine()
        machine.state = stopped.state = state
        if machine.handle(event) in RETRYING:
            stopped.handle(event, stopping=True)
            assert stopped.state in (S.LEFT, S.ABORT_AND_LEAVE)
        else:
            stopped.handle(event, stopping=True)
            assert stopped.state is machine.state


@pytest.mark.parametrize(
    "error",
    [
        TopicError("no such topic", retriable=True),
        EngineError("no JVM", passing=False),
        BrokerError("forbidden"),
        BrokerError("done for", retriable=True, fatal=True),
    ],
)
def test_what_does_not_pass_is_not_run_again(error):
    assert TABLE[S.CHOOSE][event_of(S.CHOOSE, error)].state is S.FAILED
    assert TABLE[S.RUN_LANES][event_of(S.RUN_LANES, error)].state is S.FAILED


# the promises


@dataclass(frozen=True)
class World:
    """What the log knows of one epoch, and what the application has told of it."""

    #: a transaction is open, with these rows
    open: bool = False
    rows: frozenset[str] = frozenset()
    #: what of it is visible: nothing, or everything at once
    commits: int = 0
    visible: frozenset[str] = frozenset()
    published: int = 0

    def after(self, state: EpochState) -> World:
        """Return the world after a state has had its effect."""
        match state:
            case S.BEGIN:
                assert not self.open, "a transaction begins while one is open"
                return replace(self, open=True, rows=frozenset())
            case S.PRODUCE_SINKS | S.PRODUCE_CHANGELOG | S.PRODUCE_EPOCH_RECORD | S.SEND_OFFSETS:
                assert self.open, f"{state} outside of a transaction"
                return replace(self, rows=self.rows | {state.value})
            case S.COMMIT:
                assert self.open, "a commit without a transaction"
                return replace(self, open=False, commits=self.commits + 1, visible=self.rows)
            case S.ABORT | S.ABORT_AND_LEAVE | S.ABORT_AND_FAIL | S.SETTLE:
                return replace(self, open=False, rows=frozenset())
            case S.PUBLISH:
                return replace(self, published=self.published + 1)
        return self

    def check(self, state: EpochState) -> None:
        """What must hold when a state is entered."""
        whole = frozenset(step.value for step in STEPS[2:-2])
        assert self.commits <= 1, "committed twice"
        assert self.visible == (whole if self.commits else frozenset()), "a part of an epoch is visible"
        assert not self.published or self.commits == 1, "published before it was committed"
        if state is S.PUBLISH:
            assert (self.commits, self.published) == (1, 0), "published before it was committed, or twice"
        if state in (S.CHOOSE, S.LOCATE_ENDS, S.RUN_LANES, S.BEGIN):
            assert not self.open, "the next run begins while the transaction of the last one is open"
            assert not self.commits, "an epoch that was committed is run again"
        if state is S.PUBLISHED:
            assert (self.commits, self.published) == (1, 1)
        if state is S.IDLE:
            assert self == World()


#: after the effect of a commit nothing else can be told: the cluster does not answer "abort" to what it has committed
AFTER_COMMIT = {E.DONE, E.UNKNOWN_OUTCOME, E.PRODUCER_LOST, E.TIMED_OUT, E.FENCED, E.PRODUCER_UNUSABLE, E.FATAL}


def outcomes(state: EpochState, world: World):
    """Yield what may come of performing a state: (event, the world then)."""
    for event in TABLE[state]:
        if event in (E.STOP_ASKED, E.GIVEN_UP):
            continue  # not of the state: of what would be run again
        if event in (E.COMMITTED, E.NOT_COMMITTED):
            if (event is E.COMMITTED) == bool(world.commits):
                yield event, world.after(state)
            continue
        if event is not E.DONE:
            yield event, world
        if state is not S.COMMIT or event in AFTER_COMMIT:
            yield event, world.after(state)


def explored():
    """Return every state with every world that can be met there."""
    found: set[tuple[EpochState, World]] = set()
    waiting = [(S.CHOOSE, World())]
    while waiting:
        at = waiting.pop()
        if at in found:
            continue
        found.add(at)
        state, world = at
        world.check(state)
        if state in FINAL:
            continue
        for event, then in outcomes(state, world):
            action, following = TABLE[state][event]
            waiting.append((following, then))
            if action in RETRYING:
                waiting += [(TABLE[following][ended].state, then) for ended in (E.STOP_ASKED, E.GIVEN_UP)]
    return found


def test_whatever_happens_an_epoch_is_committed_once_as_a_whole_and_published_after_that():
    found = explored()
    assert {state for state, _ in found} == set(EpochState)
    assert any(world.commits and state is S.SETTLE for state, world in found)


@pytest.mark.parametrize(
    ("state", "event", "wrong", "said"),
    [
        (S.COMMIT, E.UNKNOWN_OUTCOME, S.ABORT, "run again"),
        (S.COMMIT, E.UNKNOWN_OUTCOME, S.PUBLISH, "published before"),
        (S.SEND_OFFSETS, E.RETRIABLE, S.LOCATE_ENDS, "is open"),
        (S.PRODUCE_SINKS, E.DONE, S.PRODUCE_EPOCH_RECORD, "a part of an epoch"),
        (S.SETTLE, E.COMMITTED, S.LOCATE_ENDS, "run again"),
        (S.RUN_LANES, E.DONE, S.PRODUCE_SINKS, "outside of a transaction"),
        (S.PUBLISH, E.FATAL, S.CHOOSE, "run again"),
    ],
)
def test_a_table_that_is_wrong_is_found_out(state, event, wrong, said, monkeypatch):
    row = dict(TABLE[state])
    row[event] = Transition(EpochAction.PROCEED, wrong)
    monkeypatch.setitem(TABLE, state, row)
    with pytest.raises(AssertionError, match=said):
        explored()


def test_the_transaction_is_between_the_lanes_and_the_publication():
    assert STEPS[1:-1] == TRANSACTION
    assert (STEPS[0], TRANSACTION[0], TRANSACTION[-1], STEPS[-1]) == (S.RUN_LANES, S.BEGIN, S.COMMIT, S.PUBLISH)
