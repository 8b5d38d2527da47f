"""describe(): texts worked out from Kafka's algorithm by hand. (tests/conformance compares many more with Kafka itself.)"""

import re

import pytest

from penstock import Processor, Serdes, Stores, StreamsBuilder, Topology

pytestmark = pytest.mark.capability("PA6")


class Echo(Processor):
    def process(self, record):
        self.context.forward(record)


def text(*lines):
    return "\n".join(["Topologies:", *lines, "", ""])


def test_a_chain():
    topology = Topology().add_source("in", "a").add_processor("middle", Echo, "in").add_sink("out", "b", "middle")
    assert topology.describe() == text(
        "   Sub-topology: 0",
        "    Source: in (topics: [a])",
        "      --> middle",
        "    Processor: middle (stores: [])",
        "      --> out",
        "      <-- in",
        "    Sink: out (topic: b)",
        "      <-- middle",
    )


def test_an_empty_topology():
    assert Topology().describe() == "Topologies:\n "


def test_word_count():
    builder = StreamsBuilder()
    words = builder.stream("lines", value=Serdes.string).flat_map_values(str.split)
    words.group_by(lambda _, word: word).count(store="counts").to_stream().to("word-counts", value=Serdes.int64)
    assert builder.build().describe() == text(
        "   Sub-topology: 0",
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [lines])",
        "      --> KSTREAM-FLATMAPVALUES-0000000001",
        "    Processor: KSTREAM-FLATMAPVALUES-0000000001 (stores: [])",
        "      --> KSTREAM-KEY-SELECT-0000000002",
        "      <-- KSTREAM-SOURCE-0000000000",
        "    Processor: KSTREAM-KEY-SELECT-0000000002 (stores: [])",
        "      --> counts-repartition-filter",
        "      <-- KSTREAM-FLATMAPVALUES-0000000001",
        "    Processor: counts-repartition-filter (stores: [])",
        "      --> counts-repartition-sink",
        "      <-- KSTREAM-KEY-SELECT-0000000002",
        "    Sink: counts-repartition-sink (topic: counts-repartition)",
        "      <-- counts-repartition-filter",
        "",
        "  Sub-topology: 1",
        "    Source: counts-repartition-source (topics: [counts-repartition])",
        "      --> KSTREAM-AGGREGATE-0000000003",
        "    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [counts])",
        "      --> KTABLE-TOSTREAM-0000000007",
        "      <-- counts-repartition-source",
        "    Processor: KTABLE-TOSTREAM-0000000007 (stores: [])",
        "      --> KSTREAM-SINK-0000000008",
        "      <-- KSTREAM-AGGREGATE-0000000003",
        "    Sink: KSTREAM-SINK-0000000008 (topic: word-counts)",
        "      <-- KTABLE-TOSTREAM-0000000007",
    )


def test_stores_and_topics_are_in_the_order_of_a_java_hash_set():
    topology = Topology().add_source("in", ["zebra", "apple", "b", "a"]).add_processor("p", Echo, "in")
    for name in ("store-b", "store-a", "zoo"):
        topology.add_state_store(Stores.key_value(name), "p")
    described = topology.describe()
    assert "(topics: [zebra, apple, a, b])" in described
    assert "(stores: [store-a, store-b, zoo])" in described


def test_larger_branches_come_first_then_names():
    topology = Topology().add_source("in", "a")
    topology.add_processor("z-long", Echo, "in").add_processor("tail", Echo, "z-long")
    topology.add_processor("b-short", Echo, "in").add_processor("a-short", Echo, "in")
    names = re.findall(r"(?:Source|Processor): (\S+)", topology.describe())
    assert names == ["in", "z-long", "a-short", "b-short", "tail"]


def test_a_shared_store_joins_two_groups():
    topology = Topology()
    for name in "abc":
        topology.add_source(f"in-{name}", name).add_processor(name, Echo, f"in-{name}")
    topology.add_state_store(Stores.key_value("shared"), "a", "c")
    assert [(sub.id, sub.nodes, sub.stores) for sub in topology.subtopologies()] == [
        (0, ("in-a", "a", "in-c", "c"), ("shared",)),
        (1, ("in-b", "b"), ()),
    ]


def test_a_global_store_has_a_number_but_is_no_sub_topology_of_the_lanes():
    topology = Topology().add_source("first", "a")
    topology.add_global_store(Stores.key_value("g"), "global", Echo, source="source", name="updater")
    topology.add_source("last", "b")
    assert [sub.id for sub in topology.subtopologies()] == [0, 2]
    assert topology.describe() == text(
        "   Sub-topology: 0",
        "    Source: first (topics: [a])",
        "      --> none",
        "",
        "  Sub-topology: 1 for global store (will not generate tasks)",
        "    Source: source (topics: [global])",
        "      --> updater",
        "    Processor: updater (stores: [g])",
        "      --> none",
        "      <-- source",
        "  Sub-topology: 2",
        "    Source: last (topics: [b])",
        "      --> none",
    )


def test_a_pattern_and_an_extractor_are_named():
    def choose(key, value, origin):
        return "somewhere"

    described = Topology().add_source("in", re.compile("a.*")).add_sink("out", choose, "in").describe()
    assert "Source: in (topics: a.*)" in described
    assert "choose)" in described


def test_a_chain_of_two_thousand_nodes_is_described():
    topology = Topology().add_source("n0", "a")
    for i in range(1, 2000):
        topology.add_processor(f"n{i}", Echo, f"n{i - 1}")
    assert topology.describe().count("Processor:") == 1999
