"""KTable: rows, views, and what the test driver reads of them."""

import pytest

from penstock import Processor, Record, Serdes, Stores, StreamsBuilder, ValueAndTimestamp, ValueTransformer
from penstock.testing import TopologyTestDriver


def test_filter_turns_rows_that_do_not_pass_into_deletes():
    builder = StreamsBuilder()
    table = builder.table("in")
    table.filter(lambda k, v: v > 1, store="big", name="keep").to_stream().to("big")
    table.filter_not(lambda k, v: v > 1, store="small").to_stream().to("small")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("a", 2), ("a", None), (None, 5)], start=0, step=1)
        assert driver.output_topic("big").read_values() == [2, None]
        assert driver.output_topic("small").read_values() == [1, None]
        assert driver.store("big").get("a") is None


def test_map_values_with_and_without_the_key():
    builder = StreamsBuilder()
    table = builder.table("in", store="rows")
    plain = table.map_values(lambda v: v * 2, store="twice")
    keyed = table.map_values(lambda k, v: f"{k}{v}", with_key=True, store="keyed", name="with-key")
    assert plain.queryable_store_name == "twice"
    assert keyed.queryable_store_name == "keyed"
    assert table.queryable_store_name == "rows"
    assert table.map_values(lambda v: v).queryable_store_name is None
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 3)
        assert driver.store("twice").get("a") == 6
        assert driver.store("keyed").get("a") == "a3"
        assert driver.store("rows").get("a") == 3


def test_a_global_table_has_a_store_name_too():
    builder = StreamsBuilder()
    assert builder.global_table("g", store="world").queryable_store_name == "world"


class Shout(ValueTransformer):
    def init(self, context):
        self.seen = context.store("seen")

    def transform(self, key, value):
        self.seen.put(key, value)
        return None if value is None else value.upper()


def test_transform_values_with_a_store():
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("seen", value=Serdes.string))
    table = builder.table("in", value=Serdes.string)
    table.transform_values(Shout, stores=["seen"], store="loud", name="shout").to_stream().to(
        "out", value=Serdes.string
    )
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in", value=Serdes.string).pipe("a", "x")
        assert driver.output_topic("out", value=Serdes.string).read_values() == ["X"]
        assert driver.store("seen").get("a") == "x"
        assert driver.store("loud").get("a") == "X"


def test_to_stream_with_a_new_key():
    builder = StreamsBuilder()
    builder.table("in").to_stream(key=lambda k, v: v["id"]).to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", {"id": "x"})
        assert driver.output_topic("out").read().key == "x"


def test_a_table_from_a_table_topic_with_options():
    builder = StreamsBuilder()
    builder.table(
        "in",
        key=Serdes.int32,
        value=Serdes.float64,
        timestamp=lambda record, partition_time: int(record.value),
        offset_reset="earliest",
        store=Stores.key_value("rows", persistent=False),
        name="rows-source",
    ).to_stream().to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in", key=Serdes.int32, value=Serdes.float64).pipe(1, 42.5, timestamp=7)
        assert driver.output_topic("out", key=Serdes.int32, value=Serdes.float64).read() == Record(1, 42.5, 42)


def test_a_table_is_read_by_a_processor_as_value_and_timestamp():
    seen = []

    class Look(Processor):
        def process(self, record):
            seen.append(self.context.store("rows").get(record.key))

    builder = StreamsBuilder()
    builder.table("in", store="rows")
    builder.stream("asks").process(Look, stores=["rows"])
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 3, timestamp=5)
        driver.input_topic("asks").pipe("a", 0)
    assert seen == [ValueAndTimestamp(3, 5)]


@pytest.mark.parametrize(
    "optimize", [(), ("reuse_ktable_source_topics",), ("merge_repartition_topics",), ("single_store_self_join",), "all"]
)
def test_optimisations_by_name(optimize):
    builder = StreamsBuilder()
    builder.table("in", store="rows").to_stream().to("out")
    topology = builder.build(optimize=optimize)
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("in").pipe("a", 1)
        assert driver.output_topic("out").read_values() == [1]
        changelogs = [topic for topic in driver.topics() if topic.endswith("rows-changelog")]
        assert bool(changelogs) == (optimize not in ("all", ("reuse_ktable_source_topics",)))
