"""Foreign-key joins: random scripts through the real Kafka Streams and through Penstock."""

from random import Random

import pytest
from compare import check
from random_scripts import script, share_of

from penstock.serde import Serdes
from penstock.state.spec import Stores

TEXT = (Serdes.string, Serdes.string)
STRINGS = {"key": Serdes.string, "value": Serdes.string}
INPUTS = {"left": TEXT, "right": TEXT}
EDGES = (1, 2, 5, 10, 11)
HISTORY = 1000
METHODS = ("join", "left_join")


def joined(left, right):
    return f"{left}+{right}"


def first_letter(value):
    """The foreign key; rows that begin with z have none."""
    return None if value.startswith("z") else value[0]


def key_and_letter(key, value):
    return None if value.startswith("z") else key + value[0]


TABLES = {
    "plain": lambda builder, topic: builder.table(topic, **STRINGS),
    "stored": lambda builder, topic: builder.table(topic, store=f"{topic}-rows", **STRINGS),
    "filtered": lambda builder, topic: builder.table(topic, **STRINGS).filter(lambda key, value: "5" not in value),
    "versioned": lambda builder, topic: builder.table(
        topic, store=Stores.versioned(f"{topic}-rows", history=HISTORY), **STRINGS
    ),
}


def foreign_key_join(method, left, right, foreign_key=first_letter, **how):
    def topology(builder):
        tables = TABLES[left](builder, "left"), TABLES[right](builder, "right")
        table = getattr(tables[0], method)(tables[1], joined, foreign_key=foreign_key, **how)
        table.to_stream().to("out", **STRINGS)

    return topology


def foreign_key_script(random, foreign_keys=("x", "y", "w")):
    """Left rows have the keys 1 to 3 and name x, y or z (nothing); right rows are keyed by what left rows name."""
    steps = script(random, ("left", "right"), EDGES, length=28, keys=("1", "2", "3"), nulls=0.25)
    remap = {"1": foreign_keys[0], "2": foreign_keys[1], "3": foreign_keys[2], None: None}
    return [(topic, key if topic == "left" else remap[key], *rest) for topic, key, *rest in steps]


@pytest.mark.capability("KT8", "CO7")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("plain", "plain"),
        ("stored", "filtered"),
        ("filtered", "stored"),
        ("versioned", "plain"),
        ("plain", "versioned"),
    ],
)
def test_random_scripts(method, left, right):
    for seed in range(share_of(36)):
        random = Random(f"{method}{left}{right}{seed}")
        how = {} if seed % 3 else {"store": "result", **STRINGS}
        name = {"name": "fk"} if seed % 2 else {}
        check(foreign_key_join(method, left, right, **how, **name), foreign_key_script(random), inputs=INPUTS)


@pytest.mark.capability("KT8")
@pytest.mark.parametrize("method", METHODS)
def test_foreign_keys_of_key_and_value(method):
    for seed in range(share_of(36)):
        steps = foreign_key_script(Random(f"both{method}{seed}"), foreign_keys=("1x", "2y", "1y"))
        check(foreign_key_join(method, "plain", "plain", key_and_letter), steps, inputs=INPUTS)


@pytest.mark.capability("KT8")
@pytest.mark.parametrize("method", METHODS)
def test_a_foreign_key_changes_and_changes_back(method):
    steps = [
        ("right", "x", "X", 1),
        ("left", "1", "x1", 2),
        ("left", "1", "y1", 3),
        ("left", "1", "x1", 4),
        ("right", "y", "Y", 5),
        ("left", "1", "y1", 1),
        ("right", "x", None, 2),
        ("left", "1", "z1", 7),
        ("left", "1", None, 8),
        ("left", "1", None, 9),
        ("left", "1", "y1", 9),
        ("right", "y", "Y", 9),
        ("right", "y", None, 9),
    ]
    check(foreign_key_join(method, "plain", "plain"), steps, inputs=INPUTS)


@pytest.mark.capability("KT8")
@pytest.mark.parametrize("method", METHODS)
def test_a_table_joined_with_itself(method):
    def topology(builder):
        table = builder.table("left", **STRINGS)
        getattr(table, method)(table, joined, foreign_key=first_letter).to_stream().to("out", **STRINGS)

    for seed in range(share_of(36)):
        steps = script(Random(f"self{method}{seed}"), ("left",), EDGES, keys=("x", "y", "w"), nulls=0.25)
        check(topology, steps, inputs=INPUTS)


@pytest.mark.capability("KT8", "KT7")
@pytest.mark.parametrize("method", METHODS)
def test_a_join_of_a_foreign_key_join(method):
    def topology(builder):
        left, right = builder.table("left", **STRINGS), builder.table("right", **STRINGS)
        table = getattr(left, method)(right, joined, foreign_key=first_letter, store="result", **STRINGS)
        table.left_join(left, joined).to_stream().to("out", **STRINGS)

    for seed in range(share_of(24)):
        check(topology, foreign_key_script(Random(f"then{method}{seed}")), inputs=INPUTS)
