"""Every join of the contract, in the words of the contract."""

from datetime import timedelta

import pytest

from penstock import JoinWindows, Serdes, Stores, StreamsBuilder
from penstock.testing import TopologyTestDriver


def drive(builder, inputs, out="out"):
    with TopologyTestDriver(builder) as driver:
        for topic, k, v, t in inputs:
            driver.input_topic(topic).pipe(k, v, timestamp=t)
        return [(r.key, r.value, r.timestamp) for r in driver.output_topic(out).read_all()]


def pair(one, two):
    return [one, two]


ROWS = [
    ("left", "a", "L1", 0),
    ("right", "a", "R1", 5),
    ("left", "b", "L2", 6),
    ("right", "c", "R2", 40),
    ("left", "z", "L3", 200),
]


def test_streams_join_within_a_window():
    builder = StreamsBuilder()
    builder.stream("left").join(builder.stream("right"), pair, window=JoinWindows(10)).to("out")
    assert drive(builder, ROWS) == [("a", ["L1", "R1"], 5)]


def test_streams_left_join():
    builder = StreamsBuilder()
    builder.stream("left").left_join(builder.stream("right"), pair, window=JoinWindows(10, grace=20)).to("out")
    assert drive(builder, ROWS) == [("a", ["L1", "R1"], 5), ("b", ["L2", None], 6)]


def test_streams_outer_join():
    builder = StreamsBuilder()
    builder.stream("left").outer_join(builder.stream("right"), pair, window=JoinWindows(timedelta(milliseconds=10))).to(
        "out"
    )
    assert drive(builder, ROWS) == [("a", ["L1", "R1"], 5), ("b", ["L2", None], 6), ("c", [None, "R2"], 40)]


def test_streams_join_with_serdes_names_and_stores():
    builder = StreamsBuilder()
    left = builder.stream("left", key=Serdes.string, value=Serdes.string)
    right = builder.stream("right", key=Serdes.string, value=Serdes.int64)
    (
        left.join(
            right,
            lambda key, one, two: f"{key}:{one}:{two}",
            window=JoinWindows(10, before=5, after=5),
            key=Serdes.string,
            value=Serdes.string,
            other_value=Serdes.int64,
            store="kept",
            name="joined",
            with_key=True,
        ).to("out", value=Serdes.string)
    )
    topology = builder.build()
    assert "kept" in topology.describe()
    assert "joined" in topology.describe()
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("left", value=Serdes.string).pipe("a", "x", timestamp=1)
        driver.input_topic("right", value=Serdes.int64).pipe("a", 7, timestamp=6)
        driver.input_topic("right", value=Serdes.int64).pipe("a", 8, timestamp=7)
        assert driver.output_topic("out", value=Serdes.string).read_values() == ["a:x:7"]


def test_a_stream_joins_itself():
    builder = StreamsBuilder()
    stream = builder.stream("left")
    stream.join(stream, pair, window=JoinWindows(10)).to("out")
    assert [v for _, v, _ in drive(builder, [("left", "a", 1, 0), ("left", "a", 2, 3)])] == [
        [1, 1],
        [2, 1],
        [1, 2],
        [2, 2],
    ]


def test_a_stream_looks_up_a_table():
    builder = StreamsBuilder()
    builder.stream("orders").join(builder.table("users"), pair).to("out")
    rows = [
        ("orders", "a", 1, 0),
        ("users", "a", "Ann", 1),
        ("orders", "a", 2, 2),
        ("users", "a", None, 3),
        ("orders", "a", 3, 4),
    ]
    assert drive(builder, rows) == [("a", [2, "Ann"], 2)]
    builder = StreamsBuilder()
    builder.stream("orders").left_join(builder.table("users"), lambda k, o, u: [k, o, u], with_key=True).to("out")
    assert [v for _, v, _ in drive(builder, rows)] == [["a", 1, None], ["a", 2, "Ann"], ["a", 3, None]]


def test_a_stream_joins_a_versioned_table_as_of_its_time_and_waits_for_the_grace():
    builder = StreamsBuilder()
    table = builder.table("prices", store=Stores.versioned("history", history=1_000))
    builder.stream("orders").left_join(table, pair, grace=timedelta(milliseconds=10)).to("out")
    rows = [
        ("prices", "a", 1, 0),
        ("orders", "a", "x", 5),
        ("prices", "a", 2, 4),
        ("orders", "a", "y", 20),
    ]
    assert drive(builder, rows) == [("a", ["x", 2], 5)]


def test_a_grace_needs_a_versioned_table():
    builder = StreamsBuilder()
    table = builder.table("prices")
    with pytest.raises(Exception, match=r"(?i)versioned"):
        builder.stream("orders").join(table, pair, grace=10)


def test_a_versioned_table_without_a_grace():
    builder = StreamsBuilder()
    table = builder.table("prices", store=Stores.versioned("history", timedelta(seconds=1)))
    builder.stream("orders").join(table, pair).to("out")
    rows = [("prices", "a", 1, 0), ("prices", "a", 2, 10), ("orders", "a", "x", 5), ("orders", "a", "y", 10)]
    assert [v for _, v, _ in drive(builder, rows)] == [["x", 1], ["y", 2]]


def test_a_stream_joins_a_global_table_by_any_key():
    builder = StreamsBuilder()
    countries = builder.global_table("countries", store="countries")
    stream = builder.stream("orders")
    stream.join(countries, pair, select=lambda key, value: value["country"]).to("inner")
    stream.left_join(
        countries, lambda key, o, c: [key, o, c], select=lambda key, value: value["country"], with_key=True
    ).to("left")
    with TopologyTestDriver(builder, lanes=3, partitions=2) as driver:
        driver.input_topic("countries").pipe("nl", "Netherlands")
        driver.input_topic("orders").pipe("o1", {"country": "nl"})
        driver.input_topic("orders").pipe("o2", {"country": "xx"}, partition=1)
        driver.input_topic("orders").pipe(None, {"country": "nl"})
        assert driver.output_topic("inner").read_values() == [[{"country": "nl"}, "Netherlands"]] * 2
        assert driver.output_topic("left").read_values() == [
            ["o1", {"country": "nl"}, "Netherlands"],
            ["o2", {"country": "xx"}, None],
            [None, {"country": "nl"}, "Netherlands"],
        ]
        assert driver.store("countries").get("nl") == "Netherlands"


def test_tables_join():
    builder = StreamsBuilder()
    left, right = builder.table("left"), builder.table("right")
    left.join(right, pair, store="joined", name="inner-join").to_stream().to("inner")
    left.left_join(right, pair).to_stream().to("left-out")
    left.outer_join(right, pair, store="o").to_stream().to("outer")
    rows = [("left", "a", 1, 0), ("right", "a", 2, 1), ("right", "b", 3, 2), ("left", "a", None, 3)]
    with TopologyTestDriver(builder) as driver:
        for topic, k, v, t in rows:
            driver.input_topic(topic).pipe(k, v, timestamp=t)
        assert [(r.key, r.value) for r in driver.output_topic("inner").read_all()] == [("a", [1, 2]), ("a", None)]
        assert [(r.key, r.value) for r in driver.output_topic("left-out").read_all()] == [
            ("a", [1, None]),
            ("a", [1, 2]),
            ("a", None),
        ]
        assert driver.output_topic("outer").read_table() == {"a": [None, 2], "b": [None, 3]}
        assert driver.store("joined").get("a") is None
        assert driver.store("o").get("b") == [None, 3]


@pytest.mark.parametrize(
    "foreign_key", [lambda value: value["user"], lambda key, value: value["user"]], ids=["value", "key and value"]
)
def test_tables_join_on_a_foreign_key(foreign_key):
    builder = StreamsBuilder()
    orders, users = builder.table("orders"), builder.table("users")
    orders.join(users, lambda o, u: [o["n"], u], foreign_key=foreign_key, store="inner", name="fk").to_stream().to(
        "inner"
    )
    orders.left_join(users, lambda o, u: [o["n"], u], foreign_key=foreign_key, store="left")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("users").pipe("ann", "Ann")
        driver.input_topic("orders").pipe("1", {"user": "ann", "n": 1})
        driver.input_topic("orders").pipe("2", {"user": "bob", "n": 2})
        assert dict(driver.store("inner").all()) == {"1": [1, "Ann"]}
        assert dict(driver.store("left").all()) == {"1": [1, "Ann"], "2": [2, None]}
        driver.input_topic("users").pipe("ann", "Anna")
        driver.input_topic("users").pipe("bob", "Bob")
        assert dict(driver.store("inner").all()) == {"1": [1, "Anna"], "2": [2, "Bob"]}
        driver.input_topic("orders").pipe("1", None)
        assert driver.output_topic("inner").read_table() == {"2": [2, "Bob"]}


def test_a_foreign_key_of_another_type_uses_the_other_tables_key_serde():
    builder = StreamsBuilder()
    orders = builder.table("orders")
    users = builder.table("users", key=Serdes.int64)
    orders.join(users, pair, foreign_key=lambda v: v).to_stream().to("out")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("users", key=Serdes.int64).pipe(7, "Ann")
        driver.input_topic("orders").pipe("1", 7)
        assert driver.output_topic("out").read_table() == {"1": [7, "Ann"]}


def test_null_keys_in_stream_joins():
    rows = [("left", None, 1, 0), ("right", None, 2, 1)]
    for how, expected in (
        ("join", []),
        ("left_join", [(None, [1, None], 0)]),
        ("outer_join", [(None, [1, None], 0), (None, [None, 2], 1)]),
    ):
        builder = StreamsBuilder()
        getattr(builder.stream("left"), how)(builder.stream("right"), pair, window=JoinWindows(10)).to("out")
        assert drive(builder, rows) == expected


def test_a_joiner_that_returns_none_gives_none():
    builder = StreamsBuilder()
    builder.stream("left").join(builder.table("right"), lambda a, b: None).to("out")
    assert drive(builder, [("right", "a", 1, 0), ("left", "a", 2, 1)]) == [("a", None, 1)]


@pytest.mark.parametrize(
    ("define", "says"),
    [
        (lambda b: b.stream("l").join(b.stream("r"), pair), "window"),
        (lambda b: b.stream("l").outer_join(b.stream("r"), pair), "window"),
        (lambda b: b.stream("l").join(b.stream("r"), pair, window=10), "JoinWindows"),
        (lambda b: b.stream("l").join(b.global_table("r"), pair), "select"),
        (lambda b: b.stream("l").join(b.table("r"), pair, window=JoinWindows(1)), "window"),
        (lambda b: b.stream("l").outer_join(b.table("r"), pair), "(?i)outer|KStream"),
        (lambda b: b.stream("l").join("r", pair), "KStream"),
        (lambda b: b.stream("l").join(b.table("r"), lambda a: a), "(?i)argument"),
        (lambda b: b.stream("l").join(b.table("r"), lambda a, b: a, with_key=True), "(?i)argument|key"),
        (lambda b: b.table("l").join(b.table("r"), lambda a, b, c: a), "(?i)argument"),
        (lambda b: b.table("l").join(b.stream("r"), pair), "KTable"),
        (lambda b: b.table("l").join(b.table("r"), pair, foreign_key=lambda: 1), "(?i)foreign_key|argument"),
        (lambda b: b.table("l").outer_join(b.table("r"), pair, foreign_key=lambda v: 1), "foreign_key"),
        (lambda b: b.stream("l").join(StreamsBuilder().table("r"), pair), "builder"),
    ],
)
def test_wrong_joins_say_what_to_do(define, says):
    with pytest.raises(Exception, match=says):
        define(StreamsBuilder())
