"""Wrong use fails when the program is built, and says what to do."""

import re

import pytest

from penstock import JoinWindows, Serdes, SessionWindows, Stores, StreamsBuilder, Suppressed, TimeWindows
from penstock.testing import TopologyTestDriver

WRONG = {
    "a function of the wrong arity": (lambda b: b.stream("t").filter(lambda v: v), r"key.*value"),
    "a mapper that wants the key": (lambda b: b.stream("t").map_values(lambda k, v: v), "with_key"),
    "no function": (lambda b: b.stream("t").filter("x"), "(?i)function"),
    "an aggregator without a key": (
        lambda b: b.stream("t").group_by_key().aggregate(list, lambda v, a: a),
        r"key.*value.*agg",
    ),
    "an initial value that is no function": (
        lambda b: b.stream("t").group_by_key().aggregate(0, lambda k, v, a: a),
        "(?i)function",
    ),
    "an unknown option": (lambda b: b.stream("t", vlaue=Serdes.json), "value"),
    "an unknown option of a method": (lambda b: b.stream("t").to("o", nmae="x"), "name"),
    "an unknown option of windows": (lambda b: TimeWindows(10, garce=5), "grace"),
    "an unknown option of a driver": (lambda b: TopologyTestDriver(b, partition=2), "partitions"),
    "an unknown option of a suppression": (lambda b: Suppressed.until_window_closes(bufer=1), "buffer"),
    "an unknown method of a stream": (lambda b: b.stream("t").mapValues(lambda v: v), "map_values|mapValues"),
    "two nodes of one name": (lambda b: b.stream("t").filter(lambda k, v: 1, name="x").map_values(str, name="x"), "x"),
    "two stores of one name": (lambda b: (b.table("t", store="x"), b.table("u", store="x")), "x"),
    "overlapping topics": (lambda b: (b.stream(["a", "b"]).to("x"), b.stream(["b", "c"]).to("y")), "b"),
    "a topic read as stream and table": (lambda b: (b.stream("a").to("x"), b.table("a")), "a"),
    "a store that does not exist": (
        lambda b: (b.add_state_store(Stores.key_value("seen")), b.stream("t").process(Any, stores=["sen"])),
        "seen",
    ),
    "windows of the wrong kind": (lambda b: b.stream("t").group_by_key().windowed_by(JoinWindows(5)), "TimeWindows"),
    "windows that are a number": (lambda b: b.stream("t").group_by_key().windowed_by(10), "TimeWindows"),
    "a merger without sessions": (
        lambda b: (
            b.stream("t")
            .group_by_key()
            .windowed_by(TimeWindows(5))
            .aggregate(int, lambda k, v, a: a, merger=lambda k, a, b: a)
        ),
        "merger",
    ),
    "a store of the wrong kind": (
        lambda b: b.stream("t").group_by_key().count(store=Stores.session("s", 10)),
        "key_value",
    ),
    "a window store of the wrong kind": (
        lambda b: b.stream("t").group_by_key().windowed_by(SessionWindows(5)).count(store=Stores.key_value("s")),
        "session",
    ),
    "a retention that is too short": (
        lambda b: (
            b.stream("t")
            .group_by_key()
            .windowed_by(TimeWindows(50))
            .count(store=Stores.window("s", retention=50, size=50).with_(retention=5))
        ),
        "retention",
    ),
    "an unknown optimisation": (lambda b: b.build(optimize="reuse_ktable_source_topic"), "reuse_ktable_source_topics"),
    "an illegal name": (lambda b: b.stream("t").filter(lambda k, v: 1, name="a b"), "a b"),
    "an illegal topic": (lambda b: b.stream("t").to(""), "topic"),
    "an unknown offset reset": (lambda b: b.stream("t", offset_reset="erliest"), "earliest"),
    "a suppression that is none": (lambda b: b.table("t").suppress(5), "Suppressed"),
    "an emit strategy that is none": (
        lambda b: b.stream("t").group_by_key().windowed_by(TimeWindows(5)).emit("close"),
        "EmitStrategy",
    ),
    "a merge with a table": (lambda b: b.stream("t").merge(b.table("u")), "KStream"),
    "a cogroup with a stream": (
        lambda b: b.stream("t").group_by_key().cogroup(lambda k, v, a: a).cogroup(b.stream("u"), lambda k, v, a: a),
        "group",
    ),
    "a grouped table without a subtractor": (
        lambda b: b.table("t").group_by(lambda k, v: (k, v)).reduce(lambda a, v: a),
        "subtractor",
    ),
    "a supplier that is an instance": (lambda b: b.stream("t").process(Any()), "(?i)class|callable|call"),
    "a dedup without a time": (lambda b: b.stream("t").deduplicate(by=lambda k, v: v), "within"),
    "an asynchronous function of two arguments": (
        lambda b: b.stream("t").map_values_async(lambda k, v: v),
        "with_key=True",
    ),
    "an asynchronous function that yields": (lambda b: b.stream("t").map_values_async(_yielding), "flat_map_values"),
    "no call at a time": (lambda b: b.stream("t").map_values_async(str, concurrency=0), "concurrency"),
    "a fraction of a retry": (lambda b: b.stream("t").map_values_async(str, retries=0.5), "retries"),
    "no time for an answer": (lambda b: b.stream("t").map_values_async(str, timeout=0), "timeout"),
    "a time-out in seconds as text": (lambda b: b.stream("t").map_values_async(str, timeout="2s"), "timeout"),
    "a backoff into the past": (lambda b: b.stream("t").map_values_async(str, backoff=-1), "backoff"),
    "a state store that is a name": (lambda b: b.add_state_store("seen"), "Stores"),
    "a branch after the default": (lambda b: _branch_after_default(b), "."),
    "two branches of one name": (
        lambda b: (
            b.stream("t")
            .split(name="s-")
            .branch(lambda k, v: 1, name="x")
            .branch(lambda k, v: 1, name="x")
            .no_default()
        ),
        "x",
    ),
}


async def _yielding(value):
    yield value


class Any:
    """Some processor."""

    def process(self, record):
        pass


def _branch_after_default(b):
    split = b.stream("t").split()
    split.branch(lambda k, v: True)
    split.default()
    split.branch(lambda k, v: True)


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_refused(case):
    define, says = WRONG[case]
    builder = StreamsBuilder()

    def build():
        define(builder)
        builder.build()

    with pytest.raises(Exception, match=says):
        build()


def test_an_empty_topology_is_described_as_kafka_does():
    assert StreamsBuilder().build().describe() == "Topologies:\n "


def test_the_same_topics_may_be_read_twice():
    builder = StreamsBuilder()
    builder.stream("in").to("one")
    builder.stream("in").map_values(lambda v: v + 1).to("two")
    with TopologyTestDriver(builder) as driver:
        driver.input_topic("in").pipe("a", 1)
        assert driver.output_topic("one").read_values() == [1]
        assert driver.output_topic("two").read_values() == [2]


def test_a_builder_can_be_built_twice_and_go_on():
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.to("one")
    first = builder.build().describe()
    assert builder.build().describe() == first
    stream.to("two")
    assert len(re.findall("Sink:", builder.build().describe())) == 2
