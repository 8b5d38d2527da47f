"""What a question costs on a cluster, where the driver has no disk of the lanes and follows the changelogs of what is asked::

    python -m bench.followed [rows]

A standalone cluster of two executors, an application that has counted so many keys (1,000,000 unless told) in sixteen shards. Then, in
milliseconds, medians of several:

    first of a shard      a key of a shard that was never asked for: the copy is read from its changelog
    again                 another key of it, at the same barrier
    next barrier          a key of it after an epoch of 1,000 records: what is missing of the changelog is read
    first snapshot        all shards that are left
    next snapshot         all shards after such an epoch

and what the copy takes on the driver's disk. What is read is compared with what was counted. Printed as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.frame import APPLICATION, SHARDS, START_MS, STORE, TOPIC, fill, topology
from penstock import KeyQuery
from penstock.clock import SystemClock
from penstock.config import load
from penstock.dev.broker import Broker
from penstock.dev.cluster import Cluster
from penstock.engine.engine import Engine
from penstock.engine.executor.spark_session import make_session
from penstock.log.kafka import KafkaLog
from penstock.query.service import Queries

#: shards that are asked for one by one, and epochs for which one is asked again
SOME, EPOCHS, RECORDS = 8, 8, 1_000


class Asked:
    """An application on a cluster, whose epochs are run from here."""

    def __init__(self, engine: Engine, log: KafkaLog) -> None:
        self._engine, self._log = engine, log
        self._loop = engine.start()
        self.drain()
        assert engine.queries is not None
        self.queries: Queries = engine.queries
        self.milliseconds: dict[str, list[float]] = {}

    def drain(self) -> None:
        """Run epochs until nothing waits."""
        while self._loop.step():
            pass

    def epoch(self) -> None:
        """Count some of the keys once more."""
        producer = self._log.producer(None)
        producer.init()
        producer.produce((TOPIC, 0, b"key-%d" % number, b"1", START_MS, ()) for number in range(RECORDS))
        producer.flush()
        producer.close()
        self.drain()

    def timed(self, what: str, ask: Callable[[], Any]) -> Any:
        """Ask, and note how long it took."""
        since = time.perf_counter()
        found = ask()
        self.milliseconds.setdefault(what, []).append((time.perf_counter() - since) * 1000)
        return found

    def key(self, what: str, number: int) -> int:
        """Ask for a key; return its count."""
        return int(self.timed(what, lambda: self.queries.query(STORE, KeyQuery(f"key-{number}"))).value)

    def snapshot(self, what: str) -> None:
        """Open all shards."""
        self.timed(what, self.queries.snapshot).close()

    def of_shards(self, rows: int) -> dict[int, list[int]]:
        """Return keys of each shard that are counted in no later epoch, and not twice before."""
        found: dict[int, list[int]] = {}
        for number in range(RECORDS + 1, rows, 5):
            shard = self.queries.metadata_for_key(STORE, f"key-{number}").shard
            found.setdefault(-1 if shard is None else shard, []).append(number)
            if len(found) == SHARDS and all(len(numbers) > 1 for numbers in found.values()):
                break
        return found


def ask(asked: Asked, rows: int) -> None:
    """Ask everything; raise if an answer is wrong."""
    keys = asked.of_shards(rows)
    wrong = []
    for shard in range(SOME):
        wrong += [number for number in keys[shard][:1] if asked.key("first of a shard", number) != 1]
        wrong += [number for number in keys[shard][1:2] if asked.key("again", number) != 1]
    for number in range(1, EPOCHS + 1):
        asked.epoch()
        wrong += [1] if asked.key("next barrier", 1) != 1 + number else []
    asked.snapshot("first snapshot")
    for _ in range(EPOCHS):
        asked.epoch()
        asked.snapshot("next snapshot")
    if wrong:
        raise AssertionError(f"wrong counts of the keys {wrong}")


def main(rows: int = 1_000_000) -> dict[str, Any]:
    """Measure."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(heap_mb=1024) as broker,
        Cluster(workers=2, environments=[{"PENSTOCK_STATE_DIR": f"{folder}/{name}"} for name in "ab"]) as cluster,
    ):
        log = KafkaLog(broker.bootstrap_servers)
        fill(log, rows)
        spark = make_session(cluster.master, "followed", cluster.settings)
        given = {"application_id": APPLICATION, "bootstrap_servers": broker.bootstrap_servers, "shards": SHARDS}
        given |= {"state_dir": f"{folder}/driver", "master": cluster.master}
        engine = Engine(topology().build(), load(given, environ={}), spark, clock=SystemClock())
        try:
            asked = Asked(engine, log)
            ask(asked, rows)
            files = Path(folder, "driver").rglob("data.mdb")
            copy_mb = sum(path.stat().st_blocks * 512 for path in files) / 2**20
        finally:
            engine.close()
            spark.stop()
            log.close()
    medians = {what: round(statistics.median(each), 2) for what, each in asked.milliseconds.items()}
    return {"rows": rows, "milliseconds": medians, "copy_mb": round(copy_mb, 1)}


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))
