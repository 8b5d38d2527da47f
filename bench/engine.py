"""The engine by itself: the smallest epoch, and the rate of a restore. ::

    python -m bench.engine [--epochs 400] [--keys 1000000] [--executor spark|spark_fast] [--json]

One broker, one session (``local[2]``), the count-and-sum job. *Restore*: so many keys are counted, which makes as many changelog rows;
then the state folder is deleted and the application started anew. The time is that of the start, from the first question to Kafka to
the last shard at its barrier; Spark runs already. *Smallest epoch*: one record at a time, one exchange; the median of the last fifty,
once the JVM is warm, of inline epochs (``docs/decisions/0017``) and of epochs that Spark reads, some of each in turns: a task
that stays for inline epochs (0023) ends when Spark reads. The machine is noisy: look at several runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from bench.data import START_MS
from bench.workloads.count_sum import build
from bench.writing import KEPT
from penstock import config as settings
from penstock.clock import SystemClock, stopwatch_us
from penstock.dev.broker import Broker
from penstock.engine.engine import Engine
from penstock.engine.executor.spark_session import make_session
from penstock.engine.recovery import RestoreProgress
from penstock.log.base import Producer, Row, TopicSpec
from penstock.log.kafka import KafkaLog

#: epochs of one way before those of the other
BLOCK = 40
VALUE = b'{"order":1,"customer":"k1","item":"cup","amount":15,"paid":true}'


def one_of_each(keys: int) -> Iterator[Row]:
    """Make one record of every key."""
    for number in track(range(keys), "writing records", console=Console(stderr=True), transient=True):
        yield "in", None, b"k%d" % number, VALUE, START_MS + number, ()


def write(producer: Producer, rows: Iterator[Row] | list[Row]) -> None:
    """Write rows, all of them."""
    producer.begin()
    producer.produce(rows)
    producer.commit()


def smallest_epochs(producer: Producer, engine: Engine, epochs: int) -> dict[str, list[float]]:
    """Return the milliseconds of each of so many epochs of one record, run inline and read by Spark in turns."""
    assert engine.loop is not None
    assert engine.executor is not None
    limits = {"inline": engine.config["inline_epoch_records"], "spark": 0}
    times: dict[str, list[float]] = {way: [] for way in limits}
    for number in track(range(epochs), "epochs of one record", console=Console(stderr=True), transient=True):
        write(producer, [("in", None, b"k%d" % (number % 7), VALUE, START_MS + number, ())])
        way = "spark" if number // BLOCK % 2 else "inline"
        engine.executor.inline_epochs.most_records = limits[way]
        began = stopwatch_us()
        while not engine.loop.step():
            pass
        times[way].append((stopwatch_us() - began) / 1000)
    return times


def medians(times: list[float]) -> dict[str, float]:
    """Return what is shown of epochs."""
    last = times[-50:]
    return {"median": statistics.median(last), "best": min(last), "first": statistics.median(times[:20])}


def measure(keys: int, epochs: int, executor: str = "auto") -> dict[str, Any]:
    """Start everything, run everything; return the figures."""
    with Broker(heap_mb=1024) as broker, tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        log = KafkaLog(broker.bootstrap_servers)
        log.admin.ensure_topics([TopicSpec("in", 4, KEPT), TopicSpec("out", 4, KEPT)])
        given = {
            "application_id": "bench",
            "bootstrap_servers": broker.bootstrap_servers,
            "master": "local[2]",
            "lanes": 2,
            "executor": executor,
        }
        config = settings.load({**given, "state_dir": str(Path(folder) / "state")}, environ={})
        session = make_session("local[2]", "bench", executor=executor)
        try:
            return figures(log, config, session, keys, epochs)
        finally:
            session.stop()
            log.close()


def figures(log: KafkaLog, config: dict[str, Any], session: Any, keys: int, epochs: int) -> dict[str, Any]:
    """Count the keys, forget the state, start again, and run small epochs."""
    producer = log.producer(None)
    write(producer, one_of_each(keys))
    engine = Engine(build(["in"], "out").build(), config, session, clock=SystemClock())
    loop = engine.start()
    while loop.step():
        pass
    engine.close()
    shutil.rmtree(config["state_dir"])
    told: list[RestoreProgress] = []
    again = Engine(build(["in"], "out").build(), config, session, clock=SystemClock(), notify=told.append)
    began = stopwatch_us()
    again.start()
    seconds = (stopwatch_us() - began) / 1_000_000
    assert told[-1].restored == keys, f"{told[-1].restored} rows were restored of {keys}"
    times = smallest_epochs(producer, again, epochs)
    assert again.loop is not None
    steps = {name: spent / 1000 for name, spent in again.loop.totals.last.items()}
    again.close()
    return {
        "restore": {"rows": keys, "seconds": seconds, "rows_per_second": keys / seconds},
        "smallest_epoch_ms": {way: medians(spent) for way, spent in times.items()},
        "steps_of_the_last_ms": steps,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--executor", choices=("auto", "spark", "spark_fast"), default="auto")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.keys, options.epochs, options.executor)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"restore          {found['restore']['rows_per_second'] / 1000:.0f} k changelog rows/s")
    for way, ms in found["smallest_epoch_ms"].items():
        print(
            f"smallest epoch   {ms['median']:.0f} ms (best {ms['best']:.0f}; the first ones {ms['first']:.0f}), {way}"
        )


if __name__ == "__main__":
    main()
