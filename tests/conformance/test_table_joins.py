"""Table-table joins by key: random scripts through the real Kafka Streams and through Penstock."""

from random import Random

import pytest
from compare import check
from random_scripts import script, share_of

from penstock.serde import Serdes
from penstock.state.spec import Stores

TEXT = (Serdes.string, Serdes.string)
STRINGS = {"key": Serdes.string, "value": Serdes.string}
INPUTS = {"left": TEXT, "right": TEXT, "third": TEXT}
EDGES = (1, 2, 5, 10, 11)
HISTORY = 1000
METHODS = ("join", "left_join", "outer_join")


def joined(left, right):
    return f"{left}+{right}"


def sometimes_none(left, right):
    return None if left and left.startswith("z") else f"{left}+{right}"


def not_z(key, value):
    return not value.startswith("z")


def short(value):
    return value[:1]


TABLES = {
    "plain": lambda builder, topic: builder.table(topic, **STRINGS),
    "stored": lambda builder, topic: builder.table(topic, store=f"{topic}-rows", **STRINGS),
    "filtered": lambda builder, topic: builder.table(topic, **STRINGS).filter(not_z),
    "mapped and stored": lambda builder, topic: builder.table(topic, **STRINGS).map_values(
        short, store=f"{topic}-mapped", **STRINGS
    ),
    "versioned": lambda builder, topic: builder.table(
        topic, store=Stores.versioned(f"{topic}-rows", history=HISTORY), **STRINGS
    ),
    "versioned, filtered": lambda builder, topic: builder.table(
        topic, store=Stores.versioned(f"{topic}-rows", history=HISTORY), **STRINGS
    ).filter(not_z),
}


def table_join(method, left, right, joiner=joined, result=None, after=lambda table: table):
    def topology(builder):
        tables = TABLES[left](builder, "left"), TABLES[right](builder, "right")
        how = {} if result is None else {"store": result, **STRINGS}
        table = getattr(tables[0], method)(tables[1], joiner, **how)
        after(table).to_stream().to("out", **STRINGS)

    return topology


@pytest.mark.capability("KT7")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("plain", "plain"),
        ("filtered", "mapped and stored"),
        ("versioned", "plain"),
        ("plain", "versioned"),
        ("versioned", "versioned"),
        ("versioned, filtered", "stored"),
    ],
)
def test_random_scripts(method, left, right):
    for seed in range(share_of(36)):
        steps = script(Random(f"{method}{left}{right}{seed}"), ("left", "right"), EDGES, nulls=0.3)
        result = "result" if seed % 3 == 0 else None
        joiner = sometimes_none if seed % 2 else joined
        check(table_join(method, left, right, joiner, result), steps, inputs=INPUTS)


@pytest.mark.capability("KT7")
@pytest.mark.parametrize("method", METHODS)
def test_results_kept_in_a_versioned_store(method):
    for seed in range(share_of(36)):
        steps = script(Random(f"{method}{seed}"), ("left", "right"), EDGES, nulls=0.3)
        result = Stores.versioned("result", history=HISTORY)
        check(table_join(method, "plain", "versioned", result=result), steps, inputs=INPUTS)


@pytest.mark.capability("KT7")
@pytest.mark.parametrize("method", METHODS)
def test_versioned_tables_with_a_short_history(method):
    def topology(builder):
        left, right = (
            builder.table(topic, store=Stores.versioned(f"{topic}-rows", history=history), **STRINGS)
            for topic, history in (("left", 5), ("right", 0))
        )
        getattr(left, method)(right, joined).to_stream().to("out", **STRINGS)

    for seed in range(share_of(36)):
        steps = script(Random(f"short{method}{seed}"), ("left", "right"), EDGES, nulls=0.3)
        # how long a store still holds what can no longer be asked for is its own affair; what it refuses is not logged
        check(topology, steps, inputs=INPUTS, stores=False, changelogs=False)


AFTER = {
    "filtered": lambda table: table.filter(not_z),
    "mapped": lambda table: table.map_values(short, store="short", **STRINGS),
    "counted": lambda table: (
        table.group_by(lambda key, value: (value[0], value), **STRINGS)
        .reduce(joined, lambda agg, value: f"{agg}-{value}", **STRINGS)
    ),
}  # fmt: skip


@pytest.mark.capability("KT7")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("after", AFTER)
def test_what_follows_a_join(method, after):
    for seed in range(share_of(30)):
        steps = script(Random(f"{method}{after}{seed}"), ("left", "right"), EDGES, nulls=0.3)
        result = "result" if seed % 2 else None
        check(table_join(method, "plain", "stored", result=result, after=AFTER[after]), steps, inputs=INPUTS)


@pytest.mark.capability("KT7")
@pytest.mark.parametrize("first", METHODS)
@pytest.mark.parametrize("second", METHODS)
def test_joins_of_joins(first, second):
    def topology(builder):
        left, right, third = (builder.table(topic, **STRINGS) for topic in ("left", "right", "third"))
        both = getattr(left, first)(right, joined)
        getattr(both, second)(third, joined).to_stream().to("out", **STRINGS)
        getattr(third, second)(both, joined).to_stream().to("out2", **STRINGS)

    for seed in range(share_of(20)):
        steps = script(Random(f"{first}{second}{seed}"), ("left", "right", "third"), EDGES, nulls=0.3)
        check(topology, steps, inputs=INPUTS)
