"""How far a system is, and what it uses: looked at ten times a second.

A system is where its consumer group has committed. A record counts as done when *all* of the job is done with it: where a system
passes records on through topics of its own (a re-key of Kafka Streams), the stage that is farthest behind tells. How many records such
a topic gets is known only at the end, so the samples are made then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rich.progress import Progress

from bench.measure import Footprint, Sample, machine_cpu_seconds
from bench.peers.process import Process, SystemFailed
from bench.writing import Written
from penstock.log.base import Log, Offsets

SAMPLE_SECONDS = 0.1
#: processes are looked at with every so manieth sample; new topics, too
FOOTPRINT_EVERY = 3
TOPICS_EVERY = 10
STALLED_SECONDS = 120
#: topics that a system keeps for itself and does not read while it runs
NOT_READ = ("changelog", "-epochs")
#: the stage that reads the input
INPUT = ""


class Look(NamedTuple):
    """What was seen at a time: offsets committed by stage, processor time so far."""

    at: float
    stages: Mapping[str, int]
    cpu: float
    broker_cpu: float
    other_cpu: float


@dataclass(slots=True)
class Watch:
    """Looks at a program that works through data."""

    log: Log
    written: Written
    process: Process
    group: str
    target: str
    broker_pid: int
    looks: list[Look] = field(default_factory=list)
    footprint: Footprint = field(init=False)
    _broker: Footprint = field(init=False)
    _inner: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.footprint, self._broker = Footprint(self.process.pid), Footprint(self.broker_pid)
        self.looks = [Look(self.process.started, {INPUT: 0}, 0.0, 0.0, 0.0)]

    def until_done(self, progress: Progress) -> None:
        """Look until everything is committed; raise ``SystemFailed`` if the program ends or stands still."""
        bar = progress.add_task(f"{self.group}: committed", total=self.written.records)
        moved = self.process.started
        while not self.look():
            now, before = self.looks[-1], self.looks[-2]
            progress.update(bar, completed=now.stages[INPUT])
            moved = now.at if now.stages != before.stages else moved
            self.process.check()
            if now.at - moved > STALLED_SECONDS:
                raise SystemFailed(f"no progress for {STALLED_SECONDS} seconds. {self.process.last_words()}")
            time.sleep(max(0.0, SAMPLE_SECONDS - (time.monotonic() - now.at)))
        progress.remove_task(bar)

    def look(self) -> bool:
        """Look once; tell whether all of the work is done."""
        committed, at = self._committed(), time.monotonic()
        stages: dict[str, int] = {INPUT: 0}
        for place, offset in committed.items():
            stage = INPUT if place in self.written.ends else place[0]
            stages[stage] = stages.get(stage, 0) + offset
        done = stages[INPUT] >= self.written.records
        if done or len(self.looks) % TOPICS_EVERY == 0:
            self._find_inner()
            done = done and self._inner_done(committed)
        self._measure(done, at, stages)
        return done

    def _committed(self) -> Offsets:
        told = self.process.told("COMMITTED")  # of a system that commits elsewhere
        if told:
            return {next(iter(self.written.ends)): told[-1][1]}
        return self.log.admin.committed(self.group, [*self.written.ends, *self._inner])

    def _find_inner(self) -> None:
        """Find the topics that the system passes records on through."""
        self._inner = [
            (topic, partition)
            for topic, partitions in self.log.admin.topics().items()
            if self.group in topic and topic != self.target and not any(word in topic for word in NOT_READ)
            for partition in range(partitions)
        ]

    def _inner_done(self, committed: Offsets) -> bool:
        """Tell whether what the input became was worked through, too. The ends are asked for after the commits."""
        ends = self.log.admin.end_offsets(self._inner) if self._inner else {}
        return all(committed.get(place, 0) >= end for place, end in ends.items())

    def _measure(self, done: bool, at: float, stages: Mapping[str, int]) -> None:
        before = self.looks[-1]
        used = before.cpu, before.broker_cpu, before.other_cpu
        if done or len(self.looks) % FOOTPRINT_EVERY == 0:
            self.footprint.sample()
            self._broker.sample(proportional_every=10**9)
            mine = self.footprint.cpu_seconds, self._broker.cpu_seconds
            used = (*mine, machine_cpu_seconds() - sum(mine) - time.process_time())
        self.looks.append(Look(at, stages, *used))

    def cores_of_others(self) -> float:
        """Return how many cores were busy with neither the system nor the broker nor this process, after the first result."""
        seen = [look for look in self.looks if look.cpu and look.stages[INPUT]]
        first, last = seen[0], seen[-1]
        return (last.other_cpu - first.other_cpu) / max(last.at - first.at, SAMPLE_SECONDS)

    def costs(self) -> dict[str, float]:
        """Return what the processes of the system used, all together."""
        return {
            "cpu_seconds": self.footprint.cpu_seconds,
            "peak_mb": self.footprint.peak_bytes / 2**20,
            "peak_proportional_mb": self.footprint.peak_proportional_bytes / 2**20,
        }

    def roles(self) -> dict[str, dict[str, float]]:
        """Return what they used by role: the program itself, and what it started."""
        return {
            name: {"processes": each.processes, "cpu_seconds": each.cpu_seconds, "peak_mb": each.peak_bytes / 2**20}
            for name, each in self.footprint.roles.items()
        }

    def samples(self) -> list[Sample]:
        """Return what was seen, in records of the input that are done: the stage that is farthest behind counts."""
        ends = dict(self.looks[-1].stages) | {INPUT: self.written.records}
        return [
            Sample(look.at, int(self.written.records * part_done(look.stages, ends)), *look[2:]) for look in self.looks
        ]


def part_done(stages: Mapping[str, int], ends: Mapping[str, int]) -> float:
    """Tell which part of the records all stages are done with.

    >>> part_done({"": 100, "re-keyed": 30}, {"": 100, "re-keyed": 60})
    0.5
    """
    return min(stages.get(stage, 0) / end for stage, end in ends.items() if end)
