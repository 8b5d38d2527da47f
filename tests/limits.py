"""What an ordinary machine has: 1,024 open files for a process, and 2 GB of memory. A run that needs more fails. And how to run one test.

After each test every process of the run is looked at in ``/proc``: the one that runs tests, and its children (brokers, Spark, its
workers), with the greatest memory they have had so far. The peaks are in the summary of the run, with the test after which they were seen.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Generator, Iterator
from typing import Any

import pytest

#: what `ulimit -n` says on many systems; a process must stay below it with room to spare
MOST_FILES = 1000
#: resident memory of one process, in MB
MOST_MB = 2048

#: what was measured, and after which test: (files, test), (MB, test)
Peaks = dict[str, tuple[int, str]]


class Limits:
    """A plugin of pytest: measures in the process that runs tests, reports in the one that prints."""

    def __init__(self) -> None:
        self.peaks: dict[str, Peaks] = {}
        self._here: Peaks = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Say of a failed test how to run it alone."""
        report = yield
        if report.failed:
            report.sections.append(("run alone", f".venv/bin/pytest '{item.nodeid}'"))
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Look at this process and its children."""
        if os.environ.get("PYTEST_XDIST_TESTRUNNERUID") and not os.environ.get("PYTEST_XDIST_WORKER"):
            return
        self._measure("files of a test process", len(os.listdir("/proc/self/fd")), nodeid)
        self._measure("memory of a test process", peak_mb("self"), nodeid)
        for pid in children(os.getpid()):
            self._measure("files of a child", files(pid), nodeid)
            self._measure("memory of a child", peak_mb(pid), nodeid)
        # of those that have ended; in kilobytes
        ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        self._measure("memory of a child", ended, nodeid)

    def _measure(self, what: str, value: int, test: str) -> None:
        if value > self._here.get(what, (0, ""))[0]:
            self._here[what] = value, test

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand the peaks to the process that prints; there, fail a run that needed too much."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["peaks"] = self._here
            return
        if self._here:
            self.peaks["this process"] = self._here
        if self.exceeded() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the peaks of a worker of pytest-xdist."""
        self.peaks[node.gateway.id] = getattr(node, "workeroutput", {}).get("peaks", {})

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the peaks."""
        for process, peaks in sorted(self.peaks.items()):
            said = ", ".join(f"{what} {value}{_unit(what)}" for what, (value, _) in peaks.items())
            terminalreporter.write_line(f"peaks, {process}: {said}")
        for line in self.exceeded():
            terminalreporter.write_line(line, red=True)

    def exceeded(self) -> list[str]:
        """Return a sentence for each limit that was passed."""
        return [
            f"too much for an ordinary machine: {what} {value}{_unit(what)}, limit {_limit(what)}, first seen after {test}"
            for peaks in self.peaks.values()
            for what, (value, test) in peaks.items()
            if value > _limit(what)
        ]


def _limit(what: str) -> int:
    return MOST_FILES if what.startswith("files") else MOST_MB


def _unit(what: str) -> str:
    return "" if what.startswith("files") else " MB"


def children(pid: int) -> Iterator[int]:
    """Yield the processes below one, those of threads too."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found = [int(child) for child in file.read().split()]
            for child in found:
                yield child
                yield from children(child)
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return


def files(pid: int) -> int:
    """Return how many descriptors a process has open; none of one that has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0


def peak_mb(pid: int | str) -> int:
    """Return the greatest resident memory that a process has had, in MB; none of one that has ended."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM:")), 0)
    except (FileNotFoundError, ProcessLookupError):
        return 0
