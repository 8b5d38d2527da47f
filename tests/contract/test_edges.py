"""Edges a reader of the contract would try: mixtures of operators, late records, deletes, many keys, odd data."""

from datetime import timedelta

import pytest

from penstock import (
    Buffer,
    EmitStrategy,
    JoinWindows,
    Processor,
    PunctuationType,
    Record,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimestampExtractor,
    TimeWindows,
    Windowed,
)
from penstock.testing import TopologyTestDriver


def drive(builder, rows, out="out", **options):
    with TopologyTestDriver(builder, **options) as driver:
        for topic, k, v, t in rows:
            driver.input_topic(topic).pipe(k, v, timestamp=t)
        return [(r.key, r.value, r.timestamp) for r in driver.output_topic(out).read_all()]


def test_a_windowed_count_drops_what_is_late_and_keeps_what_is_in_grace():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().windowed_by(TimeWindows(10, grace=5)).count().to_stream(
        key=lambda w, v: f"{w.start}"
    ).to("out")
    rows = [("in", "a", 1, 1), ("in", "a", 1, 14), ("in", "a", 1, 2), ("in", "a", 1, 15), ("in", "a", 1, 3)]
    assert drive(builder, rows) == [("0", 1, 1), ("10", 1, 14), ("0", 2, 2), ("10", 2, 15)]


def test_a_late_record_of_another_key_is_late_too():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().windowed_by(TimeWindows(10)).count(store="w")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1, timestamp=100)
        driver.input_topic("in").pipe("b", 1, timestamp=50)
        assert list(driver.store("w").all()) == [(Windowed("a", 100, 110), 1)]
        assert driver.metrics()["dropped_records"] == 1


def test_emit_on_close_of_sliding_and_session_windows():
    for windows, expected in ((SlidingWindows(5), [("0/5", 1)]), (SessionWindows(5), [("3/3", 1)])):
        builder = StreamsBuilder()
        table = builder.stream("in").group_by_key().windowed_by(windows).emit(EmitStrategy.on_window_close).count()
        table.to_stream(key=lambda w, v: f"{w.start}/{w.end}").to("out")
        rows = [("in", "a", 1, 3), ("in", "b", 1, 20)]
        assert [(k, v) for k, v, _ in drive(builder, rows)] == expected


def test_final_results_of_sessions():
    builder = StreamsBuilder()
    table = builder.stream("in").group_by_key().windowed_by(SessionWindows(10, grace=0)).count(store="s")
    table.suppress(Suppressed.until_window_closes(Buffer.max_records(100).shut_down_when_full())).to_stream().to("out")
    with TopologyTestDriver(builder) as driver:
        for t in (0, 5, 30, 80):
            driver.input_topic("in").pipe("a", 1, timestamp=t)
        assert [(r.key, r.value) for r in driver.output_topic("out").read_all()] == [
            (Windowed("a", 0, 5), 2),
            (Windowed("a", 30, 30), 1),
        ]


def test_a_stream_is_counted_by_two_keys_at_once():
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.group_by(lambda k, v: v["colour"]).count(store="colours")
    stream.group_by(lambda k, v: v["size"], name="sizes").count(store="sizes")
    with TopologyTestDriver(builder, lanes=3, partitions=2) as driver:
        for index, (colour, size) in enumerate([("red", "s"), ("blue", "s"), ("red", "m")]):
            driver.input_topic("in").pipe(str(index), {"colour": colour, "size": size}, partition=index % 2)
        assert dict(driver.store("colours").all()) == {"red": 2, "blue": 1}
        assert dict(driver.store("sizes").all()) == {"s": 2, "m": 1}


def test_a_table_is_joined_with_what_is_counted_from_a_stream():
    builder = StreamsBuilder()
    users = builder.table("users")
    counts = builder.stream("clicks").group_by_key().count()
    users.left_join(counts, lambda user, count: [user, count or 0], store="joined").to_stream().to("out")
    rows = [("users", "a", "Ann", 0), ("clicks", "a", 1, 1), ("clicks", "a", 1, 2), ("users", "a", None, 3)]
    assert [v for _, v, _ in drive(builder, rows)] == [["Ann", 0], ["Ann", 1], ["Ann", 2], None]


def test_joins_in_a_row():
    builder = StreamsBuilder()
    stream = builder.stream("orders").join(builder.table("users"), lambda o, u: {**o, "user": u})
    stream = stream.left_join(
        builder.global_table("cities"), lambda o, c: {**o, "city": c}, select=lambda k, v: v["user"]["city"]
    )
    stream.to("out")
    rows = [("users", "a", {"city": "x"}, 0), ("cities", "x", "Xanten", 1), ("orders", "a", {"n": 1}, 2)]
    assert drive(builder, rows) == [("a", {"n": 1, "user": {"city": "x"}, "city": "Xanten"}, 2)]


def test_a_re_keyed_stream_joins_after_a_repartition():
    builder = StreamsBuilder()
    orders = builder.stream("orders").select_key(lambda k, v: v["user"])
    orders.join(builder.table("users"), lambda o, u: [o["n"], u]).to("out")
    assert "repartition" in builder.build().describe()
    rows = [("users", "ann", "Ann", 0), ("orders", "1", {"user": "ann", "n": 7}, 1)]
    assert drive(builder, rows, lanes=2) == [("ann", [7, "Ann"], 1)]


def test_asymmetric_join_windows():
    builder = StreamsBuilder()
    builder.stream("left").join(
        builder.stream("right"), lambda a, b: [a, b], window=JoinWindows(0, before=5, after=10)
    ).to("out")
    rows = [
        ("left", "a", "L", 100),
        ("right", "a", 94, 94),
        ("right", "a", 95, 95),
        ("right", "a", 110, 110),
        ("right", "a", 111, 111),
    ]
    assert [v for _, v, _ in drive(builder, rows)] == [["L", 95], ["L", 110]]


def test_tombstones_flow_to_the_end():
    builder = StreamsBuilder()
    table = builder.table("in").filter(lambda k, v: v["on"]).map_values(lambda v: v["n"])
    table.to_stream().to("out")
    rows = [("in", "a", {"on": True, "n": 1}, 0), ("in", "a", {"on": False, "n": 2}, 1), ("in", "a", None, 2)]
    assert drive(builder, rows)[:2] == [("a", 1, 0), ("a", None, 1)]


@pytest.mark.parametrize("value", [0, "", False, [], {}, 0.0])
def test_empty_values_are_values(value):
    builder = StreamsBuilder()
    builder.stream("in").to_table(store="t").to_stream().to("out")
    builder.stream("in").group_by_key().aggregate(lambda: None, lambda k, v, a: v, store="last")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", value)
        assert driver.output_topic("out").read_table() == {"a": value}
        assert driver.store("t").get("a") == value
        assert driver.store("last").get("a") == value


def test_an_empty_key_is_a_key():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(store="n")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("", 1)
        assert driver.store("n").get("") == 1


def test_unicode_and_long_keys():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(store="n")
    keys = ["ключ", "键", "🔑", "k" * 5_000]
    with TopologyTestDriver(builder, lanes=2) as driver:
        for key in keys:
            driver.input_topic("in").pipe(key, 1)
        assert {key for key, _ in driver.store("n").all()} == set(keys)


def test_timestamp_extractors():
    for extractor, expected in (
        (lambda record, partition_time: record.value["at"], [5, 3]),
        (lambda record, partition_time: max(partition_time, record.value["at"]), [5, 5]),
        (TimestampExtractor.wall_clock, [1000, 1000]),
    ):
        builder = StreamsBuilder()
        builder.stream("in", timestamp=extractor).to("out")
        with TopologyTestDriver(builder, start=1000) as driver:
            driver.input_topic("in").pipe("a", {"at": 5}, timestamp=1)
            driver.input_topic("in").pipe("a", {"at": 3}, timestamp=2)
            assert [r.timestamp for r in driver.output_topic("out").read_all()] == expected


def test_a_negative_timestamp_drops_the_record():
    builder = StreamsBuilder()
    builder.stream("in", timestamp=lambda record, partition_time: -1).to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1)
        assert driver.output_topic("out").read() is None
        assert driver.metrics()["dropped_records"] == 1


def test_wall_clock_punctuators_flush_what_a_processor_collected():
    class Batch(Processor):
        def init(self, context):
            self.context = context
            self.batch = context.store("batch")
            context.schedule(timedelta(seconds=1), PunctuationType.WALL_CLOCK_TIME, self.flush)

        def process(self, record):
            self.batch.merge(record.key, [record.value], lambda old, new: old + new)

        def flush(self, now):
            assert self.context.record_metadata is None
            for key, values in self.batch.all():
                self.context.forward(Record(key, values, now))
                self.batch.delete(key)

    builder = StreamsBuilder()
    builder.stream("in").process(Batch, stores=[Stores.key_value("batch")]).to("out")
    with TopologyTestDriver(builder) as driver:
        source = driver.input_topic("in")
        source.pipe_all([("a", 1), ("b", 2), ("a", 3)], start=0, step=1)
        assert driver.output_topic("out").read() is None
        driver.advance_wall_clock(1_000)
        assert driver.output_topic("out").read_table() == {"a": [1, 3], "b": [2]}
        driver.advance_wall_clock(1_000)
        assert driver.output_topic("out").read() is None
        assert dict(driver.store("batch").all()) == {}


def test_rows_of_a_table_expire():
    builder = StreamsBuilder()
    builder.table("in", store=Stores.key_value("rows", ttl=10)).to_stream().to("out")
    with TopologyTestDriver(builder, shards=1) as driver:
        driver.input_topic("in").pipe("a", 1, timestamp=0)
        driver.input_topic("in").pipe("b", 2, timestamp=5)
        driver.input_topic("in").pipe("c", 3, timestamp=12)
        assert driver.store("rows").get("a") is None
        assert dict(driver.store("rows").all()) == {"b": 2, "c": 3}
        assert driver.output_topic("out").read_table() == {"b": 2, "c": 3}


def test_deduplicate_is_per_key_and_survives_disorder():
    builder = StreamsBuilder()
    builder.stream("in").deduplicate(by=lambda k, v: v, within=timedelta(milliseconds=10)).to("out")
    rows = [
        ("in", "a", "x", 20),
        ("in", "b", "x", 20),
        ("in", "a", "x", 12),
        ("in", "a", "x", 5),
        ("in", "a", "x", 31),
        ("in", None, "x", 31),
    ]
    assert [(k, t) for k, _, t in drive(builder, rows) if k is not None] == [("a", 20), ("b", 20), ("a", 5), ("a", 31)]


def test_changes_of_a_processor_reach_all_children_in_order():
    class Fork(Processor):
        def process(self, record):
            self.context.forward(record.with_value(1))
            self.context.forward(record.with_value(2))

    builder = StreamsBuilder()
    forked = builder.stream("in").process(Fork)
    seen: list = []
    forked.foreach(lambda k, v: seen.append(("one", v)))
    forked.foreach(lambda k, v: seen.append(("two", v)))
    drive(builder, [("in", "a", 0, 0)])
    assert seen == [("one", 1), ("two", 1), ("one", 2), ("two", 2)]


def test_results_that_are_no_json_say_so():
    builder = StreamsBuilder()
    builder.stream("in").map_values(lambda v: {1, 2}).to("out")
    with pytest.raises(Exception, match=r"(?s)out.*json.*value="):
        drive(builder, [("in", "a", 1, 0)])


def test_keys_that_are_not_text_say_so_at_the_repartition():
    builder = StreamsBuilder()
    builder.stream("in").group_by(lambda k, v: v).count()
    with pytest.raises(Exception, match=r"(?s)key=") as caught:
        drive(builder, [("in", "a", 1, 0)])
    assert "Serdes.string" in str(caught.value)
