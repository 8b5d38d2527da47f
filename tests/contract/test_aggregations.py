"""Groups and aggregations: store=, name=, key=, value=, what they hold and what they emit."""

from datetime import timedelta

import pytest

from penstock import Record, Serdes, SessionWindows, SlidingWindows, Stores, StreamsBuilder, TimeWindows, Windowed
from penstock.testing import TopologyTestDriver


def drive(builder, inputs, *, out="out", key=Serdes.string, value=Serdes.json, in_value=Serdes.json):
    """Pipe (topic, key, value, timestamp); return (key, value, timestamp) of the output."""
    with TopologyTestDriver(builder) as driver:
        for topic, k, v, t in inputs:
            driver.input_topic(topic, value=in_value).pipe(k, v, timestamp=t)
        return [(r.key, r.value, r.timestamp) for r in driver.output_topic(out, key=key, value=value).read_all()]


def test_the_word_count_of_the_contract():
    builder = StreamsBuilder()
    (
        builder.stream("lines", value=Serdes.string)
        .flat_map_values(str.split)
        .group_by(lambda _, word: word, value=Serdes.string)
        .count(store="counts")
        .to_stream()
        .to("word-counts", value=Serdes.int64)
    )
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("lines", value=Serdes.string).pipe(None, "to be or not to be", timestamp=3)
        out = driver.output_topic("word-counts", value=Serdes.int64)
        assert out.read() == Record("to", 1, 3)
        assert out.read_table() == {"be": 2, "or": 1, "not": 1, "to": 2}
        assert driver.store("counts").get("to") == 2
        assert driver.store("counts").get("nothing") is None
        assert dict(driver.store("counts").all()) == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_a_count_goes_on_as_int64_without_being_told():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count().to_stream().to("out")
    assert drive(builder, [("in", "a", 1, 0)], value=Serdes.int64) == [("a", 1, 0)]


def test_null_keys_and_values_are_not_counted():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(store="c").to_stream().to("out")
    rows = [("in", None, 1, 0), ("in", "a", None, 1), ("in", "a", 2, 2)]
    assert drive(builder, rows, value=Serdes.int64) == [("a", 1, 2)]


def test_reduce_and_aggregate():
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    grouped.reduce(lambda agg, value: agg + value, store="sum").to_stream().to("sums")
    grouped.aggregate(list, lambda key, value, agg: [*agg, [key, value]], store="all").to_stream().to("lists")
    with TopologyTestDriver(builder) as driver:
        source = driver.input_topic("in")
        source.pipe_all([("a", 1), ("a", 2), ("b", 5)], start=10, step=5)
        assert driver.output_topic("sums").read_table() == {"a": 3, "b": 5}
        assert driver.output_topic("lists").read_table() == {"a": [["a", 1], ["a", 2]], "b": [["b", 5]]}
        assert driver.store("sum").get("a") == 3
        assert driver.store("all").get("b") == [["b", 5]]


def test_an_aggregate_that_becomes_none_deletes_the_row():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().aggregate(
        lambda: 0, lambda k, v, agg: None if v == "x" else agg + v, store="s"
    ).to_stream().to("out")
    rows = [("in", "a", 1, 0), ("in", "a", "x", 1), ("in", "a", 5, 2)]
    assert drive(builder, rows) == [("a", 1, 0), ("a", None, 1), ("a", 5, 2)]


def test_what_a_function_does_to_an_aggregate_in_place_is_what_it_returns():
    def add(key, value, agg):
        agg[value] = agg.get(value, 0) + 1
        return agg

    builder = StreamsBuilder()
    builder.stream("in").group_by_key().aggregate(dict, add, store="s").to_stream().to("out")
    assert drive(builder, [("in", "a", "x", 0), ("in", "b", "x", 1), ("in", "a", "x", 2)]) == [
        ("a", {"x": 1}, 0),
        ("b", {"x": 1}, 1),
        ("a", {"x": 2}, 2),
    ]


def test_a_mutable_initial_value_is_not_shared_between_keys():
    def add(key, value, agg):
        agg[key] = value
        return agg

    builder = StreamsBuilder()
    builder.stream("in").group_by_key().aggregate(dict, add, store="s").to_stream().to("out")
    assert drive(builder, [("in", "a", 1, 0), ("in", "b", 2, 1)]) == [("a", {"a": 1}, 0), ("b", {"b": 2}, 1)]


def test_what_is_changed_after_the_aggregation_does_not_reach_the_store():
    def spoil(key, value):
        value["spoilt"] = True

    builder = StreamsBuilder()
    table = builder.stream("in").group_by_key().aggregate(dict, lambda k, v, agg: {**agg, "n": v}, store="s")
    table.to_stream().peek(spoil).to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1)
        assert driver.store("s").get("a") == {"n": 1}


def test_what_was_read_from_a_store_and_changed_is_not_stored_unless_it_is_put():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().aggregate(dict, lambda k, v, agg: {**agg, "n": v}, store="s")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1)
        driver.store("s").get("a")["n"] = 99
        assert driver.store("s").get("a") == {"n": 1}


def test_an_aggregator_that_fails_half_way_leaves_the_store_as_it_was():
    def add(key, value, agg):
        agg.append(value)
        if value == 2:
            raise ValueError("two")
        return agg

    builder = StreamsBuilder()
    builder.stream("in").group_by_key().aggregate(list, add, store="s").to_stream().to("out")
    with TopologyTestDriver(builder, config={"on_processing_error": "skip"}) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("a", 2), ("a", 3)], start=0, step=1)
        assert driver.output_topic("out").read_values() == [[1], [1, 3]]
        assert driver.store("s").get("a") == [1, 3]


@pytest.mark.parametrize("auto_commit", [True, False])
def test_an_aggregator_that_fails_half_way_inside_an_epoch(auto_commit):
    def add(key, value, agg):
        agg.append(value)
        if value == 2:
            raise ValueError("two")
        return agg

    builder = StreamsBuilder()
    builder.stream("in").group_by_key().aggregate(list, add, store="s").to_stream().to("out")
    with TopologyTestDriver(builder, config={"on_processing_error": "skip"}, auto_commit=auto_commit) as driver:
        driver.input_topic("in").pipe_all([("a", 1), ("a", 2), ("a", 3)], start=0, step=1)
        driver.commit()
        assert driver.output_topic("out").read_values()[-1] == [1, 3]
        assert driver.store("s").get("a") == [1, 3]


def test_serdes_of_an_aggregation_are_those_given():
    builder = StreamsBuilder()
    (
        builder.stream("in", key=Serdes.int64, value=Serdes.float64)
        .group_by(lambda k, v: int(v), key=Serdes.int32, value=Serdes.float64)
        .aggregate(lambda: 0, lambda k, v, agg: agg + 1, store="s", name="agg", key=Serdes.int32, value=Serdes.int32)
        .to_stream()
        .to("out")
    )
    assert "Processor: agg " in builder.build().describe()
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in", key=Serdes.int64, value=Serdes.float64).pipe(1, 2.5)
        assert driver.output_topic("out", key=Serdes.int32, value=Serdes.int32).read_table() == {2: 1}


def test_a_store_spec_is_as_good_as_a_name():
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    grouped.count(store=Stores.key_value("plain", persistent=False, cached=False, logged=False))
    grouped.count(store=Stores.lru("few", max_entries=2))
    with TopologyTestDriver(builder, shards=1) as driver:  # a shard keeps so many
        driver.input_topic("in").pipe_all([("a", 1), ("b", 1), ("c", 1), ("a", 1)], start=0, step=1)
        assert driver.store("plain").get("a") == 2
        assert driver.store("few").get("a") == 1
        assert driver.store("few").get("b") is None
        assert not any(topic.endswith("plain-changelog") for topic in driver.topics())
        assert any(topic.endswith("few-changelog") for topic in driver.topics())


def test_a_table_grouped_again_adds_and_subtracts():
    builder = StreamsBuilder()
    table = builder.table("in")
    grouped = table.group_by(lambda k, v: (v["team"], v["points"]), key=Serdes.string, value=Serdes.json)
    grouped.count(store="n").to_stream().to("n")
    grouped.reduce(lambda agg, v: agg + v, lambda agg, v: agg - v, store="sum")
    grouped.aggregate(list, lambda k, v, agg: [*agg, v], lambda k, v, agg: [x for x in agg if x != v], store="all")
    with TopologyTestDriver(builder) as driver:
        source = driver.input_topic("in")
        source.pipe("ann", {"team": "red", "points": 1})
        source.pipe("bob", {"team": "red", "points": 2})
        source.pipe("ann", {"team": "blue", "points": 5})
        source.pipe("bob", None)
        assert driver.store("n").get("red") == 0
        assert driver.store("n").get("blue") == 1
        assert driver.store("sum").get("red") == 0
        assert driver.store("sum").get("blue") == 5
        assert driver.store("all").get("red") == []
        assert driver.store("all").get("blue") == [5]


def test_cogroup_folds_several_streams_into_one_table():
    builder = StreamsBuilder()
    clicks = builder.stream("clicks").group_by_key()
    orders = builder.stream("orders").group_by_key()
    (
        clicks.cogroup(lambda key, value, agg: {**agg, "clicks": agg.get("clicks", 0) + 1})
        .cogroup(orders, lambda key, value, agg: {**agg, "spent": agg.get("spent", 0) + value})
        .aggregate(dict, store="customers", name="co", key=Serdes.string, value=Serdes.json)
        .to_stream()
        .to("out")
    )
    rows = [("clicks", "a", 1, 0), ("orders", "a", 30, 1), ("orders", "a", 5, 2)]
    assert drive(builder, rows)[-1] == ("a", {"clicks": 1, "spent": 35}, 2)


def test_cogroup_in_windows_and_sessions():
    builder = StreamsBuilder()
    one, two = builder.stream("one").group_by_key(), builder.stream("two").group_by_key()

    def add(key, value, agg):
        return agg + value

    both = one.cogroup(add).cogroup(two, add)
    both.windowed_by(TimeWindows(10)).aggregate(lambda: 0, store="t").to_stream(
        key=lambda w, v: f"{w.key}{w.start}"
    ).to("time")
    both.windowed_by(SlidingWindows(10)).aggregate(lambda: 0, store="sl")
    both.windowed_by(SessionWindows(10)).aggregate(
        lambda: 0, merger=lambda key, a, b: a + b, store="se"
    ).to_stream().to("session", key=Serdes.session_windowed(Serdes.string))
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("one").pipe("a", 1, timestamp=1)
        driver.input_topic("two").pipe("a", 10, timestamp=8)
        driver.input_topic("two").pipe("a", 100, timestamp=18)
        assert driver.output_topic("time").read_table() == {"a0": 11, "a10": 100}
        sessions = driver.output_topic("session", key=Serdes.session_windowed(Serdes.string)).read_table()
        assert sessions == {Windowed("a", 1, 18): 111}


def test_windows_key_by_window_and_are_read_with_a_windowed_serde():
    builder = StreamsBuilder()
    (
        builder.stream("in")
        .group_by_key()
        .windowed_by(TimeWindows(timedelta(seconds=10), grace=timedelta(seconds=5)))
        .count(store="w")
        .to_stream()
        .to("out", key=Serdes.windowed(Serdes.string, 10_000), value=Serdes.int64)
    )
    with TopologyTestDriver(builder) as driver:
        source = driver.input_topic("in")
        for t in (0, 9_999, 10_000, 14_999, 3_000, 15_000, 3_000):
            source.pipe("a", 1, timestamp=t)
        out = driver.output_topic("out", key=Serdes.windowed(Serdes.string, 10_000), value=Serdes.int64)
        records = out.read_all()
        assert [(r.key, r.value) for r in records] == [
            (Windowed("a", 0, 10_000), 1),
            (Windowed("a", 0, 10_000), 2),
            (Windowed("a", 10_000, 20_000), 1),
            (Windowed("a", 10_000, 20_000), 2),
            (Windowed("a", 0, 10_000), 3),
            (Windowed("a", 10_000, 20_000), 3),
        ]
        assert (records[0].key.key, records[0].key.start, records[0].key.end) == ("a", 0, 10_000)
        assert str(records[0].key) == "[a@0/10000]"
        assert driver.store("w").fetch("a", 0) == 3
        assert driver.metrics()["dropped_records"] == 1


def test_a_windowed_table_goes_to_a_topic_without_any_serde():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().windowed_by(TimeWindows(10)).count().to_stream().to("out")
    rows = [("in", "a", 1, 12)]
    assert drive(builder, rows, key=Serdes.windowed(Serdes.string, 10), value=Serdes.int64) == [
        (Windowed("a", 10, 20), 1, 12)
    ]


def test_session_aggregate_needs_a_merger():
    builder = StreamsBuilder()
    with pytest.raises(Exception, match="merger"):
        builder.stream("in").group_by_key().windowed_by(SessionWindows(10)).aggregate(lambda: 0, lambda k, v, a: a)


def test_sessions_merge_and_the_parts_are_deleted():
    builder = StreamsBuilder()
    (
        builder.stream("in")
        .group_by_key()
        .windowed_by(SessionWindows(10))
        .aggregate(lambda: 0, lambda k, v, agg: agg + v, merger=lambda k, a, b: a + b, store="s")
        .to_stream()
        .to("out")
    )
    rows = [("in", "a", 1, 0), ("in", "a", 2, 15), ("in", "a", 4, 8)]
    assert drive(builder, rows, key=Serdes.session_windowed(Serdes.string)) == [
        (Windowed("a", 0, 0), 1, 0),
        (Windowed("a", 15, 15), 2, 15),
        (Windowed("a", 0, 0), None, 0),
        (Windowed("a", 15, 15), None, 15),
        (Windowed("a", 0, 15), 7, 15),
    ]
