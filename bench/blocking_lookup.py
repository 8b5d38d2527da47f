"""Side by side: a lookup of 10 ms for every record, exactly once, on one broker. ::

    python -m bench.blocking_lookup                          # Kafka Streams (Java), Penstock with 64 calls a lane
    python -m bench.blocking_lookup --wait 50 --concurrency 500 --systems coroutine --require 5000

Kafka Streams waits in its threads: two of them make 200 lookups of 10 ms a second, whatever the machine. Penstock's
``map_values_async`` makes many at a time in each lane, blocking ones in threads, coroutines in an event loop.

The measure is that of ``bench.throughput``: the offsets that the group has committed; *steady* is the rate from the first commit
past the warm-up part to the last. Each system has a topic of its own, as long as it takes to see its rate. A rate counts only if
the results are right: every record in the output once, each key's in the order of the input.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.data import DataSet, progress_bar, purchases, write
from bench.peers import java
from bench.peers.lookup import FORMS, enriched
from bench.peers.run import Bench, Run
from bench.peers.system import Job, System, SystemFailed
from penstock.dev.broker import Broker
from penstock.errors import PenstockError
from penstock.log.base import Log
from penstock.log.kafka import KafkaLog

JAVA = "java"


def system(name: str, options: argparse.Namespace) -> System:
    """How a system is started."""
    if name == JAVA:
        return System(name, f"Kafka Streams, {options.threads} threads", _java(options))
    label = f"Penstock, {name}, {options.concurrency} calls in each of {options.threads} lanes"
    return System(name, label, _penstock(name, options))


def _java(options: argparse.Namespace) -> Callable[[Job], list[str]]:
    return lambda job: java.command("Lookup", *job.arguments("exactly_once_v2"), str(options.wait))


def _penstock(form: str, options: argparse.Namespace) -> Callable[[Job], list[str]]:
    how = [str(options.wait), str(options.concurrency), form, f"max_epoch_records={options.epoch}", *options.setting]
    return lambda job: [sys.executable, "-m", "bench.peers.lookup", *job.arguments("exactly_once"), *how]


def expected(data: DataSet) -> dict[bytes, list[bytes]]:
    """Return what must come out: of each key, its values in order.

    >>> expected(DataSet("lookups", records=1))[b"k16191"][0][-13:]
    b',"letters":6}'
    """
    found: dict[bytes, list[bytes]] = {}
    for key, _, value in purchases(data):
        found.setdefault(key, []).append(enriched(key.decode(), value.decode()).encode())
    return found


def check(log: Log, topic: str, data: DataSet) -> int:
    """Raise ``SystemFailed`` unless a reader of committed records sees every answer once, each key's in order."""
    places = [(topic, partition) for partition in range(data.partitions)]
    ends = log.admin.end_offsets(places)
    reader = log.reader()
    found: dict[bytes | None, list[bytes | None]] = {}
    for place in places:
        for record in reader.read(*place, 0, ends[place]):
            found.setdefault(record.key, []).append(record.value)
    reader.close()
    right = expected(data)
    wrong = [key for key in right.keys() | found.keys() if right.get(key or b"", []) != found.get(key, [])]
    if wrong:
        key = wrong[0] or b""
        raise SystemFailed(
            f"{len(wrong)} keys have other results in {topic} than they must, such as {key!r}: {found.get(key)} instead of {right.get(key)}"
        )
    return sum(map(len, found.values()))


def run(broker: Broker, log: Log, name: str, options: argparse.Namespace, progress: Progress) -> Run:
    """Measure one system on a topic of its own."""
    records = options.java_records if name == JAVA else options.records
    data = DataSet(f"lookups-{name}", records, options.keys, options.partitions)
    bench = Bench(broker, log, data, write(log, data, progress), options.threads, options.warm_up)
    return bench.run(system(name, options), f"lookup-{name}", progress, lambda topic: check(log, topic, data))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start a broker, run the systems in turn."""
    runs: list[Run] = []
    failed: dict[str, str] = {}
    with progress_bar() as progress, Broker(heap_mb=512) as broker:
        log = KafkaLog(broker.bootstrap_servers)
        for name in options.systems:
            try:
                runs.append(run(broker, log, name, options, progress))
            except PenstockError as error:
                failed[name] = str(error)
        log.close()
    return {
        "cores": os.cpu_count(),
        "options": {name: value for name, value in vars(options).items() if name != "json"},
        "runs": [asdict(replace(each, metrics=None)) for each in runs],
        "failed": failed,
    }


def show(result: dict[str, Any], console: Console) -> None:
    """Print the comparison for people."""
    options = result["options"]
    console.print(
        f"lookups of {options['wait']} ms, {options['partitions']} partitions, {result['cores']} cores with the broker; "
        "every record once, each key's in order"
    )
    table = Table("system", box=None)
    for name in ("steady/s", "from RUNNING/s", "CPU µs", "commit s", "records", "others' cores"):
        table.add_column(name, justify="right")
    for each in result["runs"]:
        rates = [f"{each[name]:,.0f}" for name in ("steady", "from_running", "cpu_us_per_record")]
        table.add_row(
            each["label"], *rates, f"{each['seconds_between_commits']:.2f}", f"{each['outputs']:,}", f"{each['cores_of_others']:.2f}"
        )  # fmt: skip
    console.print(table)
    for name, reason in result["failed"].items():
        console.print(f"{name}: {reason}", markup=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000, help="for Penstock")
    parser.add_argument(
        "--java-records", type=int, default=3_000, help="for Kafka Streams, which takes that much longer"
    )
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of Java, lanes of Penstock")
    parser.add_argument("--wait", type=int, default=10, help="milliseconds of a lookup")
    parser.add_argument("--concurrency", type=int, default=64, help="calls of a lane at a time")
    parser.add_argument("--epoch", type=int, default=20_000, help="most records of an epoch")
    parser.add_argument("--warm-up", type=float, default=0.3, help="part of the records that does not count")
    parser.add_argument("--systems", type=lambda text: text.split(","), default=[JAVA, "blocking", "coroutine"])
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="of Penstock")
    parser.add_argument("--require", type=float, metavar="RATE", help="exit code 1 if Penstock's steady rate is less")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if unknown := set(options.systems) - {JAVA, *FORMS}:
        parser.error(f"no such system: {', '.join(sorted(unknown))}. There are {', '.join([JAVA, *FORMS])}")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # clean up, as at Ctrl-C
    result = measure(options)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        console = Console(highlight=False)
        show(result, console if console.is_terminal else Console(highlight=False, width=160))
    slow = [each for each in result["runs"] if each["system"] != JAVA and each["steady"] < (options.require or 0)]
    sys.exit(1 if result["failed"] or slow else 0)


if __name__ == "__main__":
    main()
