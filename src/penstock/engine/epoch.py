"""The epoch as a state machine: what may happen at each step, and what is done about it. No I/O.

Everything that affects the state machine lives in this file: the states, the events, the table of transitions, and
which event an error is. `engine.loop` performs it. ``docs/epoch.md`` is generated from it.

An epoch is a Kafka transaction around the results of one run of the lanes::

    choose → run lanes → begin → produce sinks → produce changelog → produce epoch record → send offsets → commit
           → publish

A fault before the commit aborts, and the epoch is run again. Where the outcome of a transaction is not known, because
the answer to the commit was lost or the producer can no longer end it, ``settle`` finds out: ``init_transactions``
ends what was open, and the last epoch record tells whether it was committed. A fence by another instance ends the
application at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from penstock.errors import (
    BrokerError,
    EngineError,
    EpochTooLarge,
    FencedError,
    ProductionError,
    SparkEnded,
    TopicError,
)


class EpochState(StrEnum):
    """What is performed: the choice of the input, the eight steps, what a fault needs. The last four are final."""

    CHOOSE = "choose"
    RUN_LANES = "run lanes"
    BEGIN = "begin"
    PRODUCE_SINKS = "produce sinks"
    PRODUCE_CHANGELOG = "produce changelog"
    PRODUCE_EPOCH_RECORD = "produce epoch record"
    SEND_OFFSETS = "send offsets"
    COMMIT = "commit"
    PUBLISH = "publish"
    ABORT = "abort"
    SETTLE = "settle"
    LOCATE_ENDS = "locate changelog ends"
    ABORT_AND_LEAVE = "abort and leave"
    ABORT_AND_FAIL = "abort and fail"
    IDLE = "idle"
    PUBLISHED = "published"
    LEFT = "left"
    FAILED = "failed"


class EpochEvent(StrEnum):
    """How a state ended, and what that means."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> EpochEvent:  # noqa: D102
        event = str.__new__(cls, value)
        event._value_, event.meaning = value, meaning
        return event

    DONE = "done", "the state was performed"
    NOTHING = "nothing to do", "no input waits and nothing is due, or the application is paused"
    COMMITTED = "was committed", "the last epoch record is that of this run"
    NOT_COMMITTED = "was not committed", "the last epoch record is that of the epoch before"
    RETRIABLE = (
        "retriable",
        "an abort and another run may mend it; the limits of topics that refused rows are known now",
    )
    BROKER_AWAY = "broker away", "no broker answers"
    WORKER_LOST = "worker lost", "Spark lost a worker, or it ran out of memory"
    TOO_LARGE = "too large", "a task was to read more bytes than an epoch may have"
    TOO_SLOW = "too slow", "one of the above, when the transaction was open for half of its timeout or longer"
    UNTRACED = "untraced", "a row was refused, and its source record is not known: rows do not carry it unless asked to"
    UNKNOWN_OUTCOME = "unknown outcome", "the answer to the commit was lost"
    PRODUCER_LOST = "producer lost", "the producer cannot end its transaction: its client is stuck, or the abort failed"
    TIMED_OUT = "timed out", "as the two above, when the transaction was open for half of its timeout or longer"
    FENCED = "fenced", "another instance has taken over"
    PRODUCER_UNUSABLE = "producer unusable", "the producer fails for good (a missing permission) and cannot abort"
    FATAL = "fatal", "any other error"
    STOP_ASKED = "stop asked", "the epoch would be run again, but the application is to stop"
    GIVEN_UP = "given up", "the epoch would be run again, but has failed too often or for too long"
    NEXT_EPOCH = "next epoch", "the loop asks for another epoch"


class EpochAction(StrEnum):
    """What is done on the way to the next state."""

    PROCEED = "proceed"
    RUN_AGAIN = "run again"
    RUN_HALVES = "run again in halves"
    TRACE = "run again with origins"


S, E, A = EpochState, EpochEvent, EpochAction

#: the steps of an epoch in order; observers are told before each one, and crash tests kill before and after each one
STEPS = tuple(EpochState)[1:9]
#: the steps during which a transaction is open
TRANSACTION = STEPS[1:-1]
FINAL = frozenset(tuple(EpochState)[-4:])
#: what a broker answers to rows beyond the limits of their topic; the last: what librdkafka says of the others in
#: their batch
BEYOND_LIMITS = frozenset({"MSG_SIZE_TOO_LARGE", "INVALID_TIMESTAMP", "INVALID_RECORD"})
#: actions that the retry policy delays and bounds, and that a stop prevents
RETRYING = frozenset({A.RUN_AGAIN, A.RUN_HALVES})


class Transition(NamedTuple):
    """What is done about an event, and the state that follows."""

    action: EpochAction
    state: EpochState


Row = Mapping[EpochEvent, Transition]


def _row(*, to: EpochState | None = None, **others: EpochState) -> dict[EpochEvent, Transition]:
    """Return a row whose events need no action. ``to``: after DONE."""
    targets = ({"DONE": to} if to is not None else {}) | others
    return {EpochEvent[name]: Transition(A.PROCEED, state) for name, state in targets.items()}


def _again(state: EpochState, *events: EpochEvent, action: EpochAction = A.RUN_AGAIN) -> dict[EpochEvent, Transition]:
    return dict.fromkeys(events, Transition(action, state))


def _mended(state: EpochState) -> dict[EpochEvent, Transition]:
    """Faults that another run may mend; it begins with ``state``."""
    return {
        **_again(state, E.RETRIABLE, E.BROKER_AWAY),
        **_again(state, E.WORKER_LOST, E.TOO_LARGE, action=A.RUN_HALVES),
        **_again(state, E.UNTRACED, action=A.TRACE),
    }


def _in_transaction(following: EpochState) -> dict[EpochEvent, Transition]:
    return {
        **_row(to=following, FENCED=S.FAILED, PRODUCER_UNUSABLE=S.FAILED, FATAL=S.ABORT_AND_FAIL),
        **_mended(S.ABORT),
        **_again(S.ABORT, E.TOO_SLOW, action=A.RUN_HALVES),
        **_again(S.SETTLE, E.PRODUCER_LOST),
        **_again(S.SETTLE, E.TIMED_OUT, action=A.RUN_HALVES),
    }


#: every state × every event that can happen there; `event_of` returns no other
TABLE: Mapping[EpochState, Row] = {
    S.CHOOSE: _row(to=S.RUN_LANES, NOTHING=S.IDLE, FATAL=S.FAILED, STOP_ASKED=S.LEFT, GIVEN_UP=S.FAILED)
    | _again(S.CHOOSE, E.RETRIABLE, E.BROKER_AWAY),
    S.RUN_LANES: _row(to=S.BEGIN, FATAL=S.FAILED) | _mended(S.LOCATE_ENDS),
    S.BEGIN: _in_transaction(S.PRODUCE_SINKS),
    S.PRODUCE_SINKS: _in_transaction(S.PRODUCE_CHANGELOG),
    S.PRODUCE_CHANGELOG: _in_transaction(S.PRODUCE_EPOCH_RECORD),
    S.PRODUCE_EPOCH_RECORD: _in_transaction(S.SEND_OFFSETS),
    S.SEND_OFFSETS: _in_transaction(S.COMMIT),
    S.COMMIT: _in_transaction(S.PUBLISH) | _again(S.SETTLE, E.UNKNOWN_OUTCOME),
    S.PUBLISH: _row(to=S.PUBLISHED, FATAL=S.FAILED),
    S.ABORT: _row(to=S.LOCATE_ENDS, PRODUCER_LOST=S.SETTLE, FENCED=S.FAILED, FATAL=S.ABORT_AND_FAIL)
    | _row(STOP_ASKED=S.ABORT_AND_LEAVE, GIVEN_UP=S.ABORT_AND_FAIL),
    S.SETTLE: _row(COMMITTED=S.PUBLISH, NOT_COMMITTED=S.LOCATE_ENDS, FENCED=S.FAILED, FATAL=S.FAILED)
    | _row(STOP_ASKED=S.LEFT, GIVEN_UP=S.FAILED)
    | _again(S.SETTLE, E.BROKER_AWAY, E.PRODUCER_LOST),
    S.LOCATE_ENDS: _row(to=S.CHOOSE, FATAL=S.FAILED, STOP_ASKED=S.LEFT, GIVEN_UP=S.FAILED)
    | _again(S.LOCATE_ENDS, E.RETRIABLE, E.BROKER_AWAY),
    S.ABORT_AND_LEAVE: _row(to=S.LEFT, FATAL=S.FAILED),
    S.ABORT_AND_FAIL: _row(to=S.FAILED, FATAL=S.FAILED),
    S.IDLE: _row(NEXT_EPOCH=S.CHOOSE),
    S.PUBLISHED: _row(NEXT_EPOCH=S.CHOOSE),
    S.LEFT: _row(NEXT_EPOCH=S.LOCATE_ENDS),
    S.FAILED: _row(NEXT_EPOCH=S.LOCATE_ENDS),
}


class EpochMachine:
    """Where an epoch is.

    >>> machine = EpochMachine()
    >>> [str(machine.handle(event)) for event in (E.NEXT_EPOCH, E.DONE, E.WORKER_LOST)], str(machine.state)
    (['proceed', 'proceed', 'run again in halves'], 'locate changelog ends')
    """

    def __init__(self) -> None:
        self.state = S.IDLE

    def handle(self, event: EpochEvent, *, stopping: bool = False) -> EpochAction:
        """Go to the next state; return what is done on the way. ``stopping``: nothing is run again."""
        action, self.state = TABLE[self.state][event]
        if stopping and action in RETRYING:
            action, self.state = TABLE[self.state][E.STOP_ASKED]
        return action


def event_of(
    state: EpochState,
    error: BaseException,
    *,
    age: float = 0.0,
    learnt: bool = False,
    traceable: bool = False,
    stopping: bool = False,
) -> EpochEvent:
    """Return which event an error is.

    ``age``: how long the transaction is open, in parts of its timeout. ``learnt``: the limits of topics that refused rows
    are known now. ``traceable``: another run can tell the source record of a row.
    """
    if isinstance(error, BrokerError):
        return _broker_event(state, error, age, learnt)
    if state in STEPS[:-1]:
        untraced = isinstance(error, ProductionError) and error.origin is None and not error.retry
        if untraced and traceable and not stopping:
            return E.UNTRACED
        if isinstance(error, ProductionError) and error.retry:
            return E.RETRIABLE
        if isinstance(error, EpochTooLarge):
            return E.TOO_LARGE
        if isinstance(error, EngineError) and (error.passing or (stopping and isinstance(error, SparkEnded))):
            return E.WORKER_LOST
    return E.FATAL


def _broker_event(state: EpochState, error: BrokerError, age: float, learnt: bool) -> EpochEvent:
    if state is S.SETTLE:
        return E.FENCED if isinstance(error, FencedError) else E.BROKER_AWAY if error.retriable else E.PRODUCER_LOST
    if state is S.ABORT:
        return E.FENCED if isinstance(error, FencedError) and age < 1 else E.PRODUCER_LOST
    if state in (S.PUBLISH, S.ABORT_AND_LEAVE, S.ABORT_AND_FAIL) or (is_limit(error) and not learnt):
        return E.FATAL
    if state in TRANSACTION:
        return _transaction_event(state, error, age)
    if is_limit(error) or is_retriable(error):
        return E.BROKER_AWAY if error.retriable else E.RETRIABLE
    return E.FATAL


def _transaction_event(state: EpochState, error: BrokerError, age: float) -> EpochEvent:
    if not is_limit(error):
        if isinstance(error, FencedError):
            return E.TIMED_OUT if age >= 1 else E.FENCED
        if _is_lost(state, error):
            return E.TIMED_OUT if age >= 0.5 else E.PRODUCER_LOST if error.fatal else E.UNKNOWN_OUTCOME
        if not is_retriable(error):
            return E.PRODUCER_UNUSABLE if error.fatal or (state is S.COMMIT and not error.abortable) else E.FATAL
    return E.TOO_SLOW if age >= 0.5 else E.BROKER_AWAY if error.retriable else E.RETRIABLE


def _is_lost(state: EpochState, error: BrokerError) -> bool:
    """Whether the producer cannot end its transaction by an abort, but may by a new ``init_transactions``."""
    if error.fatal:
        return "AUTHORIZATION" not in (error.code or "")
    return state is S.COMMIT and error.retriable and not error.abortable


def is_retriable(error: BrokerError) -> bool:
    """Whether another run may mend it, as far as the error itself says."""
    if isinstance(error, TopicError):  # known topics exist: a record has named one that does not
        return False
    return (error.retriable or error.abortable) and not error.fatal


def is_limit(error: BrokerError) -> bool:
    """Whether a broker refused rows beyond the limits of their topic."""
    return error.code in BEYOND_LIMITS


def describe() -> str:
    """Return the table as Markdown, what the events mean, and the states as a Mermaid picture."""
    states: dict[tuple[str, Transition], list[EpochState]] = {}
    for state, row in TABLE.items():
        for transition in dict.fromkeys(row.values()):
            events = ", ".join(event for event, found in row.items() if found == transition)
            states.setdefault((events, transition), []).append(state)
    rows, edges = ["| state | event | action | next state |", "| --- | --- | --- | --- |"], []
    for (events, (action, following)), these in states.items():
        steps = len(these) > 4  # those of a transaction
        rows.append(f"| {these[0]} to {these[-1]} |" if steps else f"| {', '.join(these)} |")
        rows[-1] += f" {events} | {action} | {following} |"
        for name in ["TRANSACTION"] if steps else [state.name for state in these]:
            edges.append(f"    {name} --> {following.name}: {events}")
    meanings = ["| event | when |", "| --- | --- |", *(f"| {event} | {event.meaning} |" for event in E)]
    inner = [f"        {state.name}" for state in TRANSACTION]
    picture = ["```mermaid", "stateDiagram-v2", "    state TRANSACTION {", *inner, "    }", *edges, "```"]
    return "\n".join([*rows, "", *meanings, "", *picture])
