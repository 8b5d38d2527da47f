"""The fingerprint: it follows the structure and the stores, not what functions do."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from datetime import timedelta

import msgspec
import pytest

from penstock import Serde, Serdes, Stores, StreamsBuilder, TimeWindows, Topology
from penstock.engine.fingerprint import canonical_topology, check_same, difference, fingerprint
from penstock.engine.record import EpochRecord, pack
from penstock.errors import ConfigError, TopologyChanged

MINUTE = timedelta(minutes=1)


def counts(
    *, topic="lines", f=lambda value: value, group=lambda key, value: value, out="out", store="counts", **options
) -> Topology:
    builder = StreamsBuilder()
    words = builder.stream(topic, value=Serdes.string).map_values(f)
    words.group_by(group, value=Serdes.string, **options).count(store=store).to_stream().to(out)
    return builder.build()


def with_store(spec) -> Topology:
    class Nothing:
        def process(self, record): ...

    topology = Topology().add_source("in", "lines").add_processor("work", Nothing, "in")
    return topology.add_state_store(spec, "work")


def recorded(topology: Topology, **changes) -> EpochRecord:
    fields = {"epoch": 41, "token": "t", "application_id": "shop", "shards": 16, "lanes": 2} | changes
    return EpochRecord(**fields, fingerprint=fingerprint(topology), topology=pack(canonical_topology(topology)))


def test_the_same_program_has_the_same_fingerprint():
    assert fingerprint(counts()) == fingerprint(counts())


def test_a_store_of_another_kind_is_refused_under_an_old_name_even_where_a_change_is_allowed():
    lru = with_store(Stores.lru("seen: all", 5))
    with pytest.raises(
        TopologyChanged, match=r"'seen: all' was a key_value store and is a lru store now.*another name"
    ):
        check_same(recorded(with_store(Stores.key_value("seen: all"))), lru, 16, allow_change=True)
    assert not check_same(recorded(with_store(Stores.lru("seen: all", 6))), lru, 16, allow_change=True)


def test_a_schema_may_change_and_its_framing_may_not():
    def stored(fields, **options) -> Topology:
        return with_store(Stores.key_value("rows", value=Serdes.avro(msgspec.defstruct("Order", fields), **options)))

    assert fingerprint(stored([("a", int)])) == fingerprint(stored([("a", int), ("b", int, 0)]))
    assert fingerprint(stored([("a", int)])) != fingerprint(stored([("a", int)], single_object=True))


def test_what_a_function_does_is_not_in_the_fingerprint():
    def shout(value):
        return value.upper()

    assert fingerprint(counts(f=shout, group=lambda key, value: value[0])) == fingerprint(counts())


def test_the_name_of_the_function_that_chooses_a_topic_is_not_in_the_fingerprint():
    def by_key(key, value, context):
        return key

    chosen = counts(out=by_key)
    assert fingerprint(chosen) == fingerprint(counts(out=lambda key, value, context: value))
    assert "topic: chosen by record" in canonical_topology(chosen)
    assert "by_key" not in canonical_topology(chosen)


@pytest.mark.parametrize(
    "change",
    [{"topic": "other"}, {"store": "totals"}, {"out": "elsewhere"}, {"name": "words"}, {"key": Serdes.int64}],
    ids=lambda change: next(iter(change)),
)
def test_topics_names_and_repartition_keys_are_in_the_fingerprint(change):
    assert fingerprint(counts(**change)) != fingerprint(counts())


KEY_VALUE = Stores.key_value("s")
WINDOW = Stores.window("s", 1000, 1000)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (KEY_VALUE, Stores.shared("s")),
        (KEY_VALUE, Stores.key_value("s", key=Serdes.int64)),
        (KEY_VALUE, Stores.key_value("s", value=Serdes.string)),
        (KEY_VALUE, Stores.key_value("s", timestamped=True)),
        (KEY_VALUE, Stores.key_value("s", logged=False)),
        (KEY_VALUE, Stores.key_value("s", ttl=MINUTE)),
        (WINDOW, Stores.window("s", 2000, 1000)),
        (WINDOW, Stores.window("s", 1000, 500)),
        (WINDOW, Stores.window("s", 1000, 1000, True)),
        (WINDOW, Stores.window("s", 1000, 1000, persistent=False)),
        (Stores.lru("s", 5), Stores.lru("s", 6)),
        (Stores.versioned("s", MINUTE), Stores.versioned("s", 2 * MINUTE)),
        (Stores.session("s", MINUTE), Stores.session("s", 2 * MINUTE)),
    ],
)
def test_what_rows_of_a_store_depend_on_is_in_the_fingerprint(one, other):
    assert fingerprint(with_store(one)) != fingerprint(with_store(other))


@pytest.mark.parametrize(
    "other",
    [Stores.key_value("s", cached=True), Stores.key_value("s", topic_config={"segment.ms": 5})],
    ids=["cached", "topic_config"],
)
def test_caching_and_settings_of_the_changelog_topic_are_not_in_the_fingerprint(other):
    assert fingerprint(with_store(other)) == fingerprint(with_store(KEY_VALUE))


def test_the_order_in_which_stores_are_added_is_not_in_the_fingerprint():
    def made(*names):
        topology = with_store(KEY_VALUE)
        for name in names:
            topology.add_state_store(Stores.key_value(name))
        return topology

    assert fingerprint(made("a", "b")) == fingerprint(made("b", "a"))


class Scaled:
    """A serde of a user's own, with functions that are objects."""

    def __init__(self, factor):
        self.serialize = functools.partial(self.write, factor)
        self.deserialize = functools.partial(self.read, factor)

    @staticmethod
    def write(factor, value):
        return b"%d" % (value * factor)

    @staticmethod
    def read(factor, data):
        return int(data) // factor


@pytest.mark.parametrize(
    "make",
    [
        lambda: Scaled(3),
        lambda: Serde(Scaled(3).serialize, Scaled(3).deserialize),
        lambda: Serde(lambda value: b"", lambda data: 0),
        lambda: Serdes.windowed(Serde(Scaled(3).serialize, Scaled(3).deserialize), 10),
    ],
    ids=["an object", "partial functions", "lambdas", "inside another"],
)
def test_a_serde_of_the_users_own_is_named_without_its_address(make):
    one, other = make(), make()
    first = canonical_topology(with_store(Stores.key_value("s", value=one)))
    assert first == canonical_topology(with_store(Stores.key_value("s", value=other)))
    assert "0x" not in first


def test_the_fingerprint_is_the_same_in_another_process():
    program = """if True:
        from penstock import Serdes, StreamsBuilder, TimeWindows
        from penstock.engine.fingerprint import fingerprint
        builder = StreamsBuilder()
        stream = builder.stream(["b", "a", "c"], value=Serdes.string)
        table = builder.table("t", store="table")
        stream.join(table, lambda value, other: value).group_by(lambda key, value: value).windowed_by(
            TimeWindows(1000)).count(store="counts")
        print(fingerprint(builder.build()))
    """
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        )
        for seed in ("1", "2")
    ]
    assert len(runs[0].stdout.strip()) == 64
    assert runs[0].stdout == runs[1].stdout


def test_every_kind_of_store_has_its_line():
    builder = StreamsBuilder()
    stream = builder.stream("lines", value=Serdes.string)
    stream.group_by_key().windowed_by(TimeWindows(1000)).count(store="by-time")
    builder.global_table("rates", store="rates")
    said = canonical_topology(builder.build())
    assert (
        "by-time: window, key Serdes.string, value Serdes.int64, persistent, logged, timestamped, retention 1000"
        in said
    )
    assert "rates: key_value, key Serdes.string, value Serdes.json, persistent, timestamped, source_topic rates" in said


def test_the_difference_shows_the_lines_that_changed():
    said = difference(canonical_topology(counts()), canonical_topology(counts(store="totals")))
    assert "-  counts: key_value, key Serdes.string" in said
    assert "+  totals: key_value, key Serdes.string" in said
    assert difference(canonical_topology(counts()), canonical_topology(counts())) == ""


def test_the_same_topology_goes_on():
    assert check_same(recorded(counts()), counts(), 16, allow_change=False)


def test_a_changed_topology_is_refused_with_the_difference_and_what_can_be_done():
    with pytest.raises(TopologyChanged) as caught:
        check_same(recorded(counts()), counts(store="totals"), 16, allow_change=False)
    said = str(caught.value)
    for part in (
        "'shop'",
        "epoch 41",
        "+  totals: key_value",
        "--allow-topology-change",
        "application_id",
        "penstock reset",
    ):
        assert part in said


def test_a_changed_topology_goes_on_if_that_is_allowed():
    assert not check_same(recorded(counts()), counts(store="totals"), 16, allow_change=True)


@pytest.mark.parametrize("allow_change", [True, False])
def test_another_number_of_shards_is_always_refused(allow_change):
    with pytest.raises(ConfigError, match=r"shards=8, .*'shop' was first started with shards=16.*set shards=16"):
        check_same(recorded(counts()), counts(), 8, allow_change=allow_change)


def test_another_number_of_lanes_is_fine():
    assert check_same(recorded(counts(), lanes=7), counts(), 16, allow_change=False)
