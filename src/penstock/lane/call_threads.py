"""Calls of functions that block: each in a thread, at most so many threads.

A call that blocks cannot be interrupted. If it is given up (its time is over, the epoch has failed) its thread goes on, still
counts for the bound, and its answer is thrown away.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from penstock.clock import stopwatch_us
from penstock.distribution import SECONDS, Distribution
from penstock.errors import describe_function
from penstock.operators.async_map import CallSpec, written

logger = logging.getLogger("penstock.lane")

#: how long calls that are given up may take to end, in seconds
TIMEOUT_S = 5.0
#: what a call came to: its result, or its error
Outcome: TypeAlias = tuple[Any, Exception | None]


class CallWork:
    """What the calls of a node in one lane came to since it was last asked: any thread adds."""

    def __init__(self) -> None:
        self.seconds = Distribution(SECONDS)
        self.retries = self.most = 0
        self._lock = threading.Lock()

    def took(self, us: int) -> None:
        """Add a call, with its attempts and pauses."""
        with self._lock:
            self.seconds.add(us / 1e6)

    def again(self) -> None:
        """Count an attempt after one that failed."""
        with self._lock:
            self.retries += 1

    def under_way(self, count: int) -> None:
        """Note how many calls are under way."""
        self.most = max(self.most, count)


class Call:
    """One call: its arguments, then its answer. ``_open`` is a lock that is free once the answer is there."""

    __slots__ = ("_open", "arguments", "error", "result")

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments
        self.result: Any = None
        self.error: Exception | None = None
        self._open = threading.Lock()
        self._open.acquire()

    def answer(self, result: Any, error: Exception | None) -> None:
        """Give the answer, once."""
        self.result, self.error = result, error
        self._open.release()

    def give_up(self) -> None:
        """Answer that there will be no answer."""
        self.answer(None, RuntimeError("the call was given up"))

    def wait(self) -> Exception | None:
        """Wait until there is an answer; return the error, or None if ``result`` is there."""
        with self._open:
            return self.error


class ThreadCaller:
    """The calls of one node in one lane, of a function that blocks and has no time limit: threads take one after the other.

    ``_lock`` guards the numbers; whoever waits on it waits for ``_busy`` to be 0.
    """

    def __init__(self, node: str, spec: CallSpec) -> None:
        self._node = node
        self._spec = spec
        self._queue: SimpleQueue[Call | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Condition()
        self._unfinished = self._busy = 0
        self._running: set[Call] = set()
        self._pauses = threading.Event()
        #: since the lane last reported
        self.work = CallWork()

    @property
    def under_way(self) -> int:
        """How many calls have begun and not ended, those that were given up included."""
        return self._busy

    def start(self, *arguments: Any) -> Call:
        """Start a call as soon as a thread is free; to be called in the lane's thread."""
        call = Call(arguments)
        with self._lock:
            self._unfinished += 1
        self._queue.put(call)
        if self._unfinished > len(self._threads) < self._spec.concurrency:
            self._threads.append(new_thread(self._node, len(self._threads), self._run))
        return call

    def give_up(self) -> None:
        """Forget what waits and what runs; wait until it has ended, but not for ever."""
        with self._lock:
            self._drain()
            for call in self._running:
                call.give_up()
            self._running.clear()
            self._pauses.set()
            self._pauses = threading.Event()
            self._lock.wait_for(lambda: not self._busy, TIMEOUT_S)
        warn_of_left(self._node, self._spec, self._busy)

    def close(self) -> None:
        """End the threads; one whose call cannot be interrupted ends after it."""
        for _ in self._threads:
            self._queue.put(None)
        if not self._busy:
            for thread in self._threads:
                thread.join()

    def _drain(self) -> None:
        try:
            while (call := self._queue.get_nowait()) is not None:
                self._unfinished -= 1
                call.give_up()
        except Empty:
            return

    # in the threads

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            with self._lock:
                self._busy += 1
                self._running.add(call)
                pauses = self._pauses
                self.work.under_way(self._busy)
            began = stopwatch_us()
            result, error = self._answer(call.arguments, pauses)
            self.work.took(stopwatch_us() - began)
            with self._lock:
                self._busy -= 1
                self._unfinished -= 1
                if call in self._running:  # else it was given up
                    self._running.discard(call)
                    call.answer(result, error)
                if not self._busy:
                    self._lock.notify_all()

    def _answer(self, arguments: tuple[Any, ...], pauses: threading.Event) -> Outcome:
        """Make attempts until one gives an answer, or the pause before the next is cut short."""
        result, error = outcome(self._spec.function, arguments)
        for attempt in range(1, self._spec.retries + 1):
            if error is None or pauses.wait(self._spec.pause_before(attempt) / 1000):
                break
            self.work.again()
            result, error = outcome(self._spec.function, arguments)
        return result, error


class LoopThreads:
    """Threads for an event loop, which watches the time of their calls. All methods but ``close`` are of the loop's thread."""

    def __init__(self, node: str, most: int, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._most = most
        self._loop = loop
        self._threads: list[threading.Thread] = []
        self._work: SimpleQueue[tuple[asyncio.Future[Outcome], Callable[..., Any], tuple[Any, ...]] | None]
        self._work = SimpleQueue()
        #: calls that were handed to the threads and have not ended
        self.unfinished = 0

    async def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Call a function in one of the threads. If this is cancelled the thread goes on; nobody gets its answer."""
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._work.put((future, function, arguments))
        self.unfinished += 1
        if self.unfinished > len(self._threads) < self._most:
            self._threads.append(new_thread(self._node, len(self._threads), self._run))
        result, error = await future
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the threads; one whose call cannot be interrupted ends after it."""
        for _ in self._threads:
            self._work.put(None)
        if not self.unfinished:
            for thread in self._threads:
                thread.join()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            future, function, arguments = work
            found = (None, None) if future.cancelled() else outcome(function, arguments)
            try:
                self._loop.call_soon_threadsafe(self._finish, future, found)
            except RuntimeError:  # the loop was closed while this call went on
                return

    def _finish(self, future: asyncio.Future[Outcome], found: Outcome) -> None:
        self.unfinished -= 1
        if not future.done():
            future.set_result(found)


def new_thread(node: str, number: int, run: Callable[[], None]) -> threading.Thread:
    """Start a thread that keeps no program alive."""
    thread = threading.Thread(target=run, name=f"penstock-{node}-{number}", daemon=True)
    thread.start()
    return thread


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Outcome:
    """Call a function; return what it came to."""
    try:
        result = function(*arguments)
    except BaseException as error:  # also SystemExit: it would end the thread, and nobody would hear of it
        return None, as_failure(error)
    if not inspect.isawaitable(result):
        return result, None
    if inspect.iscoroutine(result):
        result.close()
    return None, TypeError(
        f"{describe_function(written(function))} returned {result!r}, which has to be awaited, but is not declared with "
        "async def: declare it so, or return the value itself"
    )


def as_failure(error: BaseException) -> Exception:
    """Return what a function raised as an error of its record: neither loop nor lane may end of it."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    failure = RuntimeError(f"the function raised {type(error).__name__}: {error}")
    failure.__cause__, failure.__traceback__ = error, error.__traceback__
    return failure


def warn_of_left(node: str, spec: CallSpec, left: int) -> None:
    """Report that some calls could not be ended."""
    if left:
        logger.warning(
            "node %s: %d calls of %s were given up, but still run: they cannot be interrupted. Their answers are thrown away",
            node, left, describe_function(written(spec.function)),
        )  # fmt: skip
