"""Which epochs are inline, and what is in them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock import Processor, Serdes, Stores, StreamsBuilder, TimeWindows
from penstock.engine.executor.inline_epochs import MOST_BYTES, MOST_WORK_US, TELLING, InlineEpochs, parts_of
from penstock.lane.ordering import raw_headers
from penstock.log.rows import RangeRows
from penstock.plan.passes import make_plan
from penstock.protocol.raw_rows import PARTITIONS, RAW_SCHEMA, raw_batch
from penstock.protocol.report import TaskReport
from penstock.protocol.request import EpochRequest, Range, Stage
from penstock.state.shards import shard_of


def stage_of(builder, shards=16):
    return Stage(make_plan(builder.build()), "inline", {}, shards, 2, "", "")


@pytest.fixture
def stage():
    builder = StreamsBuilder()
    builder.stream("a").group_by_key().count(store="counts")
    builder.stream("b").to("out")
    return stage_of(builder)


class Nothing(Processor):
    """Does nothing."""

    def process(self, record):
        """Do nothing."""


def range_rows(topic, partition, offsets, keys, values, times, headers):
    arrays = [pa.array(column, pa.binary()) for column in (keys, values)]
    return RangeRows(topic, partition, np.array(offsets), *arrays, np.array(times), headers)


class ShuffleFiles:
    """A reader of ranges whose records are all alike."""

    def __init__(self, size=10):
        self.size = size
        self.reads = 0

    def read(self, ranges, most_bytes):
        self.reads += 1
        if self.size * sum(end - start for _, _, start, end in ranges) > most_bytes:
            return None
        return [
            range_rows(topic, partition, list(range(start, end)), *[[b"k"] * (end - start)] * 2, *rest(end - start))
            for topic, partition, start, end in ranges
        ]


def rest(count):
    return [1] * count, [()] * count


ORDERS = EpochRequest(1, "1.x", "life", (), {}, [], ("a", "b"), {}, [], {}, {}, [])


def shards_in(part):
    _, rows = part
    return pa.ipc.open_stream(rows).read_all()["shard"].to_pylist() if rows else []


def count_of(parts):
    return sum(len(shards_in(part)) for part in parts)


def report(records, work, size=0):
    return TaskReport(0, 0, records=records, size=size, spent={"read": 10**9, "operators": work})


def test_an_epoch_of_few_records_is_inline_and_one_of_many_is_not(stage):
    epochs = InlineEpochs(stage, ShuffleFiles(), 100)
    assert count_of(epochs.write(ORDERS, [Range("a", 0, 5, 65), Range("b", 1, 0, 40)])) == 100
    assert epochs.write(ORDERS, [Range("a", 0, 5, 65), Range("b", 1, 0, 41)]) is None


def test_an_epoch_without_input_is_inline_and_empty(stage):
    assert InlineEpochs(stage, ShuffleFiles(), 100).write(ORDERS, []) == [(0, b""), (1, b"")]


def test_an_inline_epoch_has_a_part_for_each_lane_with_the_rows_of_its_shards(stage):
    rows = [range_rows("a", 0, list(range(50)), [b"k%d" % n for n in range(50)], [b"v"] * 50, *rest(50))]
    parts = parts_of(stage, [raw_batch(found, ("a", "b"), stage) for found in rows])
    assert [lane for lane, _ in parts] == [0, 1]
    shards = [shards_in(part) for part in parts]
    assert [{shard % 2 for shard in mine} for mine in shards] == [{0}, {1}]
    assert sum(map(len, shards)) == 50


def test_an_inline_epoch_is_one_part_where_lanes_need_something_of_each_other():
    timed, rekeyed, stateless = StreamsBuilder(), StreamsBuilder(), StreamsBuilder()
    timed.stream("a").group_by_key().windowed_by(TimeWindows(10)).count(store="counts")
    rekeyed.stream("a").group_by(lambda key, value: value).count(store="counts")
    stateless.stream("a").to("out")
    for builder in (timed, rekeyed, stateless):
        assert parts_of(stage_of(builder), []) == [(None, b"")]


def test_no_epoch_is_inline_if_their_limit_is_zero(stage):
    epochs = InlineEpochs(stage, ShuffleFiles(), 0)
    assert epochs.write(ORDERS, []) is None
    assert epochs.write(ORDERS, [Range("a", 0, 0, 1)]) is None


def test_large_records_are_not_inline_and_are_not_read_again_to_find_out(stage):
    shelf = ShuffleFiles(size=MOST_BYTES // 10)
    epochs = InlineEpochs(stage, shelf, 100)
    assert epochs.write(ORDERS, [Range("a", 0, 0, 50)]) is None
    epochs.learn([report(50, work=10, size=50 * shelf.size)])
    assert epochs.write(ORDERS, [Range("a", 0, 0, 50)]) is None
    assert shelf.reads == 1
    assert epochs.write(ORDERS, [Range("a", 0, 0, 5)]) is not None


def test_records_that_cost_much_are_left_to_several_cores(stage):
    epochs = InlineEpochs(stage, ShuffleFiles(), 10_000)
    epochs.learn([report(TELLING, work=TELLING * 100)])
    most = MOST_WORK_US // 100
    assert epochs.write(ORDERS, [Range("a", 0, 0, most)]) is not None
    assert epochs.write(ORDERS, [Range("a", 0, 0, most + 1)]) is None


def test_an_epoch_that_something_else_has_held_up_tells_little_of_its_records(stage):
    epochs = InlineEpochs(stage, ShuffleFiles(), MOST_WORK_US)
    epochs.learn([report(TELLING, work=TELLING * 10)])
    epochs.learn([report(TELLING, work=TELLING * 1000)])
    assert epochs.write(ORDERS, [Range("a", 0, 0, MOST_WORK_US // 20)]) is not None
    for _ in range(10):
        epochs.learn([report(TELLING, work=TELLING * 1000)])
    assert epochs.write(ORDERS, [Range("a", 0, 0, MOST_WORK_US // 1000 + 1)]) is None


def test_what_a_first_epoch_costs_is_not_taken_for_the_cost_of_its_record(stage):
    epochs = InlineEpochs(stage, ShuffleFiles(), 10_000)
    epochs.learn([report(1, work=MOST_WORK_US - 1)])
    assert epochs.write(ORDERS, [Range("a", 0, 0, 9000)]) is not None
    epochs.learn([report(1, work=MOST_WORK_US + 1)])
    assert epochs.write(ORDERS, [Range("a", 0, 0, 10)]) is None
    epochs.learn([report(10, work=5000)])
    assert epochs.write(ORDERS, [Range("a", 0, 0, 100)]) is not None


def test_a_raw_row_is_what_sparks_source_makes_of_a_record(stage):
    rows = [
        range_rows("a", 3, [7], [b"key"], [b"value"], [99], [(("h", b"1"), ("n", None))]),
        range_rows("b", 18, [8, 9], [None, b""], [None, b""], [1, 2], [(), ()]),
    ]
    batch = pa.concat_batches([raw_batch(found, ("a", "b"), stage) for found in rows])
    assert batch.schema == RAW_SCHEMA
    columns = batch.to_pydict()
    assert columns["shard"] == [shard_of(b"key", 16), 2, shard_of(b"", 16)]
    assert columns["place"] == [3, PARTITIONS + 18, PARTITIONS + 18]
    assert [columns[name] for name in ("offset", "key", "value", "timestamp")] == [
        [7, 8, 9],
        [b"key", None, b""],
        [b"value", None, b""],
        [99, 1, 2],
    ]
    assert raw_headers(batch["headers"]) == [(("h", b"1"), ("n", None)), (), ()]


def test_the_records_of_a_shared_store_go_to_one_shard():
    builder = StreamsBuilder()
    builder.add_state_store(Stores.shared("all", key=Serdes.string, value=Serdes.string))
    builder.stream("a").process(Nothing, stores=["all"])
    builder.stream("b").to("out")
    stage = stage_of(builder)
    assert stage.one_shard_topics(("a", "b")) == {"a"}
    rows = [range_rows(topic, 5, [0], [b"key"], [b"v"], [1], [()]) for topic in ("a", "b")]
    shards = [raw_batch(found, ("a", "b"), stage)["shard"].to_pylist() for found in rows]
    assert shards == [[0], [shard_of(b"key", 16)]]
