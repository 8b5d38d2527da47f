"""A built topology travels to workers: pickle for module-level functions, cloudpickle for lambdas."""

import copy
import pickle

import pytest
from pyspark import cloudpickle

from penstock import (
    FixedKeyProcessor,
    JoinWindows,
    Processor,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from penstock.testing import TopologyTestDriver


def keep(key, value):
    return value is not None


def first_letter(key, value):
    return value[0]


def add(key, value, aggregate):
    return aggregate + value


def join_text(one, two):
    return f"{one}{two}"


def merge_text(key, one, two):
    return one + two


def as_pair(key, value):
    return (value, value)


class Keep(Processor):
    def process(self, record):
        self.context.store("kept").put(record.key, record.value)
        self.context.forward(record)


class Look(FixedKeyProcessor):
    def process(self, record):
        self.context.forward(record.with_value(record.value))


def everything(builder):
    stream = builder.stream("in", value=Serdes.string)
    other = builder.stream("other", value=Serdes.string)
    table = builder.table("table", value=Serdes.string, store="rows")
    world = builder.global_table("world", value=Serdes.string)
    builder.add_state_store(Stores.key_value("kept", value=Serdes.string))
    grouped = stream.filter(keep).group_by(first_letter, value=Serdes.string)
    grouped.count(store="counts").to_stream().to("counts", value=Serdes.int64)
    grouped.aggregate(str, add, store="texts", value=Serdes.string).group_by(as_pair, value=Serdes.string).count(
        store="again"
    )
    grouped.windowed_by(TimeWindows(10)).count(store="w").suppress(Suppressed.until_window_closes()).to_stream().to("w")
    grouped.windowed_by(SlidingWindows(10)).count(store="sl")
    grouped.windowed_by(SessionWindows(10)).aggregate(str, add, merger=merge_text, store="se", value=Serdes.string)
    stream.left_join(other, join_text, window=JoinWindows(10)).to("joined", value=Serdes.string)
    stream.join(table, join_text).to("looked", value=Serdes.string)
    stream.left_join(world, join_text, select=first_letter).to("world-joined", value=Serdes.string)
    table.left_join(builder.table("right", value=Serdes.string), join_text, foreign_key=first_of, store="fk")
    stream.process(Keep, stores=["kept"]).process_values(Look).to("kept-out", value=Serdes.string)
    stream.split(name="b-").branch(keep, name="x").default()["b-0"].to("rest")
    stream.deduplicate(by=first_letter, within=10, store="seen").to("distinct")
    stream.map_values_async(first_of).map_values_async(ask).to("asked", value=Serdes.string)
    stream.print(label="x")


async def ask(value):
    return value


def first_of(value):
    return value[0]


def run(topology):
    with TopologyTestDriver(topology, lanes=2) as driver:
        for index, (topic, key, value) in enumerate(
            [
                ("table", "k", "row"),
                ("right", "r", "right"),
                ("world", "a", "world"),
                ("in", "k", "abc"),
                ("other", "k", "o"),
                ("in", "k", "b"),
                ("in", "k", "z"),
            ]
        ):
            driver.input_topic(topic, value=Serdes.string).pipe(key, value, timestamp=index * 7)
        return driver.all_output()


@pytest.mark.parametrize(
    "travel",
    [lambda t: pickle.loads(pickle.dumps(t)), lambda t: cloudpickle.loads(cloudpickle.dumps(t)), copy.deepcopy],
)
def test_every_operator_travels(travel, capsys):
    builder = StreamsBuilder()
    everything(builder)
    topology = builder.build(optimize="all")
    arrived = travel(topology)
    assert arrived.describe() == topology.describe()
    assert run(arrived) == run(topology)


def test_lambdas_travel_with_cloudpickle():
    factor = 3
    builder = StreamsBuilder()
    stream = builder.stream("in").map_values(lambda v: v * factor)
    stream.group_by(lambda k, v: str(v)).count(store="n").to_stream().to("out", value=Serdes.int64)
    stream.process(lambda: Keep(), stores=[Stores.key_value("kept")]).to("kept-out")
    topology = cloudpickle.loads(cloudpickle.dumps(builder.build()))
    with TopologyTestDriver(topology) as driver:
        driver.input_topic("in").pipe("a", 2)
        assert driver.output_topic("out", value=Serdes.int64).read_table() == {"6": 1}


def test_a_topology_made_by_hand_travels():
    topology = Topology()
    topology.add_source("s", "in", value=Serdes.string)
    topology.add_processor("p", Keep, "s")
    topology.add_state_store(Stores.key_value("kept", value=Serdes.string), "p")
    topology.add_sink("k", "out", "p", value=Serdes.string)
    assert pickle.loads(pickle.dumps(topology)).describe() == topology.describe()


@pytest.mark.parametrize(
    "thing",
    [
        Serdes.string,
        Serdes.json,
        Serdes.json_of(dict[str, int]),
        Serdes.windowed(Serdes.string, 10),
        Serdes.session_windowed(Serdes.int64),
        TimeWindows(10, advance=5),
        SessionWindows(5),
        JoinWindows(5),
        Stores.window("w", 10, 5),
        Suppressed.until_window_closes(),
    ],
    ids=str,
)
def test_what_a_program_is_made_of_travels_and_stays_equal(thing):
    assert pickle.loads(pickle.dumps(thing)) == thing
