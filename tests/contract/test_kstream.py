"""The stateless operators of KStream as the contract says them."""

import re

import pytest

from penstock import Record, Serdes, StreamsBuilder
from penstock.testing import TopologyTestDriver


def run(define, pairs, *, value=Serdes.json, out="out", out_key=Serdes.string, out_value=Serdes.json):
    builder = StreamsBuilder()
    define(builder)
    with TopologyTestDriver(builder) as driver:
        source = driver.input_topic("in", value=value)
        for index, (k, v) in enumerate(pairs):
            source.pipe(k, v, timestamp=index)
        return [(r.key, r.value) for r in driver.output_topic(out, key=out_key, value=out_value).read_all()]


def test_a_stream_goes_through_as_strings_and_json():
    assert run(lambda b: b.stream("in").to("out"), [("a", {"x": [1, None, "é"]}), ("b", 2.5)]) == [
        ("a", {"x": [1, None, "é"]}),
        ("b", 2.5),
    ]


def test_null_keys_and_null_values_pass():
    assert run(lambda b: b.stream("in").to("out"), [(None, 1), ("a", None), (None, None)]) == [
        (None, 1),
        ("a", None),
        (None, None),
    ]


def test_filter_and_filter_not():
    pairs = [("a", 1), ("b", 2), ("a", 3)]
    assert run(lambda b: b.stream("in").filter(lambda k, v: k == "a").to("out"), pairs) == [("a", 1), ("a", 3)]
    assert run(lambda b: b.stream("in").filter_not(lambda k, v: k == "a").to("out"), pairs) == [("b", 2)]


def test_select_key_map_and_map_values():
    pairs = [("a", 1), ("b", 2)]
    assert run(lambda b: b.stream("in").select_key(lambda k, v: f"{k}{v}").to("out"), pairs) == [("a1", 1), ("b2", 2)]
    assert run(lambda b: b.stream("in").map(lambda k, v: (k.upper(), v * 10)).to("out"), pairs) == [
        ("A", 10),
        ("B", 20),
    ]
    assert run(lambda b: b.stream("in").map_values(lambda v: v + 1).to("out"), pairs) == [("a", 2), ("b", 3)]
    assert run(lambda b: b.stream("in").map_values(lambda k, v: f"{k}{v}", with_key=True).to("out"), pairs) == [
        ("a", "a1"),
        ("b", "b2"),
    ]


def test_flat_map_and_flat_map_values():
    pairs = [("a", 2), ("b", 0)]
    assert run(lambda b: b.stream("in").flat_map(lambda k, v: [(f"{k}{i}", i) for i in range(v)]).to("out"), pairs) == [
        ("a0", 0),
        ("a1", 1),
    ]
    assert run(lambda b: b.stream("in").flat_map_values(range).to("out"), pairs) == [("a", 0), ("a", 1)]
    assert run(
        lambda b: b.stream("in").flat_map_values(lambda k, v: (k for _ in range(v)), with_key=True).to("out"), pairs
    ) == [
        ("a", "a"),
        ("a", "a"),
    ]


def test_builtins_and_bound_methods_are_functions_too():
    assert run(
        lambda b: (
            b.stream("in", value=Serdes.string).flat_map_values(str.split).map_values(len).to("out", value=Serdes.int64)
        ),
        [("k", "to be or")],
        value=Serdes.string,
        out_value=Serdes.int64,
    ) == [("k", 2), ("k", 2), ("k", 2)]
    seen: list = []
    run(lambda b: b.stream("in").map_values(str).foreach(lambda k, v: seen.append((k, v))), [("a", 1)])
    assert seen == [("a", "1")]


def test_foreach_ends_and_peek_goes_on():
    seen: list = []
    builder = StreamsBuilder()
    assert builder.stream("in").foreach(lambda k, v: None) is None
    assert run(lambda b: b.stream("in").peek(lambda k, v: seen.append(v)).to("out"), [("a", 1)]) == [("a", 1)]
    assert seen == [1]


def test_print_writes_key_and_value_with_a_label(tmp_path, capsys):
    run(lambda b: b.stream("in").print(label="orders"), [("a", 1), ("b", {"x": 2})])
    assert capsys.readouterr().out.splitlines() == ["[orders]: a, 1", "[orders]: b, {'x': 2}"]
    path = tmp_path / "printed.txt"
    run(lambda b: b.stream("in").print(label="orders", file=str(path)), [("a", 1)])
    assert path.read_text() == "[orders]: a, 1\n"
    other = tmp_path / "other.txt"
    run(lambda b: b.stream("in").print(label="orders", file=other), [("a", 1)])
    assert other.read_text() == "[orders]: a, 1\n"


def test_print_without_a_label_uses_the_name_of_the_node(capsys):
    run(lambda b: b.stream("in").print(), [("a", 1)])
    assert capsys.readouterr().out == "[KSTREAM-SOURCE-0000000000]: a, 1\n"


def test_branches_are_named_as_in_kafka():
    builder = StreamsBuilder()
    branches = (
        builder.stream("in")
        .split(name="p-")
        .branch(lambda k, v: v > 10, name="big")
        .branch(lambda k, v: v > 5)
        .default()
    )
    assert list(branches) == ["p-big", "p-2", "p-0"]
    named = builder.stream("other").split(name="q-").branch(lambda k, v: True, name="x").default(name="rest")
    assert list(named) == ["q-x", "q-rest"]
    none = builder.stream("third").split().branch(lambda k, v: True).no_default()
    assert len(none) == 1
    assert re.fullmatch(r"KSTREAM-BRANCH-\d{10}1", next(iter(none)))


def test_the_first_branch_that_matches_takes_the_record():
    def define(b):
        branches = (
            b.stream("in")
            .split(name="s-")
            .branch(lambda k, v: v > 5, name="big")
            .branch(lambda k, v: v > 2, name="mid")
            .default(name="small")
        )
        for name, stream in branches.items():
            stream.map_values(lambda v, name=name: [name, v]).to("out")

    assert run(define, [("a", 9), ("a", 3), ("a", 1)]) == [
        ("a", ["s-big", 9]),
        ("a", ["s-mid", 3]),
        ("a", ["s-small", 1]),
    ]


def test_without_a_default_the_rest_is_dropped():
    def define(b):
        branches = b.stream("in").split(name="s-").branch(lambda k, v: v > 5, name="big").no_default()
        branches["s-big"].to("out")

    assert run(define, [("a", 9), ("a", 3)]) == [("a", 9)]


def test_merge_takes_both():
    builder = StreamsBuilder()
    builder.stream("one").merge(builder.stream("two")).to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("one").pipe("a", 1)
        driver.input_topic("two").pipe("a", 2)
        assert driver.output_topic("out").read_values() == [1, 2]


def test_several_topics_a_set_of_them_and_a_pattern():
    builder = StreamsBuilder()
    builder.stream(["one", "two"]).to("out")
    builder.stream(re.compile("orders-.*")).to("orders")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("two").pipe("a", 1)
        driver.input_topic("one").pipe("a", 2)
        driver.input_topic("orders-eu").pipe("a", 3)
        driver.input_topic("orders-us").pipe("a", 4)
        assert driver.output_topic("out").read_values() == [1, 2]
        assert driver.output_topic("orders").read_values() == [3, 4]


def test_to_a_topic_chosen_per_record():
    builder = StreamsBuilder()
    builder.stream("in").to(lambda key, value, context: f"{context.topic}-{key}")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1)
        driver.input_topic("in").pipe("b", 2)
        assert driver.output_topic("in-a").read_values() == [1]
        assert driver.output_topic("in-b").read_values() == [2]
        assert {"in-a", "in-b"} <= set(driver.topics())


def test_several_sinks_of_one_stream():
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.to("one")
    stream.map_values(str).to("two", value=Serdes.string)
    stream.to("one")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1)
        assert driver.output_topic("one").read_values() == [1, 1]
        assert driver.output_topic("two", value=Serdes.string).read_values() == ["1"]


def test_a_partitioner_returns_a_number_several_or_none():
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.to("one", partitioner=lambda topic, key, value, partitions: 2)
    stream.to("all", partitioner=lambda topic, key, value, partitions: range(partitions))
    stream.to("usual", partitioner=lambda topic, key, value, partitions: None)
    stream.to("nowhere", partitioner=lambda topic, key, value, partitions: [])
    with TopologyTestDriver(builder, partitions=3) as driver:
        driver.input_topic("in").pipe("a", 1)
        assert driver.output_topic("one").read_values() == [1]
        assert driver.output_topic("all").read_values() == [1, 1, 1]
        assert driver.output_topic("usual").read_values() == [1]
        assert driver.output_topic("nowhere").read_values() == []


@pytest.mark.parametrize(
    "partitioner",
    [
        lambda topic, key, value, partitions: partitions - 1,
        lambda topic, key, value, headers, partitions: partitions - 1 + len(headers),
        lambda key, value, partitions: partitions - 1,
    ],
    ids=["as in Kafka", "with headers", "without the topic"],
)
def test_a_partitioner_takes_what_it_needs(partitioner):
    builder = StreamsBuilder()
    builder.stream("in").to("out", partitioner=partitioner)
    with TopologyTestDriver(builder, partitions=3) as driver:
        driver.input_topic("in").pipe("a", 1)
        assert driver.output_topic("out").read_values() == [1]


def test_a_topic_chosen_by_key_and_value_alone():
    builder = StreamsBuilder()
    builder.stream("in").to(lambda key, value: f"of-{key}")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1)
        assert driver.output_topic("of-a").read_values() == [1]


@pytest.mark.parametrize("answer", ["x", 7, -1, [0, "y"], 1.5])
def test_a_partitioner_with_an_impossible_answer_says_so(answer):
    builder = StreamsBuilder()
    builder.stream("in").to("out", partitioner=lambda topic, key, value, partitions: answer)
    with TopologyTestDriver(builder) as driver, pytest.raises(Exception, match="partitioner"):
        driver.input_topic("in").pipe("a", 1)


def test_headers_and_timestamps_go_through():
    builder = StreamsBuilder()
    builder.stream("in").map_values(lambda v: v + 1).to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1, timestamp=77, headers=[("trace", b"x"), ("trace", b"y")])
        record = driver.output_topic("out").read()
    assert isinstance(record, Record)
    assert (record.key, record.value, record.timestamp) == ("a", 2, 77)
    assert list(record.headers) == [("trace", b"x"), ("trace", b"y")]


def test_repartition_makes_a_topic_of_that_name():
    builder = StreamsBuilder()
    (
        builder.stream("in")
        .select_key(lambda k, v: str(v))
        .repartition(
            key=Serdes.string, value=Serdes.json, partitions=3, partitioner=lambda t, k, v, n: 1, name="by-value"
        )
        .to("out")
    )
    assert "by-value-repartition" in builder.build().describe()
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1)
        assert driver.output_topic("out").read_table() == {"1": 1}
        assert any(topic.endswith("by-value-repartition") for topic in driver.topics())


def test_to_table_keeps_the_last_value_of_each_key():
    def define(b):
        b.stream("in").to_table(store="latest").to_stream().to("out")

    assert run(define, [("a", 1), ("a", 2), (None, 3), ("a", None)]) == [("a", 1), ("a", 2), ("a", None)]


def test_deduplicate_within_a_time_by_what_is_asked():
    builder = StreamsBuilder()
    builder.stream("in").deduplicate(by=lambda k, v: v["id"], within=1_000, store="seen").to("out")
    with TopologyTestDriver(builder) as driver:
        source = driver.input_topic("in")
        for timestamp, ident in [(0, 1), (500, 1), (500, 2), (400, 2), (5_000, 1)]:
            source.pipe("a", {"id": ident, "t": timestamp}, timestamp=timestamp)
        assert [v["t"] for v in driver.output_topic("out").read_values()] == [0, 500, 5_000]


def test_named_nodes_have_their_names_in_the_description():
    builder = StreamsBuilder()
    (
        builder.stream("in", name="source")
        .filter(lambda k, v: True, name="keep")
        .map_values(lambda v: v, name="copy")
        .peek(lambda k, v: None, name="look")
        .select_key(lambda k, v: k, name="key")
        .map(lambda k, v: (k, v), name="both")
        .flat_map(lambda k, v: [(k, v)], name="many")
        .flat_map_values(lambda v: [v], name="values")
        .filter_not(lambda k, v: False, name="not")
        .to("out", name="sink")
    )
    text = builder.build().describe()
    for name in ("source", "keep", "copy", "look", "key", "both", "many", "values", "not", "sink"):
        assert re.search(rf"(Source|Processor|Sink): {name} ", text), text


@pytest.mark.parametrize("result", [None, 5, ("a",), ("a", 1, 2), "ab"])
def test_a_map_that_returns_no_pair_fails_with_a_message(result):
    with pytest.raises(Exception, match=r"(?i)pair|\(key, value\)"):
        run(lambda b: b.stream("in").map(lambda k, v: result).to("out"), [("a", 1)])


@pytest.mark.parametrize("result", [None, 5])
def test_a_flat_map_that_returns_nothing_iterable_fails_with_a_message(result):
    with pytest.raises(Exception, match=r"(?i)iterable|pairs"):
        run(lambda b: b.stream("in").flat_map(lambda k, v: result).to("out"), [("a", 1)])
