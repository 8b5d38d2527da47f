"""Where systems are run: one broker for all, and how a program is started on it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench.peers.process import Process
from bench.peers.system import System, Task
from bench.results import check, collected, committed
from bench.watch import Watch
from bench.workloads.base import Workload
from bench.writing import KEPT, Written
from penstock.dev.broker import Broker
from penstock.log.base import Log, TopicSpec


@dataclass(frozen=True, slots=True)
class Stage:
    """The broker, and what all runs share."""

    broker: Broker
    log: Log
    progress: Progress
    threads: int
    #: of Penstock, ``name=value``
    settings: Sequence[str] = ()
    profile: bool = False

    def target(self, application_id: str, workload: Workload) -> str:
        """Make the topic for the results of an application."""
        name = f"{application_id}-results"
        self.log.admin.ensure_topics([TopicSpec(name, workload.partitions, KEPT)])
        return name

    def task(self, written: Written, system: System, application_id: str, folder: Path) -> Task:
        """Say what a program is told."""
        workload = written.workload
        settings = [f"job.{name}={value}" for name, value in workload.options.items()]
        if system.is_penstock:
            settings += [*workload.settings, *self.settings, *(["job.profile=1"] if self.profile else [])]
        return Task(
            job=workload.job,
            bootstrap_servers=self.broker.bootstrap_servers,
            application_id=application_id,
            sources=written.topics,
            target=self.target(application_id, workload),
            threads=self.threads,
            state_dir=folder / "state",
            settings=settings,
        )

    @contextlib.contextmanager
    def running(self, system: System, task: Task) -> Iterator[Process]:
        """Run the program of a system until the end of the block."""
        with Process(system.command(task), task.state_dir.with_name("log")) as process:
            yield process

    def watch(self, written: Written, process: Process, task: Task) -> Watch:
        """Return what looks at a program that works through data."""
        return Watch(self.log, written, process, task.application_id, task.target, self.broker.pid or 0)

    def check(self, written: Written, target: str) -> int:
        """Raise ``ResultsDiffer`` unless the results in a topic are right; return how many records it has."""
        workload = written.workload
        found = collected(self.log, target, workload.partitions, workload.compare)
        again = committed(self.log, target, workload.partitions)
        check(found, written.right, again, written.expected_again())
        return found.count

    def forget(self, *names: str) -> None:
        """Delete the topics in whose names one of these is."""
        known = self.log.admin.topics()
        self.log.admin.delete_topics([topic for topic in known if any(name in topic for name in names)])


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder for state and logs of one application."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        yield Path(folder)


def progress_bar() -> Progress:
    """A bar on standard error, so that standard output is for results; nothing where it is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
