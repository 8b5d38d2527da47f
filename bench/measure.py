"""What a system costs, and how fast it is: its processes sampled from /proc, its progress from the offsets it commits.

Both are plain samples over time, so that any part of a run can be asked for afterwards.
"""

from __future__ import annotations

import itertools
import os
import random
import statistics
import timeit
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from penstock.errors import PenstockError

PROC = Path("/proc")
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class NothingToMeasure(PenstockError):
    """The samples do not tell a rate."""


class Sample(NamedTuple):
    """At a time (seconds), this many input records were committed, and so much processor time was used.

    ``other_cpu`` is what neither the system nor its broker nor the benchmark used: a disturbed run shows there.
    """

    at: float
    committed: int
    cpu: float = 0.0
    broker_cpu: float = 0.0
    other_cpu: float = 0.0


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a run, from one commit to another."""

    records: int
    seconds: float
    cpu_seconds: float
    broker_cpu_seconds: float
    other_cpu_seconds: float

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds


def part(samples: Sequence[Sample], start: int, end: int) -> Part:
    """The part from the first sample with at least ``start`` committed records to the first with ``end``.

    It begins and ends with a commit that was seen, so a system that commits much at once is measured as exactly as one that
    commits little: what was committed before the part began is not counted.

    >>> part([Sample(0, 0), Sample(1, 50), Sample(2, 50), Sample(3, 150)], 1, 150).rate
    50.0
    """
    first = next((sample for sample in samples if sample.committed >= start), None)
    last = next((sample for sample in samples if sample.committed >= end), None)
    if first is None or last is None:
        raise NothingToMeasure(f"only {samples[-1].committed if samples else 0} of {end} records were committed")
    if last.committed <= first.committed:
        raise NothingToMeasure(
            f"one commit covered everything from record {start} to {end}: there is nothing to measure. Take more records"
        )
    at, committed, cpu, broker_cpu, other_cpu = (b - a for a, b in zip(first, last, strict=True))
    return Part(int(committed), at, cpu, broker_cpu, other_cpu)


def seconds_between_commits(samples: Iterable[Sample]) -> float:
    """The median time between two samples that saw progress; never below the time between two samples.

    >>> seconds_between_commits([Sample(0, 0), Sample(1, 5), Sample(2, 5), Sample(4, 9), Sample(7, 12)])
    3.0
    """
    times = [after.at for before, after in itertools.pairwise(samples) if after.committed > before.committed]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    return statistics.median(gaps) if gaps else 0.0


class Stat(NamedTuple):
    """A line of /proc/<pid>/stat, as far as it is needed."""

    parent: int
    session: int
    own_ticks: int
    reaped_ticks: int  # of children that ended and were waited for
    pages: int
    name: str


def parse_stat(line: str) -> Stat:
    """Read a line of /proc/<pid>/stat; the name may hold spaces and brackets.

    >>> parse_stat("7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 30 12 5 1 20 0 9 0 100 1000 25 0")
    Stat(parent=1, session=7, own_ticks=42, reaped_ticks=6, pages=25, name='a) b')
    """
    head, _, tail = line.rpartition(")")
    words = tail.split()
    numbers = [int(word) for word in words[1:22]]
    own, reaped = numbers[10] + numbers[11], numbers[12] + numbers[13]
    return Stat(numbers[0], numbers[2], own, reaped, numbers[20], head.partition("(")[2])


def processes() -> Iterator[tuple[int, Stat]]:
    """All processes of the machine."""
    for path in PROC.iterdir():
        if path.name.isdigit():
            try:
                yield int(path.name), parse_stat((path / "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):  # it ended since the folder was listed
                continue


def machine_cpu_seconds() -> float:
    """Processor time that the whole machine has used, and that its host took away."""
    words = (PROC / "stat").read_text().split()
    user, nice, system, _idle, _wait, irq, softirq, stolen = (int(word) for word in words[1:9])
    return (user + nice + system + irq + softirq + stolen) / TICK


def machine_speed(rounds: int = 5) -> float:
    """Million look-ups a second in a table larger than the caches, at best: how fast the machine is just now.

    Virtual machines have neighbours. Where this differs between two runs, so does everything else.
    """
    table = {b"k%d" % n: n for n in range(200_000)}
    wanted = random.Random(7).choices(list(table), k=100_000)
    times = [timeit.timeit(lambda: sum(map(table.__getitem__, wanted)), number=1) for _ in range(rounds)]
    return len(wanted) / min(times) / 1e6


def members(root: int) -> dict[int, Stat]:
    """The processes that belong to a root: those of its session and all descendants."""
    found = dict(processes())
    belong = {pid for pid, stat in found.items() if pid == root or stat.session == root}
    grown = True
    while grown:
        children = {pid for pid, stat in found.items() if stat.parent in belong} - belong
        belong |= children
        grown = bool(children)
    return {pid: found[pid] for pid in belong}


def proportional_bytes(pid: int) -> int:
    """Memory of a process in which a page shared by n processes counts one nth; 0 where the kernel does not tell."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


@dataclass(slots=True)
class Usage:
    """What the processes of one role used: the root is the program, others go by their name (java, python)."""

    processes: int = 0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0


@dataclass(slots=True)
class Footprint:
    """Processor time and memory of a root and all that belongs to it, sampled.

    A child that lived and died between two samples is counted, too, if its parent waited for it: the kernel adds it to the
    parent's account. Peaks are those of the sum at one time. ``peak_bytes`` counts a page shared by n processes n times,
    ``peak_proportional_bytes`` once; the latter costs more and is sampled less often.
    """

    root: int
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    peak_proportional_bytes: int = 0
    roles: dict[str, Usage] = field(default_factory=dict)
    _samples: int = 0

    def sample(self, proportional_every: int = 20) -> None:
        """Look once; now and then also at the proportional memory."""
        found = members(self.root)
        ticks = sum(stat.own_ticks + stat.reaped_ticks for stat in found.values())
        self.cpu_seconds = max(self.cpu_seconds, ticks / TICK)
        self.peak_bytes = max(self.peak_bytes, PAGE * sum(stat.pages for stat in found.values()))
        if self._samples % proportional_every == 0:
            together = sum(proportional_bytes(pid) for pid in found)
            self.peak_proportional_bytes = max(self.peak_proportional_bytes, together)
        self._samples += 1
        self._by_role(found)

    def _by_role(self, found: dict[int, Stat]) -> None:
        now: dict[str, Usage] = {}
        for pid, stat in found.items():
            usage = now.setdefault("program" if pid == self.root else stat.name, Usage())
            usage.processes += 1
            usage.cpu_seconds += stat.own_ticks / TICK
            usage.peak_bytes += stat.pages * PAGE
        for role, usage in now.items():
            before = self.roles.setdefault(role, Usage())
            before.processes = max(before.processes, usage.processes)
            before.cpu_seconds = max(before.cpu_seconds, usage.cpu_seconds)
            before.peak_bytes = max(before.peak_bytes, usage.peak_bytes)
