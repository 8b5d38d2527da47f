"""A task that stays for the next letter: who answers it, when it goes, and what becomes of a letter that meets nobody."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from penstock.engine import courier as module
from penstock.engine.courier import Courier
from penstock.errors import EngineError
from penstock.lane import post


class Office:
    """Runs the tasks of a courier where they are called: in the thread of their jobs."""

    def __init__(self, answer=lambda orders, letter: [orders, letter.upper()]):
        self.answer = answer
        self.begun = 0
        self.ended = threading.Semaphore(0)

    def __call__(self, address):
        self.begun += 1
        try:
            post.attend(address, self.answer)
        finally:
            self.ended.release()


@pytest.fixture
def bringing():
    couriers = []

    def make(attend):
        couriers.append(Courier(attend))
        return couriers[-1]

    yield make
    for courier in couriers:
        courier.close()


def test_one_task_answers_many_letters(bringing):
    office = Office()
    courier = bringing(office)
    assert [courier.bring(b"%d" % n, b"letter") for n in range(3)] == [[b"%d" % n, b"LETTER"] for n in range(3)]
    assert office.begun == 1


def test_a_letter_may_be_large_or_empty(bringing):
    courier = bringing(Office(lambda orders, letter: [letter, b"", orders]))
    large = os.urandom(5_000_000)
    assert courier.bring(b"", large) == [large, b"", b""]
    assert courier.bring(b"", b"") == [b"", b"", b""]


def test_what_a_task_raises_is_raised_where_its_answer_is_waited_for_and_the_next_letter_has_another_task(bringing):
    def answer(orders, letter):
        if letter == b"bad":
            raise EngineError("the worker has died")
        return [letter]

    office = Office(answer)
    courier = bringing(office)
    assert courier.bring(b"", b"good") == [b"good"]
    with pytest.raises(EngineError, match="has died"):
        courier.bring(b"", b"bad")
    assert courier.bring(b"", b"good") == [b"good"]
    assert office.begun == 2


def test_a_job_that_fails_before_its_task_calls_is_raised(bringing):
    def attend(address):
        raise EngineError("there is no Spark")

    with pytest.raises(EngineError, match="no Spark"):
        bringing(attend).bring(b"", b"letter")


def test_a_task_that_has_gone_for_want_of_letters_is_followed_by_another(bringing, monkeypatch):
    monkeypatch.setattr(post, "WAIT_SECONDS", 0.01)
    office = Office()
    courier = bringing(office)
    courier.bring(b"1", b"letter")
    office.ended.acquire()
    assert courier.bring(b"2", b"letter") == [b"2", b"LETTER"]
    assert office.begun == 2


def test_a_task_that_has_stayed_for_long_makes_room_for_the_next_one(bringing, monkeypatch):
    monkeypatch.setattr(module, "STAY_US", -1)
    office = Office()
    courier = bringing(office)
    for number in range(3):
        assert courier.bring(b"%d" % number, b"letter") == [b"%d" % number, b"LETTER"]
        office.ended.acquire()
    assert office.begun >= 3


def test_a_task_that_is_dismissed_ends(bringing):
    office = Office()
    courier = bringing(office)
    courier.bring(b"1", b"letter")
    courier.dismiss()
    office.ended.acquire()
    assert courier.bring(b"2", b"letter") == [b"2", b"LETTER"]


def test_a_task_that_calls_when_it_is_needed_no_more_ends(bringing, monkeypatch):
    monkeypatch.setattr(module, "STAY_US", -1)  # the next task is called at once
    may_call, office = threading.Event(), Office()

    def attend(address):
        if office.begun:
            may_call.wait()
        office(address)

    courier = bringing(attend)
    courier.bring(b"1", b"letter")
    courier.dismiss()
    may_call.set()
    office.ended.acquire()
    assert courier.bring(b"2", b"letter") == [b"2", b"LETTER"]


def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next_one(bringing, monkeypatch):
    courier, receive = bringing(Office()), post.receive

    def interrupted(line):
        raise KeyboardInterrupt

    courier.bring(b"1", b"letter")
    here = threading.current_thread()
    monkeypatch.setattr(
        post, "receive", lambda line: (interrupted if threading.current_thread() is here else receive)(line)
    )
    with pytest.raises(KeyboardInterrupt):
        courier.bring(b"2", b"letter")
    monkeypatch.setattr(post, "receive", receive)
    assert courier.bring(b"3", b"letter") == [b"3", b"LETTER"]


def test_a_message_that_breaks_off_is_none():
    here, there = socket.socketpair()
    with there:
        with here:
            here.sendall((1).to_bytes(8, "big") + (100).to_bytes(8, "big") + b"not a hundred bytes")
        assert post.receive(there) is None
