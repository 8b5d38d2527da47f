"""Side by side: records a second of the count-and-sum job, exactly once, on one broker and one set of data. ::

    python -m bench.throughput                                   # Kafka Streams (Java) and Penstock, 4 M records
    python -m bench.throughput --systems java,java-alo --json

One system after the other reads the same topic into a topic of its own, with state and consumer group of its own. The measure is
the same for all: the offsets that the group has committed, asked for ten times a second. The *steady* rate is taken from the
first commit past the warm-up part (40 % of the records) to the commit of the last record; so neither start-up nor a cold JVM
counts. Beside it stand the rates from the moment the system says RUNNING, and from the start of its process. The warm-up is
that long because Kafka Streams grows faster until about its 1.5 millionth record: with half of the records its rate is a third lower.

A rate counts only if the results are right: for every key the last (count, sum) in the output topic, as a ``read_committed`` reader
sees it, must equal what the data come to. The broker is made warm before the first system, and its processor time is reported
beside that of the system: they share the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.data import KEPT, DataSet, Totals, Written, progress_bar, write
from bench.measure import Footprint, Part, Sample, Usage, machine_cpu_seconds, part, seconds_between_commits
from bench.peers.system import SYSTEMS, Job, Process, System, SystemFailed
from penstock.dev.broker import Broker
from penstock.errors import PenstockError
from penstock.log.base import Log, TopicSpec
from penstock.log.kafka import KafkaLog

SAMPLE_SECONDS = 0.1
#: processes are looked at with every so manieth sample
FOOTPRINT_EVERY = 3
STALLED_SECONDS = 120
#: of each partition, for the broker
WARM_RECORDS = 200_000
RATES = ("steady", "from_running", "from_start")


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

    def run(self, system: System, application_id: str, progress: Progress) -> Run:
        """Let a system work through the data; check its results and say how fast it was."""
        target = f"{application_id}-totals"
        self.log.admin.ensure_topics([TopicSpec(target, self.data.partitions, KEPT)])
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            address = self.broker.bootstrap_servers
            state = Path(folder) / "state"
            job = Job(address, application_id, self.data.topic, target, self.threads, state, self.settings)
            with Process(system.command(job), Path(folder) / "log") as process:
                samples, footprint = self._watch(process, application_id, progress)
        outputs = check(self.log, target, self.data.partitions, self.written.totals)
        steady = part(samples, max(1, int(self.warm_up * self.data.records)), self.data.records)
        return summary(system, process, samples, footprint, steady, outputs)

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
    system: System, process: Process, samples: Sequence[Sample], footprint: Footprint, steady: Part, outputs: int
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


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start a broker, write the data, run the systems in turn (every other round in reverse order)."""
    data = DataSet("purchases", options.records, options.keys, options.partitions)
    runs: list[Run] = []
    failed: dict[str, str] = {}
    with progress_bar() as progress, Broker(heap_mb=1024) as broker:
        log = KafkaLog(broker.bootstrap_servers)
        written = write(log, data, progress)
        warm(log, data, written)
        bench = Bench(broker, log, data, written, options.threads, options.warm_up, options.setting)
        for number in range(options.rounds):
            for name in options.systems if number % 2 == 0 else reversed(options.systems):
                if name not in failed:
                    try:
                        runs.append(bench.run(SYSTEMS[name], f"bench-{name}-{number}", progress))
                    except PenstockError as error:
                        failed[name] = str(error)
        log.close()
    return {
        "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "data": asdict(data) | {"warm_up": options.warm_up, "threads": options.threads, "rounds": options.rounds},
        "runs": [asdict(run) for run in runs],
        "ratio": ratios(runs),
        "failed": failed,
    }


def ratios(runs: Sequence[Run], ours: str = "penstock") -> dict[str, dict[str, float]]:
    """How many times as fast Penstock, exactly once, is as every other system, by the median of the rounds."""
    medians = {
        name: {rate: statistics.median(getattr(run, rate) for run in runs if run.system == name) for rate in RATES}
        for name in dict.fromkeys(run.system for run in runs)
    }
    mine = medians.pop(ours, None)
    return (
        {name: {rate: mine[rate] / theirs[rate] for rate in RATES} for name, theirs in medians.items()} if mine else {}
    )


def show(result: dict[str, Any], console: Console) -> None:
    """Print the comparison for people."""
    data = result["data"]
    console.print(
        f"{data['records']:,} records, {data['keys']:,} keys, {data['partitions']} partitions, "
        f"{data['threads']} threads or lanes, {result['machine']['cores']} cores with the broker"
    )
    table = Table("system", *("steady/s", "from RUNNING/s", "from start/s", "CPU µs", "broker CPU µs"), box=None)
    for name in ("CPU s", "peak MB", "shared once", "commit s", "outputs", "others' cores"):
        table.add_column(name, justify="right")
    for run in result["runs"]:
        rates = [f"{run[name]:,.0f}" for name in RATES]
        costs = [f"{run[name]:.2f}" for name in ("cpu_us_per_record", "broker_cpu_us_per_record", "cpu_seconds")]
        memory = [f"{run[name] / 2**20:,.0f}" for name in ("peak_bytes", "peak_proportional_bytes")]
        rest = f"{run['seconds_between_commits']:.2f}", f"{run['outputs']:,}", f"{run['cores_of_others']:.2f}"
        table.add_row(run["label"], *rates, *costs, *memory, *rest)
    console.print(table)
    for name, reason in result["failed"].items():
        console.print(f"{SYSTEMS[name].label}: {reason}", markup=False)
    for name, ratio in result["ratio"].items():
        said = ", ".join(f"{rate.replace('_', ' ')} {ratio[rate]:.2f}" for rate in RATES)
        console.print(f"Penstock, exactly once / {name}: {said}")


def names(text: str) -> list[str]:
    """Names of systems, with commas between them."""
    chosen = text.split(",")
    if unknown := [name for name in chosen if name not in SYSTEMS]:
        raise argparse.ArgumentTypeError(f"no such system: {', '.join(unknown)}. There are {', '.join(SYSTEMS)}")
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of Java, lanes of Penstock")
    parser.add_argument("--warm-up", type=float, default=0.4, help="part of the records that does not count")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--systems", type=names, default=["java", "penstock"], help=", ".join(SYSTEMS))
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="for every system chosen")
    parser.add_argument(
        "--require", type=float, metavar="RATIO", help="exit code 1 if Penstock's steady rate / Java's is less"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        console = Console(highlight=False)
        show(result, console if console.is_terminal else Console(highlight=False, width=160))
    fast_enough = options.require is None or (
        result["ratio"] is not None and result["ratio"]["steady"] >= options.require
    )
    sys.exit(0 if not result["failed"] and fast_enough else 1)


if __name__ == "__main__":
    main()
