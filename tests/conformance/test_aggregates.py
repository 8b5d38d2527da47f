"""Aggregation of streams and of tables equals Kafka Streams': outputs, stores, changelogs, repartition topics."""

import random
from typing import Any

import pytest
from compare import check
from sequences import append, empty, glue, scripts

from penstock.serde import Serdes
from penstock.state.spec import Stores

TEXT = {"key": Serdes.string, "value": Serdes.string}
INPUTS = dict.fromkeys(("in", "in1", "in2"), (Serdes.string, Serdes.string))
DISTANCES = (1, 5, 50)


def check_all(seed: str, topology: Any, *, topics: tuple[str, ...] = ("in",), count: int = 15, **how: Any) -> None:
    for script in scripts(seed, DISTANCES, topics=topics, keys="aabc", count=count):
        check(topology, script, inputs=INPUTS, **how)


def by_value(key: Any, value: Any) -> Any:
    return None if value == "t" else value


# --- streams

AGGREGATIONS = {
    "count": (lambda grouped, **how: grouped.count(**how), Serdes.int64),
    "reduce": (lambda grouped, **how: grouped.reduce(glue, **how), Serdes.string),
    "aggregate": (lambda grouped, **how: grouped.aggregate(empty, append, value=Serdes.string, **how), Serdes.string),
}
GROUPINGS = {
    "by key": lambda stream: stream.group_by_key(**TEXT),
    "by key, named": lambda stream: stream.group_by_key(**TEXT, name="grouped"),
    "by another key": lambda stream: stream.group_by(by_value, **TEXT),
    "by another key, named": lambda stream: stream.group_by(by_value, **TEXT, name="grouped"),
    "by a key that changed before": lambda stream: stream.select_key(by_value).group_by_key(**TEXT),
}
STORES = {
    "no store": {},
    "a named node": {"name": "fold"},
    "a named store": {"store": "rows"},
    "both named": {"store": "rows", "name": "fold"},
    "an uncached store": {"store": Stores.key_value("rows", cached=False)},
    "a cached store": {"store": Stores.key_value("rows", cached=True)},
    "a store in memory": {"store": Stores.key_value("rows", persistent=False)},
    "an unlogged store": {"store": Stores.key_value("rows", logged=False)},
    "a versioned store": {"store": Stores.versioned("rows", 20)},
}


@pytest.mark.capability("KG1", "KG2", "KG3", "KS12")
@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("name", AGGREGATIONS)
def test_grouping(name: str, grouping: str) -> None:
    fold, value = AGGREGATIONS[name]

    def topology(builder: Any) -> None:
        fold(GROUPINGS[grouping](builder.stream("in", **TEXT)), store="rows").to_stream().to(
            "out", key=Serdes.string, value=value
        )

    check_all(f"grouping {name} {grouping}", topology, count=10)


@pytest.mark.capability("KG1", "KG2", "KG3", "ST1")
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", AGGREGATIONS)
def test_store(name: str, store: str) -> None:
    fold, value = AGGREGATIONS[name]

    def topology(builder: Any) -> None:
        table = fold(builder.stream("in", **TEXT).group_by_key(**TEXT), **STORES[store])
        table.to_stream().to("out", key=Serdes.string, value=value)

    check_all(f"store {name} {store}", topology, count=8)


@pytest.mark.capability("KG1", "KG2", "KG3", "KT1", "KT2", "KT6")
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("name", AGGREGATIONS)
def test_old_values_of_an_aggregate_reach_the_tables_below(name: str, cached: bool) -> None:
    """Without a cache the first old value is the initializer's, which a table below then takes out."""
    fold, value = AGGREGATIONS[name]

    def topology(builder: Any) -> None:
        rows = Stores.key_value("rows", cached=cached)
        table = fold(builder.stream("in", **TEXT).group_by_key(**TEXT), store=rows)
        regrouped = table.group_by(lambda key, total: ("all", f"{key}{total}"), **TEXT)
        history = regrouped.aggregate(
            lambda: "",
            lambda key, row, agg: f"{agg}+{row}"[-200:],
            lambda key, row, agg: f"{agg}-{row}"[-200:],
            value=Serdes.string,
            store=Stores.key_value("history", cached=cached),
        )
        history.to_stream().to("out", **TEXT)
        table.filter(lambda key, total: key != "b").to_stream().to("filtered", key=Serdes.string, value=value)

    check_all(f"old values {name} {cached}", topology, count=12)


@pytest.mark.capability("KG1", "KG3", "CO4")
def test_two_aggregations_of_one_grouped_stream() -> None:
    def topology(builder: Any) -> None:
        grouped = builder.stream("in", **TEXT).group_by(by_value, **TEXT)
        grouped.count(store="counts").to_stream().to("counts", key=Serdes.string, value=Serdes.int64)
        grouped.reduce(glue, store="values").to_stream().to("values", **TEXT)

    check_all("two aggregations", topology)


@pytest.mark.capability("KG3")
def test_an_aggregate_of_other_types() -> None:
    def topology(builder: Any) -> None:
        grouped = builder.stream("in", **TEXT).group_by_key(**TEXT)
        table = grouped.aggregate(
            lambda: 0.5, lambda key, value, agg: agg + ord(value) / 8, store="sums", value=Serdes.float64
        )
        table.map_values(lambda total: int(total)).to_stream().to("out", key=Serdes.string, value=Serdes.int32)

    check_all("types", topology)


@pytest.mark.capability("KG3", "ER2")
def test_an_aggregator_that_raises_is_an_error_on_the_same_record() -> None:
    def topology(builder: Any) -> None:
        grouped = builder.stream("in", **TEXT).group_by_key(**TEXT)
        grouped.aggregate(lambda: 0, lambda key, value, agg: agg + int(value), store="s", value=Serdes.int64)

    found = check(topology, [("in", "a", "1", 0), ("in", "a", "x", 1), ("in", "a", "2", 2)], inputs=INPUTS)
    assert found.penstock.failed == 1


# --- tables


def first_letter(key: Any, value: Any) -> Any:
    if value == "s":
        return (None, value)
    return ("ab"[ord(value[0]) % 2], value)


def same_key(key: Any, value: Any) -> Any:
    return (key, value)


def nothing_for_t(key: Any, value: Any) -> Any:
    return (key, None) if value == "t" else ("one", value)


def add(key: Any, value: Any, agg: Any) -> Any:
    return f"{agg}+{value}"


def subtract(key: Any, value: Any, agg: Any) -> Any:
    return None if value == "z" else f"{agg}-{value}"


TABLE_AGGREGATIONS = {
    "count": (lambda grouped, **how: grouped.count(**how), Serdes.int64),
    "reduce": (
        lambda grouped, **how: grouped.reduce(
            lambda agg, value: f"{agg}+{value}", lambda agg, value: None if value == "z" else f"{agg}-{value}", **how
        ),
        Serdes.string,
    ),
    "aggregate": (
        lambda grouped, **how: grouped.aggregate(empty, add, subtract, value=Serdes.string, **how),
        Serdes.string,
    ),
}
SELECTORS = {"another key": first_letter, "the same key": same_key, "one key, some rows left out": nothing_for_t}


@pytest.mark.capability("KGT1", "KT6")
@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("name", TABLE_AGGREGATIONS)
def test_grouped_table(name: str, selector: str) -> None:
    fold, value = TABLE_AGGREGATIONS[name]

    def topology(builder: Any) -> None:
        grouped = builder.table("in", **TEXT).group_by(SELECTORS[selector], **TEXT)
        fold(grouped, store="rows").to_stream().to("out", key=Serdes.string, value=value)

    check_all(f"grouped table {name} {selector}", topology, count=12)


@pytest.mark.capability("KGT1", "ST1")
@pytest.mark.parametrize("store", [name for name in STORES if name not in ("a versioned store",)])
def test_grouped_table_store(store: str) -> None:
    def topology(builder: Any) -> None:
        grouped = builder.table("in", **TEXT, store="table").group_by(first_letter, **TEXT, name="by-letter")
        fold, _ = TABLE_AGGREGATIONS["aggregate"]
        fold(grouped, **STORES[store]).to_stream().to("out", **TEXT)

    check_all(f"grouped table store {store}", topology, count=8)


@pytest.mark.capability("KGT1", "KT6", "ST4")
@pytest.mark.parametrize("name", TABLE_AGGREGATIONS)
def test_a_grouped_versioned_table_ignores_out_of_order_updates(name: str) -> None:
    fold, value = TABLE_AGGREGATIONS[name]

    def topology(builder: Any) -> None:
        table = builder.table("in", **TEXT, store=Stores.versioned("versions", 30))
        grouped = table.group_by(first_letter, **TEXT)
        fold(grouped, store="rows").to_stream().to("out", key=Serdes.string, value=value)

    check_all(f"versioned {name}", topology, count=10)


@pytest.mark.capability("KGT1")
def test_a_grouped_table_whose_adder_returns_none_loses_its_row() -> None:
    def topology(builder: Any) -> None:
        grouped = builder.table("in", **TEXT).group_by(lambda key, value: ("g", value), **TEXT)
        table = grouped.aggregate(
            empty,
            lambda key, value, agg: None if value == "x" else agg + value,
            lambda key, value, agg: agg + value.upper(),
            store="rows",
            value=Serdes.string,
        )
        table.to_stream().to("out", **TEXT)

    check_all("adder of none", topology)


# --- random topologies


def random_aggregation(seed: int) -> Any:
    """A stream or a table, grouped, aggregated, filtered or mapped, and often grouped and aggregated again."""

    def topology(builder: Any) -> None:
        rng = random.Random(seed)
        stores = iter(f"store-{number}" for number in range(9))

        def store() -> dict[str, Any]:
            choice = rng.random()
            if choice < 0.4:
                return {"store": next(stores)}
            return {} if choice < 0.6 else {"store": Stores.key_value(next(stores), cached=rng.random() < 0.5)}

        if rng.random() < 0.5:
            stream = builder.stream(["in1", "in2"], **TEXT)
            grouped = GROUPINGS[rng.choice(list(GROUPINGS))](stream)
            fold, _ = AGGREGATIONS[rng.choice(list(AGGREGATIONS))]
        else:
            table = builder.table("in1", **TEXT, **store())
            grouped = table.group_by(rng.choice(list(SELECTORS.values())), **TEXT)
            fold, _ = TABLE_AGGREGATIONS[rng.choice(list(TABLE_AGGREGATIONS))]
            builder.stream("in2", **TEXT).to("out2", **TEXT)
        table = fold(grouped, **store()).map_values(lambda value: f"={value}"[-60:], value=Serdes.string)
        if rng.random() < 0.4:
            table = table.filter(lambda key, value: len(value) % 3 != 0, **store())
        if rng.random() < 0.5:
            grouped = table.group_by(lambda key, value: (value[-1], value), **TEXT)
            table = TABLE_AGGREGATIONS["aggregate"][0](grouped, **store()).map_values(lambda value: value[-60:])
        table.to_stream().to("out", **TEXT)

    return topology


@pytest.mark.capability("KG1", "KG2", "KG3", "KGT1", "KT1", "KT2", "KT6", "KS12")
@pytest.mark.parametrize("block", range(10))
def test_random_aggregations(block: int) -> None:
    for seed in range(block * 8, block * 8 + 8):
        check_all(f"aggregation {seed}", random_aggregation(seed), topics=("in1", "in2"), count=4)
