"""Stateless operators, sources and sinks equal Kafka Streams', one by one and in random chains."""

import random
import re
from pathlib import Path
from typing import Any

import compare
import oracle
import pytest
from compare import check
from sequences import scripts

from penstock.errors import ProcessingError
from penstock.extractors import TimestampExtractor
from penstock.processor import FixedKeyProcessor, Processor
from penstock.serde import Serdes

TEXT = {"key": Serdes.string, "value": Serdes.string}
INPUTS = dict.fromkeys(("in", "in1", "in2", "in3", "orders-1", "orders-2"), (Serdes.string, Serdes.string))
DISTANCES = (1, 5, 50)


def check_all(seed: str, topology: Any, *, topics: tuple[str, ...] = ("in",), count: int = 10, **how: Any) -> None:
    for script in scripts(seed, DISTANCES, topics=topics, count=count):
        check(topology, script, inputs=INPUTS, **how)


# --- functions that both sides run; they must bear null keys and values


def short(key: Any, value: Any) -> bool:
    return value is None or value < "w"


def not_a(key: Any, value: Any) -> bool:
    return key != "a"


def louder(value: Any) -> Any:
    return None if value == "x" else f"{value}!"


def joined(key: Any, value: Any) -> Any:
    return f"{key}:{value}"


def swapped(key: Any, value: Any) -> Any:
    return value, key


def both(key: Any, value: Any) -> list[Any]:
    return [] if value == "y" else [(key, value), (value, key), (None, "n")]


def letters(value: Any) -> list[Any]:
    return [*(value or ""), None]


def key_letters(key: Any, value: Any) -> list[Any]:
    return [key, value]


def value_or_null(key: Any, value: Any) -> Any:
    return None if value == "s" else value


class Echo(Processor):
    """Forwards each record, and once more under another key and time."""

    def process(self, record: Any) -> None:
        self.context.forward(record)
        self.context.forward(record.with_key("echo").with_timestamp(record.timestamp + 1).with_headers([("e", None)]))


class Tag(FixedKeyProcessor):
    """Adds a header."""

    def process(self, record: Any) -> None:
        self.context.forward(record.with_headers([*record.headers, ("tag", b"1")]).with_value(f"{record.value}#"))


# --- one operator at a time

OPERATORS = {
    "filter": lambda stream: stream.filter(short),
    "filter, named": lambda stream: stream.filter(short, name="keep"),
    "filter_not": lambda stream: stream.filter_not(short),
    "select_key": lambda stream: stream.select_key(value_or_null),
    "map": lambda stream: stream.map(swapped, name="swap"),
    "flat_map": lambda stream: stream.flat_map(both),
    "map_values": lambda stream: stream.map_values(louder),
    "map_values with key": lambda stream: stream.map_values(joined, with_key=True, name="joined"),
    "flat_map_values": lambda stream: stream.flat_map_values(letters),
    "flat_map_values with key": lambda stream: stream.flat_map_values(key_letters, with_key=True),
    "peek": lambda stream: stream.peek(lambda key, value: None),
    "merge with itself": lambda stream: stream.merge(stream.map_values(louder)),
    "repartition": lambda stream: stream.repartition(**TEXT),
    "repartition, named": lambda stream: stream.repartition(**TEXT, name="moved"),
    "re-key and repartition": lambda stream: stream.select_key(value_or_null).repartition(**TEXT, partitions=1),
    "process": lambda stream: stream.process(Echo),
    "process_values": lambda stream: stream.process_values(Tag, name="tag"),
}


@pytest.mark.capability("KS1", "KS2", "KS3", "KS4", "KS6", "KS8", "KS9", "KS10", "KS16", "KS17")
@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str) -> None:
    def topology(builder: Any) -> None:
        OPERATORS[name](builder.stream("in", **TEXT)).to("out", **TEXT)

    check_all(f"operator {name}", topology)


@pytest.mark.capability("KS3", "ER2")
@pytest.mark.parametrize("verb", ["map", "flat_map"])
def test_a_null_result_of_map_and_flat_map_is_an_error(verb: str) -> None:
    def topology(builder: Any) -> None:
        getattr(builder.stream("in", **TEXT), verb)(lambda key, value: None).to("out", **TEXT)

    found = check(topology, [("in", "a", "x", 1)], inputs=INPUTS)
    assert found.penstock.failed == 0
    assert isinstance(found.penstock.error, ProcessingError)


@pytest.mark.capability("KS6")
@pytest.mark.parametrize("verb", ["peek", "foreach"])
def test_peek_and_foreach_see_every_record_in_order(verb: str) -> None:
    seen: dict[str, list[Any]] = {"kafka": [], "penstock": []}

    def topology(builder: Any) -> None:
        side = "kafka" if isinstance(builder, oracle.StreamsBuilder) else "penstock"
        getattr(builder.stream("in", **TEXT), verb)(lambda key, value: seen[side].append((key, value)))

    script = [("in", "a", "x", 1), ("in", None, "y", 0), ("in", "b", None, 5)]
    check(topology, script, inputs=INPUTS)
    assert seen["penstock"] == seen["kafka"] == [("a", "x"), (None, "y"), ("b", None)]


@pytest.mark.capability("KS5")
@pytest.mark.parametrize("label", ["label", None])
def test_print_writes_the_same_lines(tmp_path: Path, label: str | None) -> None:
    def topology(builder: Any) -> None:
        side = "kafka" if isinstance(builder, oracle.StreamsBuilder) else "penstock"
        builder.stream("in", **TEXT).print(label, file=str(tmp_path / side))

    check(topology, [("in", "a", "x", 1), ("in", "b", "y", 2)], inputs=INPUTS)
    assert (tmp_path / "penstock").read_text() == (tmp_path / "kafka").read_text()
    assert len((tmp_path / "penstock").read_text().splitlines()) == 2


BRANCHES = {
    "two and a default": lambda split: split.branch(short).branch(not_a).default(),
    "two and no default": lambda split: split.branch(short).branch(not_a).no_default(),
    "named": lambda split: split.branch(short, "short").branch(not_a, "other").default("rest"),
    "overlapping": lambda split: split.branch(not_a).branch(not_a).default("rest"),
    "a default only": lambda split: split.default(),
}


@pytest.mark.capability("KS7")
@pytest.mark.parametrize("prefix", [None, "split-"])
@pytest.mark.parametrize("name", BRANCHES)
def test_split(name: str, prefix: str | None) -> None:
    def topology(builder: Any) -> None:
        branches = BRANCHES[name](builder.stream("in", **TEXT).split(prefix))
        for number, (branch, stream) in enumerate(sorted(branches.items())):
            stream.map_values(lambda value, branch=branch: f"{branch} {value}").to(f"out-{number}", **TEXT)

    check_all(f"split {name} {prefix}", topology, count=5)


@pytest.mark.capability("KS8")
def test_merge_of_several_streams() -> None:
    def topology(builder: Any) -> None:
        first, second, third = (builder.stream(topic, **TEXT) for topic in ("in1", "in2", "in3"))
        first.merge(second.map_values(louder), name="two").merge(third.filter(not_a)).to("out", **TEXT)

    check_all("merge", topology, topics=("in1", "in2", "in3"))


@pytest.mark.capability("SB1", "KS10")
def test_one_stream_of_several_topics() -> None:
    def topology(builder: Any) -> None:
        builder.stream(["in1", "in2"], **TEXT).map_values(joined, with_key=True).to("out", **TEXT)

    check_all("topics", topology, topics=("in1", "in2"))


@pytest.mark.capability("SB1")
def test_one_stream_of_all_topics_that_match_a_pattern() -> None:
    def topology(builder: Any) -> None:
        builder.stream(re.compile("orders-.*"), **TEXT).to("out", **TEXT)

    check_all("pattern", topology, topics=("orders-1", "orders-2"))


@pytest.mark.capability("KS9")
def test_one_repartition_topic_with_two_readers() -> None:
    def topology(builder: Any) -> None:
        moved = builder.stream("in", **TEXT).select_key(value_or_null).repartition(**TEXT, name="moved")
        moved.filter(short).to("short", **TEXT)
        moved.select_key(lambda key, value: "all").repartition(**TEXT).map_values(louder).to("all", **TEXT)

    check_all("two repartitions", topology)


# --- sinks and sources

EXTRACTORS = {
    "by value": lambda key, value, context: "even" if short(key, value) else "odd",
    "by headers": lambda key, value, context: f"out-{len(context.headers)}",
    "by coordinates": lambda key, value, context: f"{context.topic}-{context.partition}-{context.offset % 3}",
    "by time": lambda key, value, context: f"out-{context.timestamp % 3}",
}


@pytest.mark.capability("KS10", "RT1")
@pytest.mark.parametrize("name", EXTRACTORS)
def test_topic_name_extractor(name: str) -> None:
    def topology(builder: Any) -> None:
        builder.stream("in", **TEXT).to(EXTRACTORS[name], **TEXT)

    check_all(f"extractor {name}", topology, count=5, describe=False)  # it shows the class of the extractor


@pytest.mark.capability("RT1")
def test_a_topic_name_extractor_sees_the_time_and_headers_that_a_processor_gave_the_record() -> None:
    def topology(builder: Any) -> None:
        stream = builder.stream("in", **TEXT).process(Echo)
        stream.to(lambda key, value, context: f"out-{len(context.headers)}-{context.timestamp % 2}", **TEXT)

    check_all("extractor after a processor", topology, describe=False)


PARTITIONERS = {
    "the default": lambda topic, key, value, partitions: None,
    "one": lambda topic, key, value, partitions: partitions - 1,
    "none": lambda topic, key, value, partitions: [],
    "several": lambda topic, key, value, partitions: list(range(partitions)),
    "mixed": lambda topic, key, value, partitions: None if key == "a" else [] if short(key, value) else [0],
}


@pytest.mark.capability("RT2", "RT3", "KS10")
@pytest.mark.parametrize("where", ["sink", "repartition"])
@pytest.mark.parametrize("name", PARTITIONERS)
def test_partitioner(name: str, where: str) -> None:
    def topology(builder: Any) -> None:
        stream = builder.stream("in", **TEXT)
        if where == "sink":
            stream.to("out", **TEXT, partitioner=PARTITIONERS[name])
        else:
            stream.repartition(**TEXT, partitioner=PARTITIONERS[name]).to("out", **TEXT)

    check_all(f"partitioner {name} {where}", topology, count=4)


def time_of_value(record: Any) -> int:
    return -1 if record.value is None else ord(record.value[0]) - ord("u")


def time_plus_partition_time(record: Any, partition_time: int) -> int:
    return int(record.timestamp if record.value else partition_time)


def time_of_coordinates(record: Any) -> int:
    return int(record.offset * 10 + len(record.headers) + len(record.topic) + record.partition)


TIMES = {
    "of the value, negative times dropped": time_of_value,
    "with the partition's time": time_plus_partition_time,
    "of coordinates": time_of_coordinates,
    "fail": TimestampExtractor.fail_on_invalid,
    "skip": TimestampExtractor.skip_on_invalid,
    "partition time": TimestampExtractor.partition_time_on_invalid,
    "wall clock": TimestampExtractor.wall_clock,
}


@pytest.mark.capability("RT4", "PA1")
@pytest.mark.parametrize("name", TIMES)
def test_timestamp_extractor(name: str) -> None:
    def topology(builder: Any) -> None:
        builder.stream("in", **TEXT, timestamp=TIMES[name]).map_values(joined, with_key=True).to("out", **TEXT)

    check_all(f"times {name}", topology, count=5)


@pytest.mark.capability("RT4")
def test_a_timestamp_extractor_that_raises_is_an_error() -> None:
    def topology(builder: Any) -> None:
        builder.stream("in", **TEXT, timestamp=lambda record: int(record.value)).to("out", **TEXT)

    found = check(topology, [("in", "a", "5", 1), ("in", "a", "x", 1)], inputs=INPUTS)
    assert found.penstock.failed == 1


# --- random chains

STEPS = [
    OPERATORS[name]
    for name in OPERATORS
    if name not in {"filter, named", "repartition, named", "map", "map_values with key", "process_values"}
] + [
    lambda stream: stream.map(swapped),
    lambda stream: stream.map_values(joined, with_key=True),
    lambda stream: stream.process_values(Tag),
    lambda stream: min(stream.split().branch(short).default().items())[1],
    lambda stream: stream.to_table(**TEXT).to_stream(),
]


def random_chain(seed: int) -> Any:
    def topology(builder: Any) -> None:
        rng = random.Random(seed)
        stream = builder.stream(["in1", "in2"], **TEXT)
        if rng.random() < 0.3:
            stream = stream.merge(builder.stream("in3", **TEXT))
        else:
            builder.stream("in3", **TEXT).filter_not(short).to("out3", **TEXT)
        for _ in range(rng.randint(2, 4)):
            stream = rng.choice(STEPS)(stream)
            if rng.random() < 0.2:
                stream.to(f"side-{rng.randint(0, 1 << 30)}", **TEXT)
        stream.to("out", **TEXT)

    return topology


@pytest.mark.capability("KS1", "KS2", "KS3", "KS4", "KS6", "KS7", "KS8", "KS9", "KS10", "KS11", "KS16", "KS17")
@pytest.mark.parametrize("block", range(10))
def test_random_chains(block: int) -> None:
    for seed in range(block * 10, block * 10 + 10):
        check_all(f"chain {seed}", random_chain(seed), topics=("in1", "in2", "in3"), count=4)


def test_a_difference_is_found() -> None:
    """The comparison itself is not blind: two different topologies differ."""

    def topology(builder: Any) -> None:
        changed = "!" if isinstance(builder, oracle.StreamsBuilder) else "?"
        builder.stream("in", **TEXT).map_values(lambda value: f"{value}{changed}").to("out", **TEXT)

    with pytest.raises(AssertionError, match="topic 'out' differs from record 0"):
        compare.check(topology, [("in", "a", "x", 1)], inputs=INPUTS)
