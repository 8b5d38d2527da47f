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
beside that of the system: they share the machine. Two columns tell a disturbed run: the cores that other programs used in the
measured part, and the speed of the machine just before and after (look-ups in a table, in millions a second). A machine with
neighbours drifts by half within minutes: take ``--rounds 3``, of which every other one goes in reverse order; medians are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.data import DataSet, progress_bar, write
from bench.peers.run import Bench, Run, warm
from bench.peers.system import SYSTEMS
from penstock.dev.broker import Broker
from penstock.errors import PenstockError
from penstock.log.kafka import KafkaLog

RATES = ("steady", "from_running", "from_start")


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
    for name in ("CPU s", "peak MB", "shared once", "commit s", "outputs", "others' cores", "machine"):
        table.add_column(name, justify="right")
    for run in result["runs"]:
        rates = [f"{run[name]:,.0f}" for name in RATES]
        costs = [f"{run[name]:.2f}" for name in ("cpu_us_per_record", "broker_cpu_us_per_record", "cpu_seconds")]
        memory = [f"{run[name] / 2**20:,.0f}" for name in ("peak_bytes", "peak_proportional_bytes")]
        rest = [f"{run[name]:.2f}" for name in ("cores_of_others", "machine_speed")]
        written = f"{run['seconds_between_commits']:.2f}", f"{run['outputs']:,}"
        table.add_row(run["label"], *rates, *costs, *memory, *written, *rest)
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
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # clean up, as at Ctrl-C
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
