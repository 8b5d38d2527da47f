"""A record that cannot be handled: the message names everything, the policy decides, the raw bytes are kept."""

import pytest

from penstock import Processor, PunctuationType, Record, Serdes, Stores, TimestampExtractor, Topology
from penstock.errors import (
    ConfigError,
    DeserializationError,
    ProcessingError,
    SerializationError,
    TimestampError,
)
from penstock.operators.stateless import Filter, MapValues
from penstock.testing import TopologyTestDriver
from penstock.topology.node import ProcessorNode

TEXT = {"key": Serdes.string, "value": Serdes.string}
RAW = {"key": Serdes.bytes, "value": Serdes.bytes}


def is_good(key, value):
    return int(value) > 0


def inverse(value):
    return str(100 // int(value))


def two_branches():
    """in -> filter -> map -> out, and in -> copies: a failure in one branch must not touch the other."""
    topology = Topology().add_source("in", "t", **TEXT)
    topology.add(ProcessorNode("FILTER", Filter(lambda key, value: value != "skip me"), ("in",)))
    topology.add(ProcessorNode("INVERT", MapValues(inverse), ("FILTER",)))
    return topology.add_sink("out", "o", "INVERT", **TEXT).add_sink("copies", "copies", "in", **TEXT)


def driver_with(topology, **config):
    return TopologyTestDriver(topology, config=config)


def test_a_failing_function_is_named_with_node_record_and_line():
    with driver_with(two_branches()) as driver:
        numbers = driver.input_topic("t", value=Serdes.string)
        numbers.pipe("k", "1", 5)
        with pytest.raises(ProcessingError) as caught:
            numbers.pipe("k", "0", 6)
    text = str(caught.value)
    assert "ZeroDivisionError" in text
    assert caught.value.node == "INVERT"
    assert "t-0@1 (timestamp 6)" in text
    assert "inverse" in text
    assert "test_failure.py" in text
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_the_traceback_itself_reads_as_the_topology():
    with driver_with(two_branches()) as driver, pytest.raises(ProcessingError) as caught:
        driver.input_topic("t", value=Serdes.string).pipe("k", "0")
    frames = []
    at = caught.value.__cause__.__traceback__
    while at is not None:
        frames.append(at.tb_frame.f_code.co_name)
        at = at.tb_next
    assert [f for f in frames if f.isupper()] == ["FILTER", "INVERT"]


@pytest.mark.capability("ER2")
def test_skip_drops_the_failing_subtree_only_and_counts_it():
    with driver_with(two_branches(), on_processing_error="skip") as driver:
        driver.input_topic("t", value=Serdes.string).pipe_all([("k", "0"), ("k", "4")])
        assert driver.output_topic("o", value=Serdes.string).read_values() == ["25"]
        assert driver.output_topic("copies", value=Serdes.string).read_values() == ["0", "4"]
        assert driver.metrics()["dropped_by_node"] == {("INVERT", "processing_error"): 1}


@pytest.mark.capability("ER4")
def test_dead_letter_keeps_raw_bytes_timestamp_and_headers():
    with driver_with(two_branches(), on_processing_error="dead_letter", dead_letter_topic="dlq") as driver:
        driver.input_topic("t", value=Serdes.string).pipe("k", "0", 9, headers=[("own", b"h")])
        letter = driver.output_topic("dlq", **RAW).read()
        assert (letter.key, letter.value, letter.timestamp) == (b"k", b"0", 9)
        headers = dict(letter.headers)
        assert letter.headers[0] == ("own", b"h")
        assert headers["__streams.errors.exception"] == b"ZeroDivisionError"
        assert headers["__streams.errors.topic"] == b"t"
        assert headers["__streams.errors.partition"] == b"0"
        assert headers["__streams.errors.offset"] == b"0"
        assert b"division" in headers["__streams.errors.message"]
        assert b"inverse" in headers["__streams.errors.stacktrace"]


@pytest.mark.capability("ER4")
@pytest.mark.parametrize("value", ["0", None])
def test_a_dead_letter_names_the_node(value):
    """The node whose function raised, or the source whose serde refused the bytes."""
    policies = {"on_processing_error": "dead_letter", "on_deserialization_error": "dead_letter"}
    with driver_with(two_branches(), **policies, dead_letter_topic="dlq") as driver:
        driver.input_topic("t", **RAW).pipe(b"k", b"\xff" if value is None else value.encode())
        letter = driver.output_topic("dlq", **RAW).read()
        node = {"0": b"INVERT", None: b"in"}[value]
        assert dict(letter.headers)["__streams.errors.stacktrace"].endswith(b"\nat node: " + node + b"\n")


@pytest.mark.capability("ER5")
def test_a_dead_letter_has_its_raw_bytes_even_after_a_sibling_branch_has_sent():
    # Kafka Streams frees the raw record at the first send, so a later dead letter there is empty.
    topology = Topology().add_source("in", "t", **TEXT).add_sink("first", "copies", "in", **TEXT)
    topology.add(ProcessorNode("INVERT", MapValues(inverse), ("in",)))
    with driver_with(topology, on_processing_error="dead_letter", dead_letter_topic="dlq") as driver:
        driver.input_topic("t", value=Serdes.string).pipe("k", "0")
        assert driver.output_topic("copies", value=Serdes.string).read_values() == ["0"]
        assert driver.output_topic("dlq", **RAW).read().value == b"0"


@pytest.mark.capability("ER2", "ER8")
def test_a_handler_sees_the_error_and_decides():
    seen = []

    def handler(error):
        seen.append((error.node, error.origin.offset, type(error.__cause__)))
        return "skip" if error.origin.offset == 0 else "fail"

    with driver_with(two_branches(), on_processing_error=handler) as driver:
        numbers = driver.input_topic("t", value=Serdes.string)
        numbers.pipe("k", "0")
        with pytest.raises(ProcessingError):
            numbers.pipe("k", "0")
    assert seen == [("INVERT", 0, ZeroDivisionError), ("INVERT", 1, ZeroDivisionError)]


@pytest.mark.capability("ER8")
def test_a_handler_may_take_origin_record_and_exception():
    seen = []

    def handler(origin, record, exception):
        seen.append((origin.topic, record, type(exception)))
        return "skip"

    with driver_with(two_branches(), on_processing_error=handler) as driver:
        driver.input_topic("t", value=Serdes.string).pipe("k", "0", 3)
    assert seen == [("t", Record("k", "0", 3), ZeroDivisionError)]


def test_a_handler_that_answers_nonsense_is_refused():
    with (
        driver_with(two_branches(), on_processing_error=lambda error: "retry") as driver,
        pytest.raises((ConfigError, ProcessingError), match="must be one of") as caught,
    ):
        driver.input_topic("t", value=Serdes.string).pipe("k", "0")
    assert isinstance(caught.value, ConfigError) or isinstance(caught.value.__cause__, ConfigError)
    assert "must be one of" in str(caught.value)


def numbers(**serdes):
    return Topology().add_source("in", "t", key=Serdes.string, value=Serdes.int64).add_sink("out", "o", "in", **serdes)


@pytest.mark.capability("ER1", "ER4")
@pytest.mark.parametrize(("policy", "letters"), [("skip", []), ("dead_letter", [b"not eight bytes"])])
def test_bytes_that_the_serde_refuses_are_skipped_or_kept(policy, letters):
    topology = numbers(key=Serdes.string, value=Serdes.int64)
    with driver_with(topology, on_deserialization_error=policy, dead_letter_topic="dlq") as driver:
        driver.input_topic("t", value=Serdes.bytes).pipe("k", b"not eight bytes", 4)
        driver.input_topic("t", value=Serdes.int64).pipe("k", 7, 5)
        assert driver.output_topic("o", value=Serdes.int64).read_values() == [7]
        assert driver.output_topic("dlq", **RAW).read_values() == letters
        assert driver.metrics()["dropped_by_reason"] == {"deserialization_error": 1}


@pytest.mark.capability("ER1")
def test_bytes_that_the_serde_refuses_fail_by_default_with_a_remedy():
    with driver_with(numbers(key=Serdes.string, value=Serdes.int64)) as driver:
        driver.input_topic("t", value=Serdes.int64).pipe("k", 1)
        with pytest.raises(DeserializationError, match=r"(?s)value of a record.*remedy.*node:.*in.*t-0@1"):
            driver.input_topic("t", value=Serdes.bytes).pipe("k", b"x")


@pytest.mark.capability("ER3")
def test_a_value_that_the_sink_cannot_serialize_names_sink_serde_and_record():
    with (
        driver_with(numbers(key=Serdes.string, value=Serdes.string)) as driver,
        pytest.raises(SerializationError) as caught,
    ):
        driver.input_topic("t", value=Serdes.int64).pipe("k", 1)
    assert caught.value.node == "out"
    assert "Serdes.string" in str(caught.value)
    assert "t-0@0" in str(caught.value)


@pytest.mark.capability("ER3", "ER4")
@pytest.mark.parametrize(("policy", "letters"), [("skip", 0), ("dead_letter", 1)])
def test_the_production_policy_judges_serialization(policy, letters):
    topology = numbers(key=Serdes.string, value=Serdes.string)
    with driver_with(topology, on_production_error=policy, dead_letter_topic="dlq") as driver:
        driver.input_topic("t", value=Serdes.int64).pipe("k", 1, 8)
        assert driver.output_topic("o", **RAW).read() is None
        assert len(driver.output_topic("dlq", **RAW).read_all()) == letters
        assert driver.metrics()["dropped_by_node"] == {("out", "serialization_error"): 1}


def test_a_negative_timestamp_is_an_error_unless_an_extractor_says_otherwise():
    plain = Topology().add_source("in", "t", **TEXT)
    with driver_with(plain) as driver, pytest.raises(TimestampError, match="skip_on_invalid"):
        driver.input_topic("t", value=Serdes.string).pipe("k", "v", -1)
    skipping = Topology().add_source("in", "t", **TEXT, timestamp=TimestampExtractor.skip_on_invalid)
    with driver_with(skipping) as driver:
        driver.input_topic("t", value=Serdes.string).pipe("k", "v", -1)
        assert driver.metrics()["dropped_by_reason"] == {"negative_timestamp": 1}


def test_an_extractor_that_raises_is_named():
    def by_field(record):
        return record.value["at"]

    topology = Topology().add_source("in", "t", **TEXT, timestamp=by_field)
    with driver_with(topology) as driver, pytest.raises(TimestampError, match="by_field"):
        driver.input_topic("t", value=Serdes.string).pipe("k", "v", 1)


class Stubborn(Processor):
    """Writes first and fails afterwards, and punctuates into nothing."""

    def init(self, context):
        self.store = context.store("s")
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, self.tick)

    def process(self, record):
        self.store.put(record.key, record.value)
        if record.value == "bad":
            raise ValueError("bad record")

    def tick(self, at):
        raise RuntimeError("bad tick")


def stubborn():
    return (
        Topology()
        .add_source("in", "t", **TEXT)
        .add_processor("stubborn", Stubborn, "in")
        .add_state_store(Stores.key_value("s", **TEXT), "stubborn")
    )


def test_what_was_done_before_the_failure_stays_when_it_is_skipped():
    with driver_with(stubborn(), on_processing_error="skip") as driver:
        driver.input_topic("t", value=Serdes.string).pipe("k", "bad")
        assert driver.store("s").get("k") == "bad"


@pytest.mark.capability("ER2")
def test_a_failing_punctuator_is_judged_too():
    with (
        driver_with(stubborn()) as driver,
        pytest.raises(ProcessingError, match=r"(?s)bad tick.*stubborn.*none \(punctuation"),
    ):
        driver.advance_wall_clock(10)
    with driver_with(stubborn(), on_processing_error="skip", shards=3) as driver:
        driver.advance_wall_clock(10)
        assert driver.metrics()["dropped_by_reason"] == {"processing_error": 3}  # that of each shard
