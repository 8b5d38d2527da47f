"""A task that stays for the next inline epoch: who runs it, when it ends, and what becomes of an epoch that finds no task."""

from __future__ import annotations

import os
import resource
import socket
import tempfile
import threading

import pytest

from penstock.engine.executor import resident as module
from penstock.engine.executor.resident import ResidentTasks
from penstock.errors import EngineError
from penstock.protocol import channel


class Office:
    """Runs tasks where they are sent for: in the threads of their jobs."""

    def __init__(self, answer=lambda orders, parts: [orders, *(rows.upper() for _, rows in parts)]):
        self.answer = answer
        self.begun = 0
        self.ended = threading.Semaphore(0)
        self.noticed = []

    def __call__(self, address):
        self.begun += 1
        try:
            channel.serve(address, self.answer, self.noticed.append)
        finally:
            self.ended.release()


@pytest.fixture
def bringing():
    all_tasks = []

    def make(serve, most=1):
        all_tasks.append(ResidentTasks(serve, most))
        return all_tasks[-1]

    yield make
    for tasks in all_tasks:
        tasks.close()


def test_one_task_answers_many_inline_epochs(bringing):
    office = Office()
    tasks = bringing(office)
    assert [tasks.run(b"%d" % n, [(None, b"epoch")]) for n in range(3)] == [[b"%d" % n, b"EPOCH"] for n in range(3)]
    assert office.begun == 1


def test_a_program_may_have_more_than_a_thousand_files_open(bringing):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 2000:
        pytest.skip("not on this machine")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(2000, limits[0]), limits[1]))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert bringing(Office()).run(b"1", [(None, b"epoch")]) == [b"1", b"EPOCH"]
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_notice_comes_before_the_next_epoch_and_needs_no_answer(bringing):
    office = Office()
    tasks = bringing(office)
    tasks.notify(b"nobody is there")
    tasks.run(b"1", [(None, b"epoch")])
    tasks.notify(b"barrier")
    tasks.run(b"2", [(None, b"epoch")])
    assert office.noticed == [b"barrier"]


def test_nothing_is_left_on_the_disk_once_a_task_has_called(bringing, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tasks = bringing(Office())
    tasks.run(b"1", [(None, b"epoch")])
    assert list(tmp_path.iterdir()) == []


def test_an_inline_epoch_may_be_large_or_empty(bringing):
    tasks = bringing(Office(lambda orders, parts: [parts[0][1], b"", orders]))
    large = os.urandom(5_000_000)
    assert tasks.run(b"", [(None, large)]) == [large, b"", b""]
    assert tasks.run(b"", [(None, b"")]) == [b"", b"", b""]


def test_what_a_task_raises_is_raised_where_its_answer_is_waited_for_and_the_next_epoch_has_another_task(bringing):
    def answer(orders, parts):
        if (None, b"bad") in parts:
            raise EngineError("the worker has died")
        return [rows for _, rows in parts]

    office = Office(answer)
    tasks = bringing(office)
    assert tasks.run(b"", [(None, b"good")]) == [b"good"]
    with pytest.raises(EngineError, match="has died"):
        tasks.run(b"", [(None, b"bad")])
    assert tasks.run(b"", [(None, b"good")]) == [b"good"]
    assert office.begun == 2


def test_a_job_that_fails_before_its_task_calls_is_raised(bringing):
    def serve(address):
        raise EngineError("there is no Spark")

    with pytest.raises(EngineError, match="no Spark"):
        bringing(serve).run(b"", [(None, b"epoch")])


def test_a_task_that_has_gone_for_want_of_epochs_is_followed_by_another(bringing, monkeypatch):
    monkeypatch.setattr(channel, "WAIT_SECONDS", 0.01)
    office = Office()
    tasks = bringing(office)
    tasks.run(b"1", [(None, b"epoch")])
    office.ended.acquire()
    assert tasks.run(b"2", [(None, b"epoch")]) == [b"2", b"EPOCH"]
    assert office.begun == 2


def test_a_task_that_has_stayed_for_long_makes_room_for_the_next_one(bringing, monkeypatch):
    monkeypatch.setattr(module, "STAY_US", -1)
    office = Office()
    tasks = bringing(office)
    for number in range(3):
        assert tasks.run(b"%d" % number, [(None, b"epoch")]) == [b"%d" % number, b"EPOCH"]
        office.ended.acquire()
    assert office.begun >= 3


def test_a_task_that_is_dismissed_ends(bringing):
    office = Office()
    tasks = bringing(office)
    tasks.run(b"1", [(None, b"epoch")])
    tasks.dismiss()
    office.ended.acquire()
    assert tasks.run(b"2", [(None, b"epoch")]) == [b"2", b"EPOCH"]


def test_a_task_that_calls_when_it_is_needed_no_more_ends(bringing, monkeypatch):
    monkeypatch.setattr(module, "STAY_US", -1)  # the next task is called at once
    may_call, office = threading.Event(), Office()

    def serve(address):
        if office.begun:
            may_call.wait()
        office(address)

    tasks = bringing(serve)
    tasks.run(b"1", [(None, b"epoch")])
    tasks.dismiss()
    may_call.set()
    office.ended.acquire()
    assert tasks.run(b"2", [(None, b"epoch")]) == [b"2", b"EPOCH"]


def test_an_answer_that_nobody_waited_for_is_not_taken_for_the_next_one(bringing, monkeypatch):
    tasks, receive = bringing(Office()), channel.receive

    def interrupted(line):
        raise KeyboardInterrupt

    tasks.run(b"1", [(None, b"epoch")])
    here = threading.current_thread()
    monkeypatch.setattr(
        channel, "receive", lambda line: (interrupted if threading.current_thread() is here else receive)(line)
    )
    with pytest.raises(KeyboardInterrupt):
        tasks.run(b"2", [(None, b"epoch")])
    monkeypatch.setattr(channel, "receive", receive)
    assert tasks.run(b"3", [(None, b"epoch")]) == [b"3", b"EPOCH"]


def test_each_task_that_is_there_takes_parts_of_an_inline_epoch(bringing):
    both, taken = threading.Barrier(2), []

    def answer(orders, parts):
        both.wait()  # neither answers before the other has been asked
        taken.append([lane for lane, _ in parts])
        return [b"%d" % lane for lane, _ in parts]

    tasks = bringing(Office(answer), most=2)
    while len(tasks._who_is_here(2)) < 2:
        pass
    found = tasks.run(b"", [(lane, b"rows") for lane in range(3)])
    assert sorted(found) == [b"0", b"1", b"2"]
    assert sorted(taken) == [[0, 2], [1]]


def test_a_task_that_has_no_place_yet_is_not_waited_for(bringing):
    place, office = threading.Semaphore(1), Office(lambda orders, parts: [b"%d" % lane for lane, _ in parts])

    def serve(address):
        with place:
            office(address)

    tasks = bringing(serve, most=2)
    assert tasks.run(b"", [(0, b"rows"), (1, b"rows")]) == [b"0", b"1"]
    assert office.begun == 1


def test_parts_of_a_task_that_has_gone_are_taken_by_others(bringing, monkeypatch):
    office = Office(lambda orders, parts: [b"%d" % lane for lane, _ in parts])
    tasks = bringing(office, most=2)
    while len(tasks._who_is_here(2)) < 2:
        pass
    monkeypatch.setattr(channel, "WAIT_SECONDS", 0.01)
    tasks.run(b"", [(0, b""), (1, b"")])
    office.ended.acquire()
    office.ended.acquire()
    monkeypatch.setattr(channel, "WAIT_SECONDS", 1.0)
    assert sorted(tasks.run(b"", [(0, b""), (1, b""), (2, b"")])) == [b"0", b"1", b"2"]


def test_a_message_that_breaks_off_is_none():
    here, there = socket.socketpair()
    with there:
        with here:
            here.sendall((1).to_bytes(8, "big") + (100).to_bytes(8, "big") + b"not a hundred bytes")
        assert channel.receive(there) is None
