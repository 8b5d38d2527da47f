"""One system works through the data: progress and processes are sampled, results are checked, and a row of figures is left."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from rich.progress import Progress

from bench.data import KEPT, DataSet, Totals, Written
from bench.measure import (
    Footprint,
    Part,
    Sample,
    Usage,
    machine_cpu_seconds,
    machine_speed,
    part,
    seconds_between_commits,
)
from bench.peers.system import Job, Process, System, SystemFailed
from penstock.dev.broker import Broker
from penstock.log.base import Log, TopicSpec

SAMPLE_SECONDS = 0.1
#: processes are looked at with every so manieth sample
FOOTPRINT_EVERY = 3
STALLED_SECONDS = 120
#: of each partition, for the broker
WARM_RECORDS = 200_000


@dataclass(slots=True)
class Run:
    """What one system did with the data. Rates are records a second, memory is in bytes."""

    system: str
    label: str
    steady: float
    from_running: float
    from_start: float
    seconds: float
    seconds_to_running: float
    cpu_seconds: float
    cpu_us_per_record: float
    broker_cpu_us_per_record: float
    cores_of_others: float
    machine_speed: float
    peak_bytes: int
    peak_proportional_bytes: int
    seconds_between_commits: float
    outputs: int
    roles: dict[str, Usage] = field(default_factory=dict)
    metrics: Any = None


@dataclass(frozen=True, slots=True)
class Bench:
    """The broker, the data in it, and how to measure."""

    broker: Broker
    log: Log
    data: DataSet
    written: Written
    threads: int
    warm_up: float
    settings: Sequence[str] = ()

    def run(
        self, system: System, application_id: str, progress: Progress, verify: Callable[[str], int] | None = None
    ) -> Run:
        """Let a system work through the data; check its results and say how fast it was.

        ``verify(topic)`` checks other results than totals: it returns how many there are, or raises ``SystemFailed``.
        """
        target = f"{application_id}-totals"
        self.log.admin.ensure_topics([TopicSpec(target, self.data.partitions, KEPT)])
        speed = machine_speed()
        with tempfile.TemporaryDirectory(prefix="penstock-throughput-") as folder:
            address = self.broker.bootstrap_servers
            state = Path(folder) / "state"
            job = Job(address, application_id, self.data.topic, target, self.threads, state, self.settings)
            with Process(system.command(job), Path(folder) / "log") as process:
                samples, footprint = self._watch(process, application_id, progress)
        speed = (speed + machine_speed()) / 2
        if verify is None:
            outputs = check(self.log, target, self.data.partitions, self.written.totals)
        else:
            outputs = verify(target)
        steady = part(samples, max(1, int(self.warm_up * self.data.records)), self.data.records)
        return summary(system, process, samples, footprint, steady, outputs, speed)

    def _watch(self, process: Process, group: str, progress: Progress) -> tuple[list[Sample], Footprint]:
        """Sample until everything is committed."""
        footprint, broker = Footprint(process.pid), Footprint(self.broker.pid or 0)
        samples = [Sample(process.started, 0)]
        used, other = (0.0, 0.0), 0.0
        bar = progress.add_task(f"{group}: committed", total=self.data.records)
        moved = process.started
        for number in range(10**9):
            committed = sum(self.log.admin.committed(group, self.written.ends).values())
            now = time.monotonic()
            if number % FOOTPRINT_EVERY == 0 or committed >= self.data.records:
                footprint.sample()
                broker.sample(proportional_every=10**9)
                used = footprint.cpu_seconds, broker.cpu_seconds
                other = machine_cpu_seconds() - sum(used) - time.process_time()
            samples.append(Sample(now, committed, *used, other))
            progress.update(bar, completed=committed)
            if committed >= self.data.records:
                break
            moved = now if committed > samples[-2].committed else moved
            process.check()
            if now - moved > STALLED_SECONDS:
                raise SystemFailed(f"no progress for {STALLED_SECONDS} seconds. {process.last_words()}")
            time.sleep(max(0.0, SAMPLE_SECONDS - (time.monotonic() - now)))
        progress.remove_task(bar)
        return samples, footprint


def summary(
    system: System,
    process: Process,
    samples: Sequence[Sample],
    footprint: Footprint,
    steady: Part,
    outputs: int,
    speed: float,
) -> Run:
    records, end = samples[-1].committed, samples[-1].at
    running = process.heard.get("RUNNING", process.started)
    return Run(
        system=system.name,
        label=system.label,
        steady=steady.rate,
        from_running=records / (end - running),
        from_start=records / (end - process.started),
        seconds=end - process.started,
        seconds_to_running=running - process.started,
        cpu_seconds=footprint.cpu_seconds,
        cpu_us_per_record=steady.cpu_seconds / steady.records * 1e6,
        broker_cpu_us_per_record=steady.broker_cpu_seconds / steady.records * 1e6,
        cores_of_others=steady.other_cpu_seconds / steady.seconds,
        machine_speed=speed,
        peak_bytes=footprint.peak_bytes,
        peak_proportional_bytes=footprint.peak_proportional_bytes,
        seconds_between_commits=seconds_between_commits(samples),
        outputs=outputs,
        roles=footprint.roles,
        metrics=process.told("METRICS"),
    )


def check(log: Log, topic: str, partitions: int, expected: Totals) -> int:
    """Raise ``SystemFailed`` unless the last committed result of every key is right; return how many results there are."""
    places = [(topic, partition) for partition in range(partitions)]
    starts, ends = log.admin.earliest_offsets(places), log.admin.end_offsets(places)
    reader = log.reader()
    last: dict[bytes | None, bytes | None] = {}
    outputs = 0
    for place in places:
        for record in reader.read(*place, starts[place], ends[place]):
            last[record.key] = record.value
            outputs += 1
    reader.close()
    found = {key: orjson.loads(value) if value else None for key, value in last.items()}
    wrong = [
        f"{key!r}: {found.get(key)} instead of count {count}, sum {total}"
        for key, (count, total) in expected.items()
        if found.get(key) != {"count": count, "sum": total}
    ]
    wrong += [f"{key!r}: {found[key]}, but no such key was written" for key in found.keys() - expected.keys()]
    if wrong:
        raise SystemFailed(
            f"{len(wrong)} of {len(expected)} results in {topic} are wrong, such as " + "; ".join(wrong[:3])
        )
    return outputs


def warm(log: Log, data: DataSet, written: Written) -> None:
    """Read some of the input and commit some transactions, so that the first system does not meet a cold broker."""
    reader = log.reader()
    log.admin.ensure_topics([TopicSpec("warm-up", data.partitions, KEPT)])
    producer = log.producer("warm-up")
    producer.init()
    for (topic, partition), end in written.ends.items():
        batch = []
        for record in reader.read(topic, partition, 0, min(end, WARM_RECORDS)):
            batch.append(("warm-up", None, record.key, record.value, record.timestamp, ()))
            if len(batch) == 5_000:
                producer.begin()
                producer.produce(batch)
                producer.send_offsets("warm-up", {(topic, partition): record.offset + 1})
                producer.commit()
                batch.clear()
    producer.close()
    reader.close()
    log.admin.delete_topics(["warm-up"])
