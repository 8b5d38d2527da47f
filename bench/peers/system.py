"""The systems under measurement: how the program of each is started, and which jobs it can do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers import java


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

    def can(self, job: str) -> bool:
        """Tell whether it can do a job."""
        return self.jobs is None or job in self.jobs

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


def _penstock(guarantee: str) -> Callable[[Task], list[str]]:
    return lambda task: [sys.executable, "-m", "bench.peers.program", *task.arguments(guarantee)]


#: those of Jobs.java; how Penstock grows is its own affair
JAVA_JOBS = frozenset({
    "stateless", "count_sum", "word_count", "rekey_aggregate", "tumbling", "session", "stream_table_join", "stream_stream_join",
    "table_table_join", "foreign_key_join", "lookup",
})  # fmt: skip

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
        System("penstock-alo", "Penstock, at least once", _penstock("at_least_once")),
    )
}
