"""Damage in any file of the state folder, between two runs: healed from the changelogs, never a wrong result."""

from __future__ import annotations

import os
import random
import shutil
import traceback
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock import Serdes, StreamsBuilder
from penstock import config as configuration
from penstock.lane.record_times import add_times
from penstock.lane.run import run_step
from penstock.lane.worker import Worker
from penstock.log.base import TopicSpec
from penstock.log.memory import MemoryLog
from penstock.log.topics import changelog_name
from penstock.plan.passes import make_plan
from penstock.protocol.envelope import CHANGELOG, FAILURE, NOTE, SINK, rows_of
from penstock.protocol.raw_rows import RAW_SCHEMA
from penstock.protocol.report import decode_report
from penstock.protocol.request import EpochRequest, ShardRequest, Stage

SHARDS, EPOCHS, TRIALS = 2, 3, 200
CHANGELOG_TOPIC = changelog_name("app", "counts")


class Application:
    """Counts words and looks up their names in a global table, epoch by epoch, over a folder of state and a log in memory."""

    def __init__(self, folder: Path) -> None:
        builder = StreamsBuilder()
        names = builder.global_table("names", key=Serdes.string, value=Serdes.string, store="names")
        counted = builder.stream("in", value=Serdes.string).group_by_key().count(store="counts").to_stream()
        counted.left_join(names, lambda count, name: f"{count} {name}", select=lambda key, _: key[-1]).to(
            "out", value=Serdes.string
        )
        config = configuration.load({"application_id": "app"}, environ={})
        self.stage = Stage(make_plan(builder.build()), "app", config, SHARDS, 1, str(folder), "nowhere:1", run="first")
        self.log = MemoryLog()
        self.log.admin.ensure_topics([TopicSpec(CHANGELOG_TOPIC, SHARDS), TopicSpec("names", 1)])
        producer = self.log.producer(None)
        producer.produce([("names", 0, b"%d" % n, b"name of %d" % n, 1, ()) for n in range(10)])
        self.worker = self.start(self.stage)
        self.shards = [ShardRequest()] * SHARDS
        self.snapshots: dict[int, Any] = {}
        self.epoch = 0

    def start(self, stage: Stage) -> Worker:
        worker = Worker(stage)
        worker.shards._log = self.log  # type: ignore[assignment]
        return worker

    def request(self) -> EpochRequest:
        ends = self.log.admin.end_offsets([(CHANGELOG_TOPIC, shard) for shard in range(SHARDS)])
        source = next(name for name, node in self.stage.sources.items() if "in" in node.topics)
        return EpochRequest(
            epoch=self.epoch + 1, token=f"{self.epoch + 1}.a", incarnation="x", shards=tuple(self.shards),
            changelogs={"counts": [ends[CHANGELOG_TOPIC, shard] for shard in range(SHARDS)]}, positions=[], topics=("in",),
            source_of={"in": source}, reached=[], partitions={"out": 1}, snapshots=self.snapshots,
            global_ends=[("names", 0, 10)],
        )  # fmt: skip

    def run(self, worker: Worker, request: EpochRequest) -> list[Any]:
        """Run an epoch of many records."""
        keys = [b"%04d" % (n % 1700 if request.epoch < EPOCHS else n % 30) for n in range(4000)]
        columns = [
            [zlib.crc32(key) % SHARDS for key in keys], [0] * len(keys), [request.epoch * 10_000 + n for n in range(len(keys))],
            keys, [b"v"] * len(keys), [1] * len(keys), [None] * len(keys),
        ]  # fmt: skip
        arrays = [pa.array(column, field.type) for column, field in zip(columns, RAW_SCHEMA, strict=True)]
        batches: list[Any] = [pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA)]
        moves: list[Any] = []
        batches = list(add_times(worker, request, batches, moves))
        for step in self.stage.plan.steps:
            batches = list(run_step(worker, request, step.level, 0, batches, moves))
        return [row for batch in batches for row in rows_of(batch)]

    def commit(self, rows: list[Any]) -> None:
        """Write the changelog, and remember where the shards stand."""
        assert not [row.value for row in rows if row.kind == FAILURE]
        self.epoch += 1
        self.log.producer(None).produce(
            (CHANGELOG_TOPIC, row.partition, row.key, row.value, row.timestamp, ())
            for row in rows
            if row.kind == CHANGELOG
        )
        for report in (decode_report(row.value) for row in rows if row.kind == NOTE):
            self.snapshots.setdefault(report.level, {}).update(report.snapshots)
            for shard, name in report.pending.items():
                self.shards[shard] = ShardRequest(f"{self.epoch}.a", self.shards[shard].version, (name,))

    def seen(self, worker: Worker) -> Any:
        """Return what an epoch reads and gives: all rows of the store, and the results."""
        request = self.request()
        stored = dict(worker.view("counts", request).all())
        rows = self.run(worker, request)
        failed = [row.value for row in rows if row.kind == FAILURE]
        assert not failed, failed
        return stored, [(row.key, row.value) for row in rows if row.kind == SINK]


@pytest.fixture(scope="module")
def application(tmp_path_factory):
    made = Application(tmp_path_factory.mktemp("state"))
    for _ in range(EPOCHS):
        made.commit(made.run(made.worker, made.request()))
    made.worker.close()
    return made


def damage(path: Path, chosen: random.Random) -> str:
    """Flip a bit, put zeros over some bytes, or cut the file off, where something is written."""
    data = path.read_bytes()
    blocks = [at for at in range(0, len(data), 4096) if any(data[at : at + 4096])] or [0]
    at = min(chosen.choice(blocks) + chosen.randrange(4096), max(0, len(data) - 1))
    kind = chosen.choice(["flip", "zero", "truncate"])
    with path.open("r+b") as file:
        if kind == "truncate" or not data:
            file.truncate(at)
        else:
            file.seek(at)
            file.write(
                bytes([data[at] ^ 1 << chosen.randrange(8)]) if kind == "flip" else bytes(chosen.choice([8, 4096]))
            )
    return f"{kind} at {at} of {path.name}"


def test_damage_in_any_file_is_healed(application, tmp_path):
    """Each trial is a process of its own: one that ends without a word is seen, too."""
    good = Path(application.stage.state_dir)
    files = sorted(path.relative_to(good) for path in good.rglob("*") if path.is_file())
    assert {path.name.partition("-")[0] for path in files} >= {"data.mdb", "lock.mdb", "boot", "pages", "pending"}
    shutil.copytree(good, tmp_path / "undamaged")
    worker = application.start(replace(application.stage, state_dir=str(tmp_path / "undamaged"), run="second"))
    expected = application.seen(worker)
    worker.close()
    failed = []
    for trial in range(TRIALS):
        chosen = random.Random(trial)
        folder = tmp_path / "damaged"
        shutil.copytree(good, folder)
        names = [files[trial % len(files)]]
        if trial % 5 == 0:
            names.append(chosen.choice(files))
        what = " and ".join(damage(folder / name, chosen) for name in names)
        said = _in_a_process_of_its_own(application, folder, expected)
        if said:
            failed.append(f"trial {trial}, {what}: {said}")
        shutil.rmtree(folder)
    assert not failed, "\n".join([f"{len(failed)} of {TRIALS}", *failed])


def _in_a_process_of_its_own(application: Application, folder: Path, expected: Any) -> str:
    """Return what went wrong."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            worker = application.start(replace(application.stage, state_dir=str(folder), run="second"))
            if application.seen(worker) != expected:
                os.write(writer, b"a wrong result")
        except BaseException:
            os.write(writer, traceback.format_exc()[-300:].encode())
        finally:
            os._exit(0)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with open(reader, "rb") as file:
        said = file.read().decode()
    return said or (f"ended by signal {status & 127}" if status else "")
