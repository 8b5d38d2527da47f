"""States of the application: the table, and what threads see of it."""

from __future__ import annotations

import itertools
import threading

import pytest

from penstock.engine.states import TRANSITIONS, State, StateMachine, reachable
from penstock.errors import StateError

#: as in Kafka Streams 4.3.1, without the way from RUNNING to itself
KAFKAS_TABLE = {
    "CREATED": {"REBALANCING", "PENDING_SHUTDOWN"},
    "REBALANCING": {"RUNNING", "PENDING_SHUTDOWN", "PENDING_ERROR"},
    "RUNNING": {"REBALANCING", "PENDING_SHUTDOWN", "PENDING_ERROR"},
    "PENDING_SHUTDOWN": {"NOT_RUNNING"},
    "NOT_RUNNING": set(),
    "PENDING_ERROR": {"ERROR"},
    "ERROR": set(),
}
#: a way to each state
WAYS = {
    State.CREATED: [],
    State.REBALANCING: [State.REBALANCING],
    State.RUNNING: [State.REBALANCING, State.RUNNING],
    State.PENDING_SHUTDOWN: [State.PENDING_SHUTDOWN],
    State.NOT_RUNNING: [State.PENDING_SHUTDOWN, State.NOT_RUNNING],
    State.PENDING_ERROR: [State.REBALANCING, State.PENDING_ERROR],
    State.ERROR: [State.REBALANCING, State.PENDING_ERROR, State.ERROR],
}


def machine_in(state: State) -> StateMachine:
    machine = StateMachine()
    for step in WAYS[state]:
        machine.to(step)
    return machine


def test_the_table_is_kafkas():
    assert {str(state): {str(new) for new in ways} for state, ways in TRANSITIONS.items()} == KAFKAS_TABLE


@pytest.mark.parametrize(("old", "new"), list(itertools.product(State, State)))
def test_a_machine_goes_the_ways_of_the_table_and_no_other(old, new):
    machine, told = machine_in(old), []
    machine.listen(lambda *change: told.append(change))
    if new in TRANSITIONS[old]:
        machine.to(new)
        assert (machine.state, told) == (new, [(new, old)])
    else:
        with pytest.raises(StateError, match=f"is {old} and cannot become {new}"):
            machine.to(new)
        assert not machine.try_to(new)
        assert (machine.state, told) == (old, [])


def test_every_end_is_an_end():
    assert {state for state in State if reachable(state) == {state}} == {State.NOT_RUNNING, State.ERROR}


def test_an_ended_application_says_what_to_do():
    with pytest.raises(StateError, match="make a new one"):
        machine_in(State.ERROR).to(State.RUNNING)


def test_listeners_are_told_in_the_order_they_came():
    machine, told = StateMachine(), []
    machine.listen(lambda new, old: told.append(("first", new, old)))
    machine.listen(lambda new, old: told.append(("second", new, old)))
    machine.to(State.REBALANCING)
    assert told == [(who, State.REBALANCING, State.CREATED) for who in ("first", "second")]


def test_a_listener_that_changes_the_state_does_not_turn_the_order_around():
    machine, told = StateMachine(), []

    def close_at_once(new, old):
        machine.try_to(State.PENDING_SHUTDOWN)

    machine.listen(close_at_once)
    machine.listen(lambda new, old: told.append(new))
    machine.to(State.REBALANCING)
    assert told == [State.REBALANCING, State.PENDING_SHUTDOWN]


def test_a_listener_that_raises_is_logged_and_the_others_are_told(caplog):
    machine, told = StateMachine(), []
    machine.listen(lambda new, old: 1 / 0)
    machine.listen(lambda new, old: told.append(new))
    machine.to(State.REBALANCING)
    machine.to(State.RUNNING)
    assert told == [State.REBALANCING, State.RUNNING]
    assert "ZeroDivisionError" in caplog.text
    assert "RUNNING after REBALANCING" in caplog.text


def test_waiting_ends_when_the_state_comes():
    machine = StateMachine()
    thread = threading.Thread(target=lambda: [machine.to(state) for state in WAYS[State.RUNNING]])
    thread.start()
    assert machine.wait_for(State.RUNNING, State.ERROR, timeout=30)
    thread.join()


def test_waiting_ends_at_once_when_the_state_cannot_come_any_more():
    machine = machine_in(State.RUNNING)
    waited: list[bool] = []
    thread = threading.Thread(target=lambda: waited.append(machine.wait_for(State.NOT_RUNNING)))
    thread.start()
    machine.to(State.PENDING_ERROR)
    thread.join(30)
    assert waited == [False]


def test_waiting_gives_up_after_its_time():
    assert not StateMachine().wait_for(State.RUNNING, timeout=0)


def test_of_many_threads_that_stop_an_application_one_does():
    machine, told, start = machine_in(State.RUNNING), [], threading.Barrier(8)
    machine.listen(lambda *change: told.append(change))
    stopped: list[bool] = []

    def stop(way: State) -> None:
        start.wait()
        stopped.append(machine.try_to(way))

    ways = [State.PENDING_SHUTDOWN, State.PENDING_ERROR] * 4
    threads = [threading.Thread(target=stop, args=(way,)) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(stopped) == [False] * 7 + [True]
    assert told == [(machine.state, State.RUNNING)]


def test_listeners_hear_the_changes_of_many_threads_as_one_chain():
    machine, told = machine_in(State.RUNNING), []
    machine.listen(lambda *change: told.append(change))

    def turn() -> None:
        for _ in range(200):
            machine.try_to(State.REBALANCING)
            machine.try_to(State.RUNNING)

    threads = [threading.Thread(target=turn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told
    assert all(before[0] == after[1] for before, after in itertools.pairwise(told))
    assert told[-1][0] == machine.state
