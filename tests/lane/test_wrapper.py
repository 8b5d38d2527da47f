"""A wrapper goes around every processor node: it sees each record, may change it, and is the node's when it fails."""

import pickle
from functools import partial

import pytest

from penstock import ProcessingError, Processor, Serdes, Stores, StreamsBuilder, Topology, TopologyError
from penstock.testing import TopologyTestDriver

pytestmark = pytest.mark.capability("PA16")


class Echo(Processor):
    """Forwards what it is given."""

    def process(self, record):
        self.context.forward(record)


class Fill(Processor):
    """Fills a global store."""

    def process(self, record):
        self.context.store("all").put(record.key, record.value)


def program(wrapper):
    builder = StreamsBuilder(wrapper=wrapper)
    counts = (
        builder.stream("in", name="in").filter(lambda key, value: value, name="some").group_by_key().count(name="count")
    )
    counts.to_stream(name="changes").to("out", value=Serdes.int64)
    return builder


def recorder(seen):
    def wrapper(node, process):
        def seeing(key, value, timestamp, headers):
            seen.append((node, key, timestamp))
            process(key, value, timestamp, headers)

        return seeing

    return wrapper


def pipe(topology, *records, topic="in", **config):
    with TopologyTestDriver(topology, config=config) as driver:
        for record in records:
            driver.input_topic(topic).pipe(*record)
        return driver.output_topic("out", value=Serdes.int64).read_values(), driver.metrics()


def test_every_processor_node_is_wrapped_and_no_source_or_sink():
    seen = []
    values, _ = pipe(program(recorder(seen)), ("a", 1, 7))
    assert values == [1]
    assert seen == [("some", "a", 7), ("count", "a", 7), ("changes", "a", 7)]


def test_a_wrapper_is_called_once_a_node_and_shard():
    opened = []

    def wrapper(node, process):
        opened.append(node)
        return process

    with TopologyTestDriver(program(wrapper), lanes=2) as driver:
        assert sorted(opened) == sorted(["some", "count", "changes"] * len(driver._application.states))


def test_the_description_does_not_show_the_wrapper():
    assert program(recorder([])).build().describe() == program(None).build().describe()


def test_the_processor_of_a_global_store_is_wrapped_too():
    seen = []
    topology = Topology(wrapper=recorder(seen))
    topology.add_global_store(Stores.key_value("all"), "rows", Fill, source="rows", name="fill")
    pipe(topology, ("a", 1, 3), topic="rows")
    assert seen == [("fill", "a", 3)]


def test_a_wrapper_that_drops_a_record_ends_its_way():
    def wrapper(node, process):
        return process if node != "count" else lambda key, value, timestamp, headers: None

    assert pipe(program(wrapper), ("a", 1, 7))[0] == []


class Calls:
    """A wrapped node that is an object, not a function."""

    def __init__(self, process):
        self.process, self.count = process, 0

    def __call__(self, key, value, timestamp, headers):
        self.count += 1
        self.process(key, value, timestamp, headers)


@pytest.mark.parametrize(
    "wrapper",
    [lambda node, process: Calls(process), lambda node, process: partial(process), lambda node, process: process],
    ids=["object", "partial", "itself"],
)
def test_anything_that_can_be_called_will_do(wrapper):
    assert pipe(program(wrapper), ("a", 1, 7), ("a", 2, 8))[0] == [1, 2]


# --- failures -------------------------------------------------------------------------------------------------------


def failing(node_to_fail, kind=lambda function: function):
    def wrapper(node, process):
        def check(key, value, timestamp, headers):
            if node == node_to_fail and timestamp == 5:
                raise ValueError("the wrapper's own")
            process(key, value, timestamp, headers)

        return kind(check)

    return wrapper


@pytest.mark.parametrize("node", ["some", "count", "changes"])
@pytest.mark.parametrize("kind", [lambda function: function, partial], ids=["function", "object"])
def test_an_exception_of_the_wrapper_names_the_node_it_is_around(node, kind):
    with pytest.raises(ProcessingError, match="the wrapper's own") as caught:
        pipe(program(failing(node, kind)), ("a", 1, 5))
    assert caught.value.node == node


@pytest.mark.parametrize("node", ["some", "count", "changes"])
def test_a_policy_is_asked_about_the_wrapper_too(node):
    values, metrics = pipe(program(failing(node)), ("a", 1, 5), ("a", 1, 6), on_processing_error="skip")
    assert metrics["dropped_by_node"] == {(node, "processing_error"): 1}
    assert values == ([2] if node == "changes" else [1])


def test_an_exception_below_the_wrapper_names_its_node():
    builder = StreamsBuilder(wrapper=recorder([]))
    builder.stream("in").map_values(lambda value: 1 // value, name="invert").filter(lambda key, value: True).to("out")
    with pytest.raises(ProcessingError, match="ZeroDivisionError") as caught:
        pipe(builder, ("a", 0, 5))
    assert caught.value.node == "invert"
    assert "test_wrapper.py" in str(caught.value)


def test_a_wrapper_may_catch_what_its_node_raises():
    caught = []

    def wrapper(node, process):
        def catching(key, value, timestamp, headers):
            try:
                process(key, value, timestamp, headers)
            except ZeroDivisionError as error:
                caught.append((node, str(error)))

        return catching if node == "invert" else process

    builder = StreamsBuilder(wrapper=wrapper)
    builder.stream("in").map_values(lambda value: 1 // value, name="invert").to("out", value=Serdes.int64)
    assert pipe(builder, ("a", 0, 5), ("a", 1, 6))[0] == [1]
    assert caught == [("invert", "integer division or modulo by zero")]


# --- wrong use, pickling --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [StreamsBuilder, Topology])
@pytest.mark.parametrize("wrapper", [5, lambda node: node], ids=["number", "too few arguments"])
def test_a_wrapper_is_a_function_of_node_and_process(make, wrapper):
    with pytest.raises(TopologyError, match=r"wrapper\(\)"):
        make(wrapper=wrapper)


@pytest.mark.parametrize("result", [None, lambda record: record], ids=["nothing", "too few arguments"])
def test_what_a_wrapper_returns_must_take_a_record(result):
    with pytest.raises(TopologyError, match=r"must return a function of \(key, value, timestamp, headers\).*'changes'"):
        pipe(program(lambda node, process: result), ("a", 1, 5))


def shout(node, process):
    def shouting(key, value, timestamp, headers):
        process(f"{key}!", value, timestamp, headers)

    return shouting


def test_the_wrapper_pickles_with_the_topology():
    topology = Topology(wrapper=shout).add_source("source", "in").add_processor("echo", Echo, "source")
    topology.add_sink("sink", "out", "echo", value=Serdes.int64)
    again = pickle.loads(pickle.dumps(topology))
    with TopologyTestDriver(again) as driver:
        driver.input_topic("in").pipe("a", 1, 0)
        assert driver.output_topic("out", value=Serdes.int64).read().key == "a!"


class Keep(Processor):
    """Keeps the last value of each key."""

    def process(self, record):
        self.context.store("kept").put(record.key, record.value)


def times_of_the_changelog(topology, pipe):
    topology.add_state_store(Stores.key_value("kept", key=Serdes.string, value=Serdes.json), "keep")
    with TopologyTestDriver(topology, config={"application_id": "app"}) as driver:
        pipe(driver)
        return [row.timestamp for row in driver.output_topic("app-kept-changelog").read_all()]


def test_a_store_is_written_at_the_time_that_a_wrapper_has_given_the_record():
    def later(node, process):
        return lambda key, value, timestamp, headers: process(key, value, timestamp + 100, headers)

    topology = Topology(wrapper=later).add_source("in", "in").add_processor("keep", Keep, "in")
    times = times_of_the_changelog(topology, lambda driver: driver.input_topic("in").pipe("k", 1, timestamp=5))
    assert times == [105]


def test_a_store_is_written_at_the_time_of_the_record_right_below_a_topic():
    topology = Topology().add_source("in", "in").add_processor("keep", Keep, "in")
    times = times_of_the_changelog(topology, lambda driver: driver.input_topic("in").pipe("k", 1, timestamp=5))
    assert times == [5]


class Later(Processor):
    """Forwards what it is given, a hundred milliseconds later."""

    def process(self, record):
        self.context.forward(record.with_timestamp(record.timestamp + 100))


def test_a_store_behind_a_repartition_is_written_at_the_time_that_the_record_has_there():
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("kept", key=Serdes.string, value=Serdes.json))
    builder.stream("in").process(Later).repartition().process(Keep, stores=["kept"])
    with TopologyTestDriver(builder, config={"application_id": "app"}) as driver:
        driver.input_topic("in").pipe("k", 1, timestamp=5)
        assert [row.timestamp for row in driver.output_topic("app-kept-changelog").read_all()] == [105]
