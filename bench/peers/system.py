"""The systems under measurement: how the program of each is started, and which jobs it can do."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.peers import java, packages, structured
from bench.peers.process import CannotRun
from bench.workloads.base import Kind, Workload

HERE = Path(__file__).parent
QUIX = "quixstreams==3.28.0"
#: ``transformWithState`` asks for it
PROTOBUF = "protobuf==6.33.6"
#: the environment variable that names the checkout of ``penstock-before``
BEFORE = "PENSTOCK_BENCH_BEFORE"


@dataclass(frozen=True, slots=True)
class Task:
    """What a program is told."""

    job: str
    bootstrap_servers: str
    application_id: str
    sources: Sequence[str]
    target: str
    threads: int
    state_dir: Path
    #: ``name=value``: of the system, or of the job if the name begins with ``job.``
    settings: Sequence[str] = ()

    def arguments(self, guarantee: str) -> list[str]:
        """The command line that all programs share."""
        places = [",".join(self.sources), self.target]
        who = [self.job, self.bootstrap_servers, self.application_id]
        return [*who, guarantee, str(self.threads), str(self.state_dir), *places, *self.settings]


@dataclass(frozen=True, slots=True)
class System:
    """One row of the comparison. ``command`` raises a ``PenstockError`` where the system cannot run."""

    name: str
    label: str
    command: Callable[[Task], list[str]]
    #: the jobs that it can do; None: all
    jobs: frozenset[str] | None = None
    #: most records: it would take too long over more
    most: int | None = None
    #: whether it passes a restore, a restart and live records through the same way as the others
    lives: bool = True

    def can(self, workload: Workload) -> bool:
        """Tell whether it can do the job of a workload, and be measured as it says."""
        return (self.jobs is None or workload.job in self.jobs) and (self.lives or workload.kind is Kind.RATE)

    def records(self, workload: Workload, records: int) -> int:
        """Return how many of so many records it gets."""
        return min(records, workload.few.get(self.name, records), self.most or records)

    @property
    def is_penstock(self) -> bool:
        """Whether settings of Penstock are for it."""
        return self.name.startswith("penstock")


#: as Penstock's producer has them: large batches that a commit flushes; no compression is the default of both
SAME_PRODUCER = ("producer.batch.size=1000000", "producer.linger.ms=1000", "producer.buffer.memory=67108864")
#: at least once, Kafka Streams would commit every 30 seconds
SAME_COMMITS = ("commit.interval.ms=100",)
#: commits as far apart as Penstock's when it is behind: fewer results of each key leave the cache
RARE_COMMITS = ("commit.interval.ms=2000",)


def _java(guarantee: str, *settings: str) -> Callable[[Task], list[str]]:
    return lambda task: java.command(*task.arguments(guarantee), *settings)


def _quix(processes: int) -> Callable[[Task], list[str]]:
    def command(task: Task) -> list[str]:
        arguments = replace(task, threads=processes).arguments("at_least_once")
        return packages.command(packages.installed(QUIX), str(HERE / "quix.py"), *arguments, alone=True)

    return command


def _structured(task: Task) -> list[str]:
    return [sys.executable, "-m", "bench.peers.structured", *task.arguments("sql")]


def _tws(task: Task) -> list[str]:
    program = ["-m", "bench.peers.structured", *task.arguments("tws")]
    return packages.command(packages.installed(PROTOBUF), *program, alone=False)


def _penstock(guarantee: str) -> Callable[[Task], list[str]]:
    return lambda task: [sys.executable, "-m", "bench.peers.program", *task.arguments(guarantee)]


def _unwatched(task: Task) -> list[str]:
    """Nothing is counted or measured of nodes, and there is no server."""
    return ["env", "PENSTOCK_METERS=0", *_penstock("exactly_once")(task)]


def _watched(task: Task) -> list[str]:
    """All is measured; somebody scrapes it and has the page open."""
    return [*_penstock("exactly_once")(task), "admin=127.0.0.1:0", "job.watched=1"]


def _penstock_before(task: Task) -> list[str]:
    """Another checkout of Penstock, with an environment of its own, so that two versions are measured in one run."""
    checkout = os.environ.get(BEFORE)
    if not checkout:
        raise CannotRun(f"set {BEFORE} to a checkout of that version that has its own .venv")
    program = [f"{checkout}/.venv/bin/python", "-m", "bench.peers.program", *task.arguments("exactly_once")]
    return ["env", "-C", checkout, f"PYTHONPATH={checkout}", *program]


#: those of Jobs.java; how Penstock grows is its own affair
JAVA_JOBS = frozenset({
    "stateless", "count_sum", "word_count", "rekey_aggregate", "tumbling", "hopping", "session", "stream_table_join",
    "stream_stream_join", "table_table_join", "foreign_key_join", "processor", "lookup",
})  # fmt: skip

QUIX_JOBS = frozenset({
    "stateless", "count_sum", "word_count", "rekey_aggregate", "tumbling", "stream_table_join", "stream_stream_join", "lookup",
})  # fmt: skip
#: of quixstreams, which takes minutes over a million
QUIX_RECORDS = 600_000

SYSTEMS = {
    system.name: system
    for system in (
        System("java", "Kafka Streams, exactly once", _java("exactly_once", *SAME_PRODUCER), JAVA_JOBS),
        System("java-2s", "... commits every 2 s", _java("exactly_once", *SAME_PRODUCER, *RARE_COMMITS), JAVA_JOBS),
        System("java-default", "... all settings default", _java("exactly_once"), JAVA_JOBS),
        System(
            "java-alo", "Kafka Streams, at least once", _java("at_least_once", *SAME_PRODUCER, *SAME_COMMITS), JAVA_JOBS
        ),
        System("penstock", "Penstock, exactly once", _penstock("exactly_once")),
        System("penstock-before", "Penstock, another version", _penstock_before),
        System("penstock-unwatched", "Penstock, nothing measured", _unwatched),
        System("penstock-watched", "Penstock, scraped and with its page open", _watched),
        System("penstock-alo", "Penstock, at least once", _penstock("at_least_once")),
        System("quixstreams", "quixstreams, one process", _quix(1), QUIX_JOBS, QUIX_RECORDS, lives=False),
        System("quixstreams-2", "quixstreams, two processes", _quix(2), QUIX_JOBS, QUIX_RECORDS, lives=False),
        System("spark-streaming", "Spark Structured Streaming", _structured, frozenset(structured.SQL), lives=False),
        System("spark-tws", "Spark, transformWithState", _tws, frozenset(structured.TWS), most=40_000, lives=False),
    )
}
