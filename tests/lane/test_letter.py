"""A letter whose lanes are run by tasks of their own gives what one task gives that runs them all."""

from __future__ import annotations

import pyarrow as pa

from penstock import Serdes, StreamsBuilder, TimeWindows
from penstock import config as settings
from penstock.lane.envelope import NOTE
from penstock.lane.inbox import RAW_SCHEMA
from penstock.lane.letter import run_letter
from penstock.lane.orders import Orders, ShardOrder, Stage, decode_report
from penstock.lane.worker import Worker
from penstock.plan.plan import make_plan
from penstock.state.shards import shard_of

SHARDS, LANES = 8, 2


def topology():
    builder = StreamsBuilder()
    texts = builder.stream("in", key=Serdes.string, value=Serdes.string)
    grouped = texts.group_by_key()
    grouped.count(store="counts").to_stream().to("out", value=Serdes.int64)
    grouped.windowed_by(TimeWindows(100)).count(store="windows").to_stream().foreach(lambda key, value: None)
    return builder.build()


def letter():
    rows = [(f"k{number % 11}".encode(), number * 30) for number in range(60)]
    columns = [
        [shard_of(key, SHARDS) for key, _ in rows],
        [number % 3 for number in range(60)],
        [number // 3 for number in range(60)],
        [key for key, _ in rows],
        [b"v"] * 60,
        [time for _, time in rows],
        [None] * 60,
    ]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, RAW_SCHEMA, strict=True)], schema=RAW_SCHEMA
    )
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, RAW_SCHEMA) as writer:
        writer.write_batch(batch)
    return stream.getvalue().to_pybytes()


def run(folder, lanes):
    """Return what leaves, by level, lane and position; and the reports without what they have taken."""
    made = topology()
    config = settings.load({"application_id": "app"}, environ={})
    stage = Stage(make_plan(made), "app", config, SHARDS, LANES, str(folder), "nowhere:1")
    orders = Orders(
        epoch=1, token="1", incarnation="i", shards=(ShardOrder("", "", ()),) * SHARDS,
        changelogs={store: [0] * SHARDS for store in made.stores}, positions=[], topics=("in",),
        source_of={"in": next(iter(stage.sources))}, reached=[], partitions={"out": 3}, snapshots={}, global_ends=[],
    )  # fmt: skip
    batches = [batch for lane in lanes for batch in run_letter(Worker(stage), orders, letter(), lane)]
    rows, reports = [], []
    for row in pa.Table.from_batches(batches).to_pylist():
        if row["kind"] == NOTE:
            report = decode_report(row["value"])
            reports.append(
                (report.task, report.records, sorted(report.reached), sorted(report.snapshots), sorted(report.pending))
            )
        else:
            rows.append(tuple(row.values()))
    return sorted(rows, key=lambda row: row[1]), sorted(reports)


def test_lanes_in_tasks_of_their_own_give_what_one_task_gives(tmp_path):
    together, apart = run(tmp_path / "one", [None]), run(tmp_path / "two", range(LANES))
    assert {row[0] for row in together[0]} == {row[0] for row in apart[0]}
    assert together == apart
    assert len(together[1]) == LANES
    assert sum(records for _, records, *_ in together[1]) == 60
