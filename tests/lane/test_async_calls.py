"""The calls of a process: begun in order, bounded, timed, made again, given up."""

import asyncio
import logging
import threading
from functools import partial

import pytest

from penstock.lane import call_threads
from penstock.lane.async_calls import CallPool
from penstock.operators.async_map import CallSpec


@pytest.fixture
def pool():
    made = CallPool()
    yield made
    made.close()


def answers(calls):
    return [call.wait() or call.result for call in calls]


async def double(value):
    await asyncio.sleep(0)
    return 2 * value


def triple(value):
    return 3 * value


class Adder:
    def __init__(self, number):
        self.number = number

    def add(self, value):
        return value + self.number

    async def add_later(self, value):
        return value + self.number


class AsyncAdder(Adder):
    async def __call__(self, value):
        return value + self.number


class BlockingAdder(Adder):
    def __call__(self, value):
        return value + self.number


@pytest.mark.parametrize(
    ("function", "is_coroutine"),
    [
        (double, True),
        (triple, False),
        (lambda value: value, False),
        (partial(double), True),
        (partial(partial(triple)), False),
        (AsyncAdder(1), True),
        (BlockingAdder(1), False),
        (partial(AsyncAdder(1)), True),
        (Adder(1).add_later, True),
        (Adder(1).add, False),
        (len, False),
        (str, False),
    ],
)
def test_coroutine_functions_are_told_from_those_that_block(function, is_coroutine):
    assert CallSpec(function).is_coroutine is is_coroutine


@pytest.mark.parametrize("function", [AsyncAdder(1), BlockingAdder(1), Adder(1).add_later, partial(Adder(1).add)])
def test_anything_that_can_be_called_is_called(pool, function):
    start = pool.caller(0, "node", CallSpec(function)).start
    assert answers([start(1), start(2)]) == [2, 3]


def test_calls_of_a_loop_are_begun_in_order(pool):
    begun = []

    async def note(value):
        begun.append(value)
        await asyncio.sleep(0)

    caller = pool.caller(0, "node", CallSpec(note, concurrency=3))
    answers([caller.start(number) for number in range(50)])
    assert begun == list(range(50))


class Busy:
    """Counts how many calls are inside; each waits until as many as may be are there, or it is the last."""

    def __init__(self, most, total):
        self.most, self.left = most, total
        self.inside = self.greatest = 0
        self.lock = threading.Condition()

    def enter(self):
        self.inside += 1
        self.greatest = max(self.greatest, self.inside)

    def leave(self):
        self.inside -= 1
        self.left -= 1

    def block(self, value):
        with self.lock:
            self.enter()
            self.lock.notify_all()
            self.lock.wait_for(lambda: self.greatest >= self.most or self.left <= self.most, timeout=30)
            self.leave()
        return value

    async def pause(self, value):
        self.enter()
        while self.greatest < self.most:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.leave()
        return value


@pytest.mark.parametrize("form", ["block", "pause"])
@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("timeout", [None, 60_000])
def test_never_more_than_concurrency_at_once_and_that_many_if_there_is_work(pool, form, most, timeout):
    busy = Busy(most, 40)
    caller = pool.caller(0, "node", CallSpec(getattr(busy, form), concurrency=most, timeout=timeout))
    assert answers([caller.start(number) for number in range(40)]) == list(range(40))
    assert busy.greatest == most


def test_nodes_and_lanes_have_bounds_of_their_own(pool):
    """One call of each waits for the other: with one bound for both neither would end."""
    both = threading.Barrier(2)
    one, other = (pool.caller(0, node, CallSpec(lambda: both.wait(30), concurrency=1)) for node in ("a", "b"))
    assert sorted(answers([one.start(), other.start()])) == [0, 1]
    one, other = (pool.caller(lane, "c", CallSpec(lambda: both.wait(30), concurrency=1)) for lane in (0, 1))
    assert sorted(answers([one.start(), other.start()])) == [0, 1]


class Failing:
    """Fails so many times, then answers."""

    def __init__(self, times):
        self.times, self.attempts = times, 0

    def __call__(self):
        self.attempts += 1
        if self.attempts <= self.times:
            raise ConnectionError(f"attempt {self.attempts}")
        return "at last"

    async def later(self):
        return self()


@pytest.mark.parametrize("form", ["__call__", "later"])
def test_a_call_that_fails_is_made_again(pool, form):
    failing = Failing(2)
    caller = pool.caller(0, "node", CallSpec(getattr(failing, form), retries=2, backoff=1))
    assert answers([caller.start()]) == ["at last"]
    assert failing.attempts == 3


@pytest.mark.parametrize("form", ["__call__", "later"])
def test_the_last_attempt_tells_what_is_wrong(pool, form):
    failing = Failing(9)
    error = pool.caller(0, "node", CallSpec(getattr(failing, form), retries=2, backoff=1)).start().wait()
    assert isinstance(error, ConnectionError)
    assert str(error) == "attempt 3"


def test_pauses_grow_twofold_up_to_a_minute_without_chance():
    spec = CallSpec(print, retries=20, backoff=1000)
    assert [spec.pause_before(n) for n in range(8)] == [0, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000]
    assert CallSpec(print, backoff=90_000).pause_before(5) == 90_000
    assert CallSpec(print, backoff=0).pause_before(5) == 0


def test_a_coroutine_that_takes_too_long_is_cancelled(pool):
    cancelled = threading.Event()

    async def for_ever():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    error = pool.caller(0, "node", CallSpec(for_ever, timeout=20)).start().wait()
    assert isinstance(error, TimeoutError)
    assert str(error) == "no answer within 20 ms"
    assert cancelled.wait(30)


def test_a_function_that_blocks_too_long_is_left_behind(pool):
    go_on = threading.Event()
    caller = pool.caller(0, "node", CallSpec(lambda: go_on.wait(30), timeout=20))
    assert str(caller.start().wait()) == "no answer within 20 ms"
    go_on.set()


def test_threads_that_never_come_back_count_for_the_bound_and_hold_nothing_up(pool):
    """All threads hang: those that wait for one have their time, too, and end with an error instead of never."""
    go_on, inside = threading.Event(), []

    def hang(number):
        inside.append(number)
        go_on.wait(30)

    caller = pool.caller(0, "node", CallSpec(hang, concurrency=2, timeout=20))
    errors = [call.wait() for call in [caller.start(number) for number in range(6)]]
    assert [str(error) for error in errors] == ["no answer within 20 ms"] * 6
    assert len(inside) == 2
    go_on.set()


def test_a_time_out_of_the_function_itself_is_its_own(pool):
    def own():
        raise TimeoutError("the socket says so")

    assert str(pool.caller(0, "node", CallSpec(own, timeout=60_000)).start().wait()) == "the socket says so"


def test_an_attempt_that_was_too_slow_is_made_again(pool):
    attempts = []

    async def slow_at_first():
        attempts.append(None)
        await asyncio.sleep(0 if len(attempts) > 1 else 60)
        return len(attempts)

    assert answers([pool.caller(0, "node", CallSpec(slow_at_first, timeout=20, retries=1, backoff=0)).start()]) == [2]


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), StopIteration(5), GeneratorExit()])
@pytest.mark.parametrize("form", ["block", "later"])
@pytest.mark.parametrize("timeout", [None, 60_000])
def test_exceptions_that_end_programs_are_errors_of_the_record(pool, raised, form, timeout):
    def block():
        raise raised

    async def later():
        raise raised

    caller = pool.caller(0, "node", CallSpec({"block": block, "later": later}[form], timeout=timeout))
    error = caller.start().wait()
    assert isinstance(error, RuntimeError)
    assert type(raised).__name__ in str(error)
    assert isinstance(caller.start().wait(), RuntimeError)  # neither loop nor thread has ended


def test_a_function_that_cancels_itself_fails_like_any_other(pool):
    async def cancel():
        raise asyncio.CancelledError("by its own client")

    assert "by its own client" in str(pool.caller(0, "node", CallSpec(cancel)).start().wait())


def test_a_coroutine_from_a_function_that_is_not_async_is_refused(pool):
    error = pool.caller(0, "node", CallSpec(lambda: double(1))).start().wait()
    assert isinstance(error, TypeError)
    assert "async def" in str(error)
    assert "test_async_calls.py" in str(error)


def test_giving_up_cancels_coroutines_and_forgets_what_waits(pool):
    begun, ended, total = [], [], 5
    two = threading.Event()

    async def hang(number):
        begun.append(number)
        if len(begun) == 2:
            two.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    caller = pool.caller(0, "node", CallSpec(hang, concurrency=2))
    calls = [caller.start(number) for number in range(total)]
    assert two.wait(30)
    pool.give_up()
    assert begun == sorted(ended) == [0, 1]
    assert caller.under_way == 0
    assert [str(call.wait()) for call in calls] == ["the call was given up"] * total


def test_after_giving_up_the_next_epoch_has_all_its_calls(pool):
    async def hang_on_none(value):
        if value is None:
            await asyncio.Event().wait()
        return value

    caller = pool.caller(0, "node", CallSpec(hang_on_none, concurrency=2))
    for _ in range(3):
        caller.start(None)
    pool.give_up()
    assert answers([caller.start(number) for number in range(9)]) == list(range(9))


@pytest.mark.parametrize("timeout", [None, 60_000])
def test_giving_up_waits_for_a_function_that_blocks(pool, timeout):
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def block():
        begun.set()
        go_on.wait(30)
        ended.append(True)

    caller = pool.caller(0, "node", CallSpec(block, timeout=timeout))
    caller.start()
    assert begun.wait(30)
    threading.Timer(0.05, go_on.set).start()
    pool.give_up()
    assert ended == [True]


@pytest.mark.parametrize("timeout", [None, 60_000])
def test_giving_up_does_not_wait_for_ever_and_says_so(pool, monkeypatch, caplog, timeout):
    monkeypatch.setattr(call_threads, "TIMEOUT_S", 0.05)
    begun, go_on = threading.Event(), threading.Event()

    def block():
        begun.set()
        go_on.wait(30)
        return "nobody hears this"

    caller = pool.caller(0, "slow-node", CallSpec(block, concurrency=1, timeout=timeout))
    call = caller.start()
    assert begun.wait(30)
    with caplog.at_level(logging.WARNING, "penstock.lane"):
        pool.give_up()
    assert "slow-node: 1 calls of" in caplog.text
    assert "test_async_calls.py" in caplog.text
    assert str(call.wait()) == "the call was given up"
    assert caller.under_way == 1  # it holds its place until it ends
    later = caller.start()
    go_on.set()
    assert answers([later]) == ["nobody hears this"]


@pytest.mark.parametrize("timeout", [None, 60_000])
def test_closing_ends_loop_and_threads(timeout):
    def ours():
        return {thread.name for thread in threading.enumerate() if thread.name.startswith("penstock-")}

    before = ours()
    pool = CallPool()
    answers([pool.caller(0, "closed-node", CallSpec(triple, timeout=timeout)).start(number) for number in range(20)])
    assert ours() - before
    pool.close()
    assert ours() <= before
    pool.close()


def test_giving_up_ends_the_pauses_between_attempts(pool):
    failed = threading.Event()

    def fail():
        failed.set()
        raise ConnectionError

    caller = pool.caller(0, "node", CallSpec(fail, retries=1, backoff=60_000))
    call = caller.start()
    assert failed.wait(30)
    pool.give_up()
    assert caller.under_way == 0
    assert str(call.wait()) == "the call was given up"


def test_one_call_at_a_time_needs_one_thread(pool):
    names = set()
    caller = pool.caller(0, "node", CallSpec(lambda: names.add(threading.current_thread().name)))
    for _ in range(20):
        caller.start().wait()
        caller.give_up()  # so that the thread is surely free again
    assert len(names) == 1


def test_nothing_is_started_before_it_is_needed():
    before = threading.active_count()
    pool = CallPool()
    pool.give_up()
    pool.close()
    assert threading.active_count() == before
