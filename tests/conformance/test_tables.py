"""Tables equal Kafka Streams': sources, filter, map_values, transform_values, to_stream, to_table; with stores and without."""

import random
from typing import Any

import pytest
from compare import check
from random_scripts import led_by
from sequences import scripts

from penstock.processor import PunctuationType, ValueTransformer
from penstock.serde import Serdes
from penstock.state.spec import Stores

TEXT = {"key": Serdes.string, "value": Serdes.string}
INPUTS = dict.fromkeys(("in", "in1", "in2"), (Serdes.string, Serdes.string))
DISTANCES = (1, 5, 50)


def check_all(seed: str, topology: Any, *, topics: tuple[str, ...] = ("in",), count: int = 10, **how: Any) -> None:
    for steps in scripts(seed, DISTANCES, topics=topics, keys="aabc", count=count):
        script = led_by(steps, topics[0])
        check(topology, script, inputs=INPUTS, **how)


def short(key: Any, value: Any) -> bool:
    return value < "w"


def louder(value: Any) -> Any:
    return None if value.startswith("x") else f"{value}!"


def joined(key: Any, value: Any) -> Any:
    return f"{key}:{value}"


class Described(ValueTransformer):
    """Shows what it is called with, tombstones too."""

    def transform(self, key: Any, value: Any) -> Any:
        return None if value == "y" else f"{key}={value}"


class Numbered(ValueTransformer):
    """Counts in a store how often a key was seen."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.seen = context.store("seen")

    def transform(self, key: Any, value: Any) -> Any:
        times = (self.seen.get(key) or 0) + 1
        self.seen.put(key, times)
        return f"{value}#{times}"


class Punctuated(ValueTransformer):
    """Counts punctuations."""

    def init(self, context: Any) -> None:
        self.times = 0
        context.schedule(5, PunctuationType.STREAM_TIME, self.punctuate)

    def punctuate(self, timestamp: int) -> None:
        self.times += 1

    def transform(self, key: Any, value: Any) -> Any:
        return f"{value}{self.times}"


def typed(how: dict[str, Any]) -> dict[str, Any]:
    """Say of which type the rows of a store are. Without a store Kafka takes a serde for an unnamed materialization."""
    return {**how, "value": Serdes.string} if "store" in how else how


# --- sources

SOURCES = {
    "no store": {},
    "a named store": {"store": "rows"},
    "a named node": {"name": "source", "store": "rows"},
    "an uncached store": {"store": Stores.key_value("rows", cached=False)},
    "a store in memory": {"store": Stores.key_value("rows", persistent=False)},
    "an unlogged store": {"store": Stores.key_value("rows", logged=False)},
    "a versioned store": {"store": Stores.versioned("rows", 20)},
}


@pytest.mark.capability("SB2", "KT4", "ST1", "ST4")
@pytest.mark.parametrize("optimize", [(), ("reuse_ktable_source_topics",)])
@pytest.mark.parametrize("name", SOURCES)
def test_source(name: str, optimize: tuple[str, ...]) -> None:
    def topology(builder: Any) -> None:
        builder.table("in", **TEXT, **SOURCES[name]).to_stream().to("out", **TEXT)

    check_all(f"source {name} {optimize}", topology, optimize=optimize, count=6)


@pytest.mark.capability("KS11", "KT4")
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("name", [name for name in SOURCES if name != "a named node"])
def test_to_table(name: str, moved: bool) -> None:
    def topology(builder: Any) -> None:
        stream = builder.stream("in", **TEXT)
        if moved:
            stream = stream.select_key(lambda key, value: None if value is None else value[0])
        stream.to_table(**TEXT, **SOURCES[name]).to_stream().to("out", **TEXT)

    check_all(f"to_table {name} {moved}", topology, count=6)


@pytest.mark.capability("KS11")
def test_to_table_with_a_name_after_a_re_key() -> None:
    def topology(builder: Any) -> None:
        stream = builder.stream("in", **TEXT).select_key(joined)
        stream.to_table(**TEXT, name="tabled", store="rows").to_stream(name="back").to("out", **TEXT)

    check_all("to_table named", topology)


# --- operators, each with and without a store, above a table with and without one

OPERATORS = {
    "filter": lambda table, **how: table.filter(short, **how),
    "filter_not": lambda table, **how: table.filter_not(short, **how),
    "map_values": lambda table, **how: table.map_values(louder, **how),
    "map_values with key": lambda table, **how: table.map_values(joined, with_key=True, **how),
    "transform_values": lambda table, **how: table.transform_values(Described, **how),
    "transform_values with a punctuation": lambda table, **how: table.transform_values(Punctuated, **how),
}
RESULT_STORES = {
    "no store": {},
    "a named node": {"name": "op"},
    "a store": {"store": "result"},
    "both named": {"store": "result", "name": "op"},
    "an uncached store": {"store": Stores.key_value("result", cached=False)},
    "a versioned store": {"store": Stores.versioned("result", 25)},
}


@pytest.mark.capability("KT1", "KT2", "KT3", "KT4")
@pytest.mark.parametrize("store", RESULT_STORES)
@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str, store: str) -> None:
    def topology(builder: Any) -> None:
        table = builder.table("in", **TEXT)
        OPERATORS[name](table, **typed(RESULT_STORES[store])).to_stream().to("out", **TEXT)

    check_all(f"operator {name} {store}", topology, count=5)


@pytest.mark.capability("KT1", "KT2", "KT3", "ST4")
@pytest.mark.parametrize("source", ["a named store", "an uncached store", "a versioned store"])
@pytest.mark.parametrize("name", OPERATORS)
def test_operator_above_a_store(name: str, source: str) -> None:
    def topology(builder: Any) -> None:
        table = builder.table("in", **TEXT, **SOURCES[source])
        OPERATORS[name](table).to_stream().to("out", **TEXT)

    check_all(f"operator {name} above {source}", topology, count=6)


@pytest.mark.capability("KT1", "KT2", "KT3", "KT6")
@pytest.mark.parametrize("source", ["no store", "an uncached store", "a versioned store"])
@pytest.mark.parametrize("store", ["no store", "a store", "an uncached store"])
@pytest.mark.parametrize("name", [name for name in OPERATORS if "punctuation" not in name])
def test_old_values_pass_through_an_operator(name: str, store: str, source: str) -> None:
    """A grouping below asks for old values: the aggregate shows every subtraction and addition."""

    def topology(builder: Any) -> None:
        table = OPERATORS[name](builder.table("in", **TEXT, **SOURCES[source]), **typed(RESULT_STORES[store]))
        grouped = table.group_by(lambda key, value: (key, value), **TEXT)
        history = grouped.aggregate(
            lambda: "",
            lambda key, value, agg: f"{agg}+{value}"[-100:],
            lambda key, value, agg: f"{agg}-{value}"[-100:],
            value=Serdes.string,
            store="history",
        )
        history.to_stream().to("out", **TEXT)

    check_all(f"old values {name} {store} {source}", topology, count=4)


@pytest.mark.capability("KT3")
@pytest.mark.parametrize("store", ["no store", "a store"])
def test_transform_values_uses_a_store_of_its_own(store: str) -> None:
    def topology(builder: Any) -> None:
        builder.add_state_store(Stores.key_value("seen", key=Serdes.string, value=Serdes.int64))
        table = builder.table("in", **TEXT)
        table.transform_values(Numbered, ["seen"], **typed(RESULT_STORES[store])).to_stream().to("out", **TEXT)

    check_all(f"transform {store}", topology)


@pytest.mark.capability("KT4")
def test_to_stream_with_another_key() -> None:
    def topology(builder: Any) -> None:
        builder.table("in", **TEXT).to_stream(key=joined).to("out", **TEXT)

    check_all("to_stream", topology)


@pytest.mark.capability("KT1", "KT2", "KT3", "KT7")
@pytest.mark.parametrize("name", OPERATORS)
def test_a_table_without_a_store_is_read_through_its_parents(name: str) -> None:
    """A join reads both sides by key; neither has a store of its own."""

    def topology(builder: Any) -> None:
        left = OPERATORS[name](builder.table("in1", **TEXT))
        right = builder.table("in2", **TEXT).map_values(louder).filter_not(lambda key, value: value == "s!")
        left.left_join(right, lambda one, other: f"{one}/{other}").to_stream().to("out", **TEXT)

    check_all(f"read through {name}", topology, topics=("in1", "in2"))


@pytest.mark.capability("KT2", "KS14")
def test_a_stream_reads_a_mapped_table() -> None:
    def topology(builder: Any) -> None:
        table = builder.table("in1", **TEXT).filter(short).map_values(joined, with_key=True)
        stream = builder.stream("in2", **TEXT).join(table, lambda value, row: f"{value}/{row}")
        stream.to("out", **TEXT)

    check_all("stream reads", topology, topics=("in1", "in2"))


# --- random chains


def random_chain(seed: int) -> Any:
    """A table source, up to four operators with and without stores, and one or two ends."""

    def topology(builder: Any) -> None:
        rng = random.Random(seed)
        stores = iter(f"store-{number}" for number in range(9))

        def store() -> dict[str, Any]:
            choice = rng.random()
            if choice < 0.5:
                return {}
            if choice < 0.7:
                return {"store": next(stores)}
            if choice < 0.9:
                return {"store": Stores.key_value(next(stores), cached=rng.random() < 0.5)}
            return {"store": Stores.versioned(next(stores), rng.choice((10, 40)))}

        def op_store() -> dict[str, Any]:
            return typed(store())

        if rng.random() < 0.5:
            table = builder.table("in1", **TEXT, **store())
        else:
            table = builder.stream("in1", **TEXT).to_table(**TEXT, **store())
        builder.stream("in2", **TEXT).to("out2", **TEXT)
        for _ in range(rng.randint(1, 4)):
            table = OPERATORS[rng.choice(list(OPERATORS))](table, **op_store()).map_values(lambda value: value[-20:])
            if rng.random() < 0.3:
                table.to_stream().to(f"side-{rng.randint(0, 1 << 30)}", **TEXT)
        if rng.random() < 0.5:
            grouped = table.group_by(lambda key, value: (value[-1:] or None, value), **TEXT)
            table = grouped.reduce(
                lambda agg, value: f"{agg}+{value}"[-40:], lambda agg, value: f"{agg}-{value}"[-40:], **op_store()
            )
        table.to_stream().to("out", **TEXT)

    return topology


@pytest.mark.capability("KT1", "KT2", "KT3", "KT4", "KT6", "KS11", "KGT1", "SB2")
@pytest.mark.parametrize("block", range(10))
def test_random_chains(block: int) -> None:
    for seed in range(block * 8, block * 8 + 8):
        check_all(f"chain {seed}", random_chain(seed), topics=("in1", "in1", "in2"), count=4)
