"""An inline epoch in the worker: its parts make what the whole makes, and its shards come to the barrier when it is told of."""

from __future__ import annotations

import os
import zlib

import pyarrow as pa
import pytest

from penstock import Processor, Serdes, StreamsBuilder
from penstock import config as configuration
from penstock.engine.executor.inline_epochs import parts_of
from penstock.lane.checkpoint import ShardIsNewer
from penstock.lane.inline_epoch import run_inline_epoch
from penstock.lane.worker import Worker
from penstock.plan.passes import make_plan
from penstock.protocol.chunk import unpacked
from penstock.protocol.envelope import CHANGELOG, NOTE, SINK
from penstock.protocol.raw_rows import RAW_SCHEMA
from penstock.protocol.report import decode_report
from penstock.protocol.request import EpochRequest, ShardRequest, Stage

SHARDS, LANES = 4, 2


@pytest.fixture
def worker_at(tmp_path):
    def make(name):
        builder = StreamsBuilder()
        lines = builder.stream("in", value=Serdes.string, timestamp=lambda record: 1000 + 7 * int(record.key[1:]))
        lines.group_by_key().count(store="counts").to_stream().to("out")
        config = configuration.load({"application_id": "app"}, environ={})
        return Worker(
            Stage(make_plan(builder.build()), "app", config, SHARDS, LANES, str(tmp_path / name), "nowhere:1")
        )

    return make


def orders_for(worker, epoch, shards):
    return EpochRequest(
        epoch=epoch, token=str(epoch), incarnation="x", shards=tuple(shards), changelogs={"counts": [0] * SHARDS}, positions=[],
        topics=("in",), source_of=dict.fromkeys(["in"], next(iter(worker.stage.sources))), reached=[], partitions={"out": 2},
        snapshots={}, global_ends=[],
    )  # fmt: skip


def rows(keys):
    columns = [
        [zlib.crc32(key) % SHARDS for key in keys],
        [0] * len(keys),
        list(range(len(keys))),
        keys,
        [b"v"] * len(keys),
        [1] * len(keys),
        [None] * len(keys),
    ]
    return [
        pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, RAW_SCHEMA, strict=True)],
            schema=RAW_SCHEMA,
        )
    ]


def told(table, kind):
    found = [row for row in table.to_pylist() if row["kind"] == kind]
    return sorted(
        ((row["name"], row["partition"], row["key"], row["value"], row["timestamp"]) for row in found), key=repr
    )


def reports(table):
    return [decode_report(row["value"]) for row in table.to_pylist() if row["kind"] == NOTE]


KEYS = [b"k%d" % (n % 11) for n in range(40)]


def test_the_parts_of_an_epoch_make_what_the_whole_makes(worker_at):
    whole, apart = worker_at("whole"), worker_at("apart")
    parts = parts_of(apart.stage, rows(KEYS))
    assert [lane for lane, _ in parts] == [0, 1]
    of_whole = run_inline_epoch(
        whole, orders_for(whole, 1, [ShardRequest()] * SHARDS), [(None, parts_of_one(whole, rows(KEYS)))]
    )
    of_parts = [run_inline_epoch(apart, orders_for(apart, 1, [ShardRequest()] * SHARDS), [part])[0] for part in parts]
    one, other = unpacked(of_whole), unpacked(of_parts)
    for kind in (SINK, CHANGELOG):
        assert told(one, kind) == told(other, kind) != []
        assert {(key, time) for _, _, key, _, time in told(other, kind)} == {
            (key, 1000 + 7 * int(key[1:])) for key in KEYS
        }
    assert [(report.level, report.task, report.records) for report in reports(one)] == [
        (report.level, report.task, report.records) for report in reports(other)
    ]
    assert max(reports(one)[0].reached) == max(time for report in reports(other) for time in report.reached)


class Commits(Processor):
    """Asks for a barrier at one of its records."""

    def process(self, record):
        if record.key == "k3":
            self.context.commit()


@pytest.mark.parametrize(("keys", "asked"), [(KEYS, True), ([b"k1", b"k2"], False)])
def test_what_a_processor_asks_of_the_loop_is_in_the_report(keys, asked, tmp_path):
    builder = StreamsBuilder()
    builder.stream("in", value=Serdes.string).process(Commits)
    config = configuration.load({"application_id": "app"}, environ={})
    worker = Worker(Stage(make_plan(builder.build()), "app", config, SHARDS, LANES, str(tmp_path), "nowhere:1"))
    answer = run_inline_epoch(
        worker, orders_for(worker, 1, [ShardRequest()] * SHARDS), parts_of(worker.stage, rows(keys))
    )
    assert any(report.commit_requested for report in reports(unpacked(answer))) is asked


def parts_of_one(worker, batches):
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, RAW_SCHEMA) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return stream.getvalue().to_pybytes()


def test_what_leaves_an_epoch_is_one_batch(worker_at):
    worker = worker_at("one")
    chunks = run_inline_epoch(
        worker, orders_for(worker, 1, [ShardRequest()] * SHARDS), parts_of(worker.stage, rows(KEYS))
    )
    assert len([batch for batch in unpacked(chunks).to_batches() if len(batch)]) == 1


def test_shards_come_to_the_barrier_when_it_is_told_of(worker_at):
    worker = worker_at("state")
    answer = run_inline_epoch(
        worker, orders_for(worker, 1, [ShardRequest()] * SHARDS), parts_of(worker.stage, rows(KEYS))
    )
    shards = [ShardRequest()] * SHARDS
    for report in reports(unpacked(answer)):
        for shard, name in report.pending.items():
            shards[shard] = ShardRequest("1", "", (name,))
    assert {worker.shards.checkpoint(shard).version for shard in range(SHARDS)} == {""}
    worker.follow(orders_for(worker, 2, shards))
    assert [worker.shards.checkpoint(shard).version for shard in range(SHARDS)] == [order.version for order in shards]
    assert worker.written == set()
    assert not [name for shard in range(SHARDS) for name in os.listdir(worker.shards.path(shard)) if "pending" in name]


def test_who_reads_at_a_barrier_does_not_take_a_shard_back_to_it(worker_at):
    worker = worker_at("state")
    first = orders_for(worker, 1, [ShardRequest()] * SHARDS)
    answer = run_inline_epoch(worker, first, parts_of(worker.stage, rows(KEYS)))
    assert dict(worker.view("counts", first).all()) == {}
    shards = [ShardRequest()] * SHARDS
    for report in reports(unpacked(answer)):
        for shard, name in report.pending.items():
            shards[shard] = ShardRequest("1", "", (name,))
    second = orders_for(worker, 2, shards)
    worker.follow(second)
    worker._views = ("", {})
    with pytest.raises(ShardIsNewer):
        worker.view("counts", first)
    assert sum(dict(worker.view("counts", second).all()).values()) == len(KEYS)
