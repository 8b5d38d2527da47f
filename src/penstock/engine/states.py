"""The states of an application and the ways between them, as a table. Names and ways are those of Kafka Streams.

::

    CREATED ──► REBALANCING ◄──► RUNNING          REBALANCING: taking over, restoring
       │             │              │
       ├─────────────┴──────────────┤
       ▼                            ▼
    PENDING_SHUTDOWN          PENDING_ERROR       (not from CREATED: nothing runs that could fail)
       ▼                            ▼
    NOT_RUNNING                   ERROR

Everything that decides about states is in this file; nothing here does anything else.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TypeAlias

from penstock.errors import StateError

logger = logging.getLogger("penstock.engine")


class State(StrEnum):
    """What an application does at the moment."""

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"


TRANSITIONS: Mapping[State, frozenset[State]] = {
    State.CREATED: frozenset({State.REBALANCING, State.PENDING_SHUTDOWN}),
    State.REBALANCING: frozenset({State.RUNNING, State.PENDING_SHUTDOWN, State.PENDING_ERROR}),
    State.RUNNING: frozenset({State.REBALANCING, State.PENDING_SHUTDOWN, State.PENDING_ERROR}),
    State.PENDING_SHUTDOWN: frozenset({State.NOT_RUNNING}),
    State.NOT_RUNNING: frozenset(),
    State.PENDING_ERROR: frozenset({State.ERROR}),
    State.ERROR: frozenset(),
}

#: told of a change: (new, old)
Listener: TypeAlias = Callable[[State, State], None]


def reachable(state: State) -> frozenset[State]:
    """Return the states that an application in this one may be in, now or later.

    >>> sorted(reachable(State.PENDING_ERROR))
    [<State.ERROR: 'ERROR'>, <State.PENDING_ERROR: 'PENDING_ERROR'>]
    """
    found, waiting = {state}, [state]
    while waiting:
        new = TRANSITIONS[waiting.pop()] - found
        found |= new
        waiting += new
    return frozenset(found)


class StateMachine:
    """The state of one application, for all its threads.

    >>> machine = StateMachine()
    >>> machine.listen(lambda new, old: print(old, "to", new))
    >>> machine.to(State.REBALANCING)
    CREATED to REBALANCING
    >>> machine.to(State.NOT_RUNNING)
    Traceback (most recent call last):
    penstock.errors.StateError: the application is REBALANCING and cannot become NOT_RUNNING, only PENDING_ERROR, PENDING_SHUTDOWN, RUNNING

    Every listener is told of every change once, in the order of the changes, without a lock held: it may ask, wait, or change the
    state. Where two threads change it at the same time one of them tells of both, so ``to`` may return before the listeners know.
    """

    def __init__(self) -> None:
        self._state = State.CREATED
        self._changed = threading.Condition()
        self._listeners: list[Listener] = []
        self._changes: deque[tuple[State, State]] = deque()
        self._notifying = False

    @property
    def state(self) -> State:
        """The state now."""
        return self._state

    def listen(self, listener: Listener) -> None:
        """Call ``listener(new, old)`` after every change. What it raises is logged: who watches does not decide."""
        with self._changed:
            self._listeners.append(listener)

    def to(self, new: State) -> None:
        """Go to a state; raise ``StateError`` if no way leads there."""
        if refusing := self._go(new):
            ways = ", ".join(sorted(TRANSITIONS[refusing]))
            remedy = f"only {ways}" if ways else "nor anything else: make a new one"
            raise StateError(f"the application is {refusing} and cannot become {new}, {remedy}")

    def try_to(self, new: State) -> bool:
        """Go to a state if a way leads there; tell whether it did. For threads that stop an application at the same time."""
        return self._go(new) is None

    def wait_for(self, *states: State, timeout: float | None = None) -> bool:
        """Wait until the application is in one of the states; tell whether it is.

        False after ``timeout`` seconds, and at once when none of the states can come any more.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._state in states or not reachable(self._state) & set(states), timeout)
            return self._state in states

    def _go(self, new: State) -> State | None:
        """Go to a state; return the one that has no way there, if it is so."""
        with self._changed:
            old = self._state
            if new not in TRANSITIONS[old]:
                return old
            self._state = new
            self._changes.append((new, old))
            self._changed.notify_all()
        self._notify()
        return None

    def _notify(self) -> None:
        """Notify listeners until no change is left. INVARIANT: only one thread does so at a time."""
        while True:
            with self._changed:
                if self._notifying or not self._changes:
                    return
                self._notifying = True
                new, old = self._changes.popleft()
                listeners = tuple(self._listeners)
            try:
                for listener in listeners:
                    _call(listener, new, old)
            finally:
                with self._changed:
                    self._notifying = False


def _call(listener: Listener, new: State, old: State) -> None:
    try:
        listener(new, old)
    except Exception:
        logger.exception("a listener failed when it was told that the state is %s after %s", new, old)
