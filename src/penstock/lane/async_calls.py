"""The calls that a process makes for ``map_values_async``.

::

    lane thread   start(): a call into the queue of its node and lane         wait(): for the answer
    loop thread   coroutines, and functions with a time limit: at most ``concurrency`` runners of a queue, each makes one call
                  after the other: attempts, pauses, time-outs
    threads       functions that block: at most ``concurrency`` of a node (``call_threads``)

Loop and threads live as long as the process works for the application, so what a function keeps (a session of the loop, a
connection per thread) is good for the next epoch, too. The numbers of a ``LoopCaller`` are changed in the loop's thread only; its
queue is filled in the lane's thread and emptied in the loop's.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any, TypeAlias

from penstock.clock import stopwatch_us
from penstock.lane import call_threads
from penstock.lane.call_threads import Call, CallWork, LoopThreads, ThreadCaller, as_failure, logger, warn_of_left
from penstock.operators.async_map import CallSpec


class LoopCaller:
    """The calls of one node in one lane that an event loop makes or watches, begun in the order of ``start``."""

    def __init__(self, node: str, spec: CallSpec, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._spec = spec
        self._loop = loop
        self._queue: deque[Call] = deque()
        self._runners: set[asyncio.Task[None]] = set()
        self._threads = None if spec.is_coroutine else LoopThreads(node, spec.concurrency, loop)
        self._limit = None if spec.timeout is None else spec.timeout / 1000
        self._warned = False
        #: since the lane last reported
        self.work = CallWork()

    @property
    def under_way(self) -> int:
        """How many calls have begun and not ended, those that were given up included."""
        return len(self._runners) if self._threads is None else self._threads.unfinished

    def start(self, *arguments: Any) -> Call:
        """Start a call as soon as a runner is free; to be called in the lane's thread."""
        call = Call(arguments)
        self._queue.append(call)
        if not self._warned and len(self._runners) < self._spec.concurrency:
            self._warned = True
            self._loop.call_soon_threadsafe(self._send_runners)
        return call

    def give_up(self) -> None:
        """Cancel what is under way, forget what waits; wait until it has ended, but not for ever."""
        try:
            asyncio.run_coroutine_threadsafe(self._give_up(), self._loop).result(3 * call_threads.TIMEOUT_S)
        except TimeoutError:
            logger.warning("a coroutine of node %s blocks the event loop: it must await what takes time", self._node)

    def close(self) -> None:
        """End the threads."""
        if self._threads is not None:
            self._threads.close()

    # in the loop's thread

    def _send_runners(self) -> None:
        self._warned = False
        for _ in range(min(len(self._queue), self._spec.concurrency - len(self._runners))):
            runner = self._loop.create_task(self._run())
            self._runners.add(runner)
            runner.add_done_callback(self._runner_ended)

    def _runner_ended(self, runner: asyncio.Task[None]) -> None:
        self._runners.discard(runner)
        if self._queue:  # put there while this one was counted as running
            self._send_runners()

    async def _run(self) -> None:
        while self._queue:
            call, began = self._queue.popleft(), stopwatch_us()
            self.work.under_way(len(self._runners))
            try:
                answer, failed = await self._answer(call.arguments), None
            except Exception as error:
                answer, failed = None, error
            except asyncio.CancelledError:
                call.give_up()
                raise
            self.work.took(stopwatch_us() - began)
            call.answer(answer, failed)

    async def _answer(self, arguments: tuple[Any, ...]) -> Any:
        """Make attempts until one gives an answer; raise what the last one raised."""
        for attempt in range(1, self._spec.retries + 1):
            try:
                return await self._attempt(arguments)
            except Exception:  # the last attempt tells
                await asyncio.sleep(self._spec.pause_before(attempt) / 1000)
                self.work.again()
        return await self._attempt(arguments)

    async def _attempt(self, arguments: tuple[Any, ...]) -> Any:
        function = self._spec.function
        try:
            async with asyncio.timeout(self._limit) as limit:
                if self._threads is not None:
                    return await self._threads.call(function, arguments)
                return await function(*arguments)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"no answer within {self._spec.timeout} ms") from error
        except Exception:
            raise
        except BaseException as error:  # SystemExit would end the loop, and the lane would wait for ever
            if _is_cancelled():
                raise
            raise as_failure(error) from error

    async def _give_up(self) -> None:
        while self._queue:
            self._queue.popleft().give_up()
        for runner in self._runners:
            runner.cancel()
        until = self._loop.time() + call_threads.TIMEOUT_S
        while (self._runners or self.under_way) and self._loop.time() < until:
            await asyncio.sleep(0.01)
        warn_of_left(self._node, self._spec, self.under_way)


Caller: TypeAlias = LoopCaller | ThreadCaller


class CallPool:
    """All calls of one process. Nothing is started before a node asks for its caller."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._callers: dict[tuple[str, int], Caller] = {}

    def caller(self, lane: int, node: str, spec: CallSpec) -> Caller:
        """Return the caller of a node in a lane: all shards of the lane share it."""
        if (node, lane) not in self._callers:
            self._callers[node, lane] = self._new_caller(node, spec)
        return self._callers[node, lane]

    def take_work(self) -> list[tuple[str, int, CallWork]]:
        """Return what the calls came to since the last time: (node, lane, work), of those that made some."""
        found = []
        for (node, lane), caller in self._callers.items():
            if caller.work.most:
                work, caller.work = caller.work, CallWork()
                found.append((node, lane, work))
        return found

    def give_up(self) -> None:
        """End all calls that are under way: the epoch that asked for them has failed."""
        for caller in self._callers.values():
            caller.give_up()

    def close(self) -> None:
        """End all calls, the threads and the loop."""
        self.give_up()
        for caller in self._callers.values():
            caller.close()
        self._callers.clear()
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(call_threads.TIMEOUT_S)
        if not self._thread.is_alive():
            self._loop.close()
        self._loop = self._thread = None

    def _new_caller(self, node: str, spec: CallSpec) -> Caller:
        if not spec.is_coroutine and spec.timeout is None:
            return ThreadCaller(node, spec)
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = call_threads.new_thread("loop", 0, self._loop.run_forever)
        return LoopCaller(node, spec, self._loop)


def _is_cancelled() -> bool:
    """Whether the runner itself was cancelled, by us."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
