"""Resident tasks, which stay for the next inline epoch, so that it does not wait for a job to begin and to end.

To begin and end a Spark job takes longer than the work of a few records. So the task of an inline epoch connects to the driver
(``protocol.channel``), and one job runs many inline epochs. It occupies a slot that other jobs may need: it ends when no epoch has come
for a second, when an epoch needs all lanes, and after ``STAY_US``; then the next task takes the slot while the driver commits.

An inline epoch may have a part for each lane. Each task that is connected takes some; one that waits for a slot is not waited for.
"""

from __future__ import annotations

import os
import selectors
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeAlias

from penstock.clock import stopwatch_us
from penstock.protocol import channel
from penstock.protocol.channel import Part

#: runs the job of a task that calls an address, to its end
Serve: TypeAlias = Callable[[str], None]

#: microseconds for which a task stays
STAY_US = 5_000_000
#: between two looks whether a job that is waited for has failed
LOOK_SECONDS = 0.1


class ResidentTasks:
    """Runs inline epochs in at most ``most`` resident tasks. ``serve`` is called in threads."""

    def __init__(self, serve: Serve, most: int) -> None:
        self._tasks = [ResidentTask(serve) for _ in range(most)]

    @property
    def connected(self) -> int:
        """How many tasks are connected: by any thread."""
        return sum(task.connected for task in self._tasks)

    def run(self, request: bytes, parts: Sequence[Part]) -> list[bytes]:
        """Return the results of all parts of an inline epoch; raise what the job of a task raises."""
        answers: list[bytes] = []
        waiting = list(parts)
        try:
            while waiting:
                here = self._who_is_here(len(waiting))
                shares = {task: waiting[number :: len(here)] for number, task in enumerate(here)}
                for task, share in shares.items():
                    task.ask(request, share)
                waiting = []
                for task, share in shares.items():
                    answer = task.answer()
                    if answer is None:  # it was about to end when its parts came: others take them
                        waiting += share
                    else:
                        answers += answer
        except BaseException:
            self.dismiss()  # nobody waits for their answers any more
            raise
        for task in self._tasks:
            task.renew()
        return answers

    def notify(self, request: bytes) -> None:
        """Send a barrier to the connected tasks."""
        for task in self._tasks:
            task.notify(request)

    def dismiss(self) -> None:
        """Let the tasks go, if there are any: their places are needed."""
        for task in self._tasks:
            task.dismiss()

    def close(self) -> None:
        """End the tasks; there will be no more inline epochs."""
        for task in self._tasks:
            task.close()

    def _who_is_here(self, most: int) -> list[ResidentTask]:
        """Return those whose task has called; wait for one if there is none."""
        wanted = self._tasks[:most]
        while not (here := [task for task in wanted if task.is_here()]):
            with selectors.DefaultSelector() as calls:  # ``select.select`` refuses files from number 1024 on
                for task in wanted:
                    calls.register(task.door(), selectors.EVENT_READ)
                calls.select(LOOK_SECONDS)
        return here


class ResidentTask:
    """One task after the other; there is at most one. INVARIANT: a task ends by itself only between epochs."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._call: _Call | None = None
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        threading.Thread(target=self._run_jobs, name="penstock-task", daemon=True).start()

    def door(self) -> socket.socket:
        """Return where the task calls, or has called; one is sent for if there is none."""
        if self._call is None:
            self._call = _Call()
            self._calls.put(self._call)
        return self._call.door

    def is_here(self) -> bool:
        """Whether a task has called; one is sent for if there is none. Raise why its job has failed if it never will."""
        self.door()
        assert self._call is not None
        if self._call.has_called():
            return True
        if self._call.job.done():
            self._see_off()
        return False

    @property
    def connected(self) -> bool:
        """Whether a task has called and stays."""
        call = self._call
        return call is not None and call.line is not None

    def ask(self, request: bytes, parts: Sequence[Part]) -> None:
        """Send parts of an inline epoch to the task."""
        assert self._call is not None
        assert self._call.line is not None
        channel.ask(self._call.line, request, parts)

    def notify(self, request: bytes) -> None:
        """Send a request that needs no answer."""
        if self._call is not None and self._call.line is not None:
            channel.ask(self._call.line, request, ())

    def answer(self) -> list[bytes] | None:
        """Return the answer of the task; None if it has gone without one."""
        assert self._call is not None
        assert self._call.line is not None
        answer = channel.receive(self._call.line)
        if answer is None:
            self._see_off()
        return answer

    def renew(self) -> None:
        """Send for another task if this one has stayed for long."""
        if self._call is not None and self._call.line is not None and stopwatch_us() - self._call.since > STAY_US:
            self.dismiss()
            self.door()

    def dismiss(self) -> None:
        """Let the task go, whether it has called yet or not."""
        call, self._call = self._call, None
        if call is not None:
            call.hang_up()

    def close(self) -> None:
        """Let the task go; there will be no other one."""
        self.dismiss()
        self._calls.put(None)

    def _see_off(self) -> None:
        """Wait for the end of a job whose task has gone; raise why, if it has failed."""
        call, self._call = self._call, None
        assert call is not None
        call.hang_up()
        call.job.result()

    def _run_jobs(self) -> None:
        """Run the job of each task when that of the one before has ended."""
        while (call := self._calls.get()) is not None:
            if call.is_over:
                continue
            try:
                self._serve(call.address)
            except BaseException as error:
                call.job.set_exception(error)
            else:
                call.job.set_result(None)


class _Call:
    """The driver's end of the line to one task, and its job. What it is called by is on the disk only until it was."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="penstock-")
        self.address = os.path.join(self._folder, "line")
        self.job: Future[None] = Future()
        self.is_over = False
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(self.address)
        self.door.listen()
        self.door.setblocking(False)
        self.line: socket.socket | None = None
        self.since = 0

    def has_called(self) -> bool:
        """Return whether the task is connected, without waiting."""
        if self.line is None:
            try:
                self.line, _ = self.door.accept()
            except BlockingIOError:
                return False
            self.line.setblocking(True)
            self.since = stopwatch_us()
            shutil.rmtree(self._folder, ignore_errors=True)
        return True

    def hang_up(self) -> None:
        """End the call, or see to it that there will be none."""
        self.is_over = True
        self.door.close()
        if self.line is not None:
            self.line.close()
        shutil.rmtree(self._folder, ignore_errors=True)
