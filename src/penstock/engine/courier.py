"""The courier: a task that stays for the next letter, so that a letter does not wait for a job to begin and to end.

To begin and end a job takes Spark longer, while records flow, than their work takes the lanes. So the task of a letter calls the driver
(``lane.post``), and one job brings many letters. It holds a place that other jobs may want: it goes when no letter has come for a second,
when an epoch needs all lanes, and after ``STAY_US``; then the next one takes its place while the driver commits.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

from penstock.clock import stopwatch_us
from penstock.lane import post

#: microseconds for which a task brings letters
STAY_US = 5_000_000
#: between two looks whether a job that is waited for has failed
LOOK_SECONDS = 0.1


class Courier:
    """Has letters answered by a task. ``attend`` runs the job of one, which calls the address that it is given, to its end."""

    def __init__(self, attend: Callable[[str], None]) -> None:
        self._attend = attend
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True)
        self._task: _Task | None = None
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._count = 0
        threading.Thread(target=self._run_jobs, name="penstock-courier", daemon=True).start()

    def bring(self, *letter: bytes) -> list[bytes]:
        """Return the answer to a letter; raise what the job of the task raises."""
        try:
            answer = None
            while answer is None:
                task = self._task or self._call()
                answer = task.ask(letter)
                if answer is None:  # it was on its way out when the letter came: the next one takes it
                    self._task = None
                    task.see_off()
        except BaseException:
            self.dismiss()  # nobody waits for its answer any more
            raise
        if task.is_due():
            self.dismiss()
            self._call()
        return answer

    def dismiss(self) -> None:
        """Let the task go, if there is one: its place is needed."""
        task, self._task = self._task, None
        if task is not None:
            task.hang_up()

    def close(self) -> None:
        """Let the task go; there will be no more letters."""
        self.dismiss()
        self._tasks.put(None)
        self._folder.cleanup()

    def _call(self) -> _Task:
        """Have the job of a task run, when that of the one before has ended."""
        self._count += 1
        self._task = _Task(os.path.join(self._folder.name, str(self._count)))
        self._tasks.put(self._task)
        return self._task

    def _run_jobs(self) -> None:
        while (task := self._tasks.get()) is not None:
            if task.is_gone:
                continue
            try:
                self._attend(task.address)
            except BaseException as error:
                task.job.set_exception(error)
            else:
                task.job.set_result(None)


class _Task:
    """The driver's end of the line to one task. Invariant: a task goes by itself before a letter only, never with one."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.job: Future[None] = Future()
        self.is_gone = False
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(address)
        self._door.listen()
        self._door.settimeout(LOOK_SECONDS)
        self._line: socket.socket | None = None
        self._since = 0

    def ask(self, letter: tuple[bytes, ...]) -> list[bytes] | None:
        """Return the answer to a letter; None if the task has gone without one."""
        if self._line is None and not self._has_called():
            return None
        assert self._line is not None
        try:
            post.send(self._line, letter)
        except ConnectionError:
            return None
        return post.receive(self._line)

    def is_due(self) -> bool:
        """Whether it is time for another task."""
        return stopwatch_us() - self._since > STAY_US

    def hang_up(self) -> None:
        """Let the task go, whether it has called yet or not."""
        self.is_gone = True
        self._door.close()
        if self._line is not None:
            self._line.close()
        os.unlink(self.address)

    def see_off(self) -> None:
        """Wait for the end of the job; raise why it has failed, if it has."""
        self.hang_up()
        self.job.result()

    def _has_called(self) -> bool:
        """Wait for the task to call; tell whether it did before its job has ended."""
        while True:
            try:
                self._line, _ = self._door.accept()
                self._since = stopwatch_us()
                return True
            except TimeoutError:
                if self.job.done():
                    return False
