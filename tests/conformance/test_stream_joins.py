"""Stream-stream joins: random scripts through the real Kafka Streams and through Penstock, everything compared."""

from random import Random

import pytest
from compare import check, kafka_side, penstock_side, run_both
from random_scripts import ended, results, script, share_of

from penstock.errors import TopologyError
from penstock.serde import Serdes
from penstock.state.spec import Stores
from penstock.windows import JoinWindows

TEXT = (Serdes.string, Serdes.string)
INPUTS = {"left": TEXT, "right": TEXT}
WINDOWS = (
    {"difference": 5},
    {"difference": 5, "grace": 3},
    {"difference": 0, "after": 1},
    {"difference": 3, "before": 0, "after": 6, "grace": 2},
    {"difference": 3, "before": 6, "after": 0},
    {"difference": 3, "before": -2, "after": 6, "grace": 1},
)
EDGES = (2, 3, 5, 6, 8, 10, 13)
#: with the larger scale, stores drop segments and refuse expired rows
SCALES = (1, 20_000)


def windows(spec, scale):
    return JoinWindows(**{name: number * scale for name, number in spec.items()})


def joined(left, right):
    return f"{left}+{right}"


def joined_with_key(key, left, right):
    return f"{key}:{left}+{right}"


def stream_join(method, window, with_key=False, **how):
    joiner = joined_with_key if with_key else joined

    def topology(builder):
        left = builder.stream("left", key=Serdes.string, value=Serdes.string)
        right = builder.stream("right", key=Serdes.string, value=Serdes.string)
        result = getattr(left, method)(right, joiner, window=window, with_key=with_key, **how)
        result.to("out", key=Serdes.string, value=Serdes.string)

    return topology


def check_join(method, topology, steps, window=JoinWindows(5, grace=2)):
    """Compare everything; of left and outer joins what each key has in the end.

    Kafka lets a row without a match wait on when its window is closed, depending on the other keys of its partition; ours leaves
    at once, without headers (docs/differences.md). So no record comes after the window of an earlier one was closed, and in
    the end time goes on far enough for Kafka, too.
    """
    if method == "join":
        check(topology, steps, inputs=INPUTS, in_memory=False)
        return
    both = run_both(topology, ended(steps, window), inputs=INPUTS, in_memory=False)
    assert (both.kafka.failed, both.penstock.failed) == (None, None)
    assert results(both.penstock.output) == results(both.kafka.output)


@pytest.mark.capability("KS13", "CO6")
@pytest.mark.parametrize("method", ["join", "left_join", "outer_join"])
@pytest.mark.parametrize("scale", SCALES)
def test_random_scripts(method, scale):
    for seed in range(share_of(60 if scale == 1 else 48)):
        random = Random(f"{method}{scale}{seed}")
        window = windows(WINDOWS[seed % len(WINDOWS)], scale)
        steps = script(random, ("left", "right"), EDGES, scale=scale)
        check_join(method, stream_join(method, window, with_key=seed % 2 == 1), steps, window)


@pytest.mark.capability("KS13")
@pytest.mark.parametrize("method", ["join", "left_join", "outer_join"])
def test_windows_without_a_length(method):
    # Kafka cannot list a store of such windows: output and changelogs are compared
    for seed in range(share_of(20)):
        random = Random(f"{method}{seed}")
        steps = script(random, ("left", "right"), EDGES)
        window = JoinWindows(0, grace=random.choice([0, 4]))
        topology = stream_join(method, window)
        if method != "join":
            steps = ended(steps, window)
        kafka, penstock = (all_output(side, topology, steps) for side in (kafka_side(in_memory=False), penstock_side()))
        if method == "join":
            assert penstock == kafka
        else:
            assert results(penstock) == results(kafka)


def all_output(side, topology, steps):
    builder = side.builder()
    topology(builder)
    with side.driver(builder.build(), {}) as driver:
        for topic, *record in steps:
            driver.input_topic(topic, key=Serdes.string, value=Serdes.string).pipe(*record)
        return driver.all_output()


@pytest.mark.capability("KS13", "CO6")
@pytest.mark.parametrize("method", ["join", "left_join", "outer_join"])
def test_named_joins_with_named_stores(method):
    for seed in range(share_of(10)):
        steps = script(Random(seed), ("left", "right"), EDGES)
        topology = stream_join(method, JoinWindows(5, grace=2), name="joined", store="kept")
        check_join(method, topology, steps)


def side(name, **options):
    return Stores.window(name, retention=12, size=10, retain_duplicates=True, **options)


MEMORY = {"persistent": False}
STORES = {
    "in memory": Stores.window("kept", 12, 10, persistent=False),
    "not logged": Stores.window("kept", 12, 10, logged=False),
    "in memory, not logged": Stores.window("kept", 12, 10, persistent=False, logged=False),
    "one a side": (side("ours"), side("theirs")),
    "one a side in memory": (side("ours", **MEMORY), side("theirs", **MEMORY)),
    "one of each": (side("ours", **MEMORY), side("theirs")),
    "this": (side("ours"), None),
    "other": (None, side("theirs", **MEMORY)),
}


@pytest.mark.capability("KS13", "CO6")
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("method", ["join", "left_join", "outer_join"])
def test_stores_of_a_join(method, store):
    for seed in range(share_of(4)):
        steps = script(Random(f"{store}{seed}"), ("left", "right"), EDGES)
        name = "joined" if seed % 2 else None
        topology = stream_join(method, JoinWindows(5, grace=2), name=name, store=STORES[store])
        check_join(method, topology, steps)


WRONG = {
    "no duplicates": (Stores.window("ours", 12, 10), side("theirs")),
    "another retention": (side("ours"), Stores.window("theirs", 13, 10, retain_duplicates=True)),
    "another size": (side("ours"), Stores.window("theirs", 12, 9, retain_duplicates=True)),
    "the same name": (side("ours"), side("ours", **MEMORY)),
}


@pytest.mark.capability("CO6")
@pytest.mark.parametrize("wrong", WRONG)
def test_stores_that_kafka_refuses_are_refused(wrong):
    both = run_both(stream_join("join", JoinWindows(5, grace=2), store=WRONG[wrong]), [], inputs=INPUTS)
    assert (both.kafka.failed, both.penstock.failed) == (-1, -1)
    assert isinstance(both.penstock.error, TopologyError)


@pytest.mark.capability("KS13")
@pytest.mark.parametrize("method", ["join", "left_join", "outer_join"])
def test_joins_of_re_keyed_streams(method):
    def topology(builder):
        left = builder.stream("left", key=Serdes.string, value=Serdes.string).select_key(lambda k, v: v and v[0])
        right = builder.stream("right", key=Serdes.string, value=Serdes.string).select_key(lambda k, v: v and v[0])
        how = {"key": Serdes.string, "value": Serdes.string, "other_value": Serdes.string}
        result = getattr(left, method)(right, joined, window=JoinWindows(5, grace=2), **how)
        result.to("out", key=Serdes.string, value=Serdes.string)

    for seed in range(share_of(20)):
        steps = script(Random(f"re-keyed{seed}"), ("left", "right"), EDGES)
        check_join(method, topology, steps)


def self_join(window, with_key):
    joiner = joined_with_key if with_key else joined

    def topology(builder):
        stream = builder.stream("left", key=Serdes.string, value=Serdes.string)
        result = stream.join(stream, joiner, window=window, with_key=with_key)
        result.to("out", key=Serdes.string, value=Serdes.string)

    return topology


@pytest.mark.capability("KS13")
@pytest.mark.parametrize("optimize", [(), ("single_store_self_join",)], ids=["two stores", "one store"])
@pytest.mark.parametrize("scale", SCALES)
def test_self_joins(optimize, scale):
    for seed in range(share_of(78)):
        random = Random(f"self{scale}{seed}")
        window = windows(WINDOWS[seed % len(WINDOWS)], scale)
        steps = script(random, ("left",), EDGES, scale=scale, length=16)
        topology = self_join(window, with_key=seed % 2 == 1)
        check(topology, steps, inputs=INPUTS, in_memory=False, optimize=optimize)
