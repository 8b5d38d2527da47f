"""The Processor API: what can be added, and what is refused."""

import re
from datetime import timedelta

import pytest

from penstock import Processor, Serdes, Stores, StreamsBuilder, Topology, TopologyError
from penstock.topology.node import ProcessorNode, SinkNode, SourceNode


class Echo(Processor):
    def process(self, record):
        self.context.forward(record)


@pytest.fixture
def topology():
    return Topology().add_source("in", "topic").add_processor("p", Echo, "in")


@pytest.mark.capability("PA1")
def test_a_source_holds_what_was_said(topology):
    topology.add_source("more", ["a", "b"], key=Serdes.int32, value=Serdes.bytes, offset_reset="latest")
    node = topology.nodes["more"]
    assert isinstance(node, SourceNode)
    assert (node.topics, node.key, node.value, node.offset_reset) == (
        ("a", "b"),
        Serdes.int32,
        Serdes.bytes,
        "latest",
    )


@pytest.mark.capability("PA1", "CO1")
def test_an_offset_reset_may_be_a_duration(topology):
    topology.add_source("recent", "a", offset_reset=timedelta(seconds=5))
    assert topology.nodes["recent"].offset_reset == "by_duration:5000"


@pytest.mark.capability("PA2")
def test_a_sink_writes_to_a_topic_or_where_a_function_says(topology):
    topology.add_sink("fixed", "out", "p", "in").add_sink("chosen", lambda k, v, o: k, "p")
    fixed, chosen = topology.nodes["fixed"], topology.nodes["chosen"]
    assert isinstance(fixed, SinkNode)
    assert (fixed.topic, fixed.parents, chosen.topic) == ("out", ("p", "in"), None)
    assert chosen.extractor("here", None, None) == "here"


@pytest.mark.capability("PA3")
def test_children_are_in_the_order_they_were_added(topology):
    topology.add_processor("second", Echo, "in").add_sink("third", "out", "in")
    assert topology.children("in") == ("p", "second", "third")
    assert topology.parents("third") == ("in",)


@pytest.mark.capability("PA4")
def test_stores_are_added_and_connected(topology):
    topology.add_processor("q", Echo, "p")
    topology.add_state_store(Stores.key_value("one"), "p").add_state_store(Stores.key_value("two"))
    topology.connect("q", "one", "two")
    assert (topology.stores_of("p"), topology.stores_of("q")) == (("one",), ("one", "two"))


@pytest.mark.capability("PA5")
def test_a_read_only_store_has_its_topic_as_changelog():
    topology = Topology().add_read_only_state_store(Stores.key_value("r"), "rows", Echo, source="in", name="writer")
    assert topology.changelog_topic("r") == "rows"
    assert topology.nodes["in"].offset_reset == "earliest"
    assert isinstance(topology.nodes["writer"], ProcessorNode)
    assert topology.stores_of("writer") == ("r",)


@pytest.mark.capability("PA15")
def test_a_supplier_brings_its_stores(topology):
    class Counting(Echo):
        @staticmethod
        def stores():
            return [Stores.key_value("counted")]

    topology.add_processor("counting", Counting, "p")
    assert topology.stores_of("counting") == ("counted",)


def test_an_unknown_node_is_named_with_the_nearest_match(topology):
    with pytest.raises(TopologyError, match=r"there is no node 'inn' \(did you mean 'in'\?\)"):
        topology.node("inn")


REFUSED = {
    "a name that is taken": (lambda t: t.add_source("p", "b"), "already a node 'p'"),
    "no name": (lambda t: t.add_source("", "b"), "needs a name"),
    "no parents": (lambda t: t.add_processor("q", Echo), "needs at least one parent"),
    "an unknown parent": (
        lambda t: t.add_processor("q", Echo, "inn"),
        r"'inn' of node 'q' does not exist \(did you mean",
    ),
    "itself as a parent": (lambda t: t.add_processor("q", Echo, "q"), "does not exist"),
    "a sink as a parent": (
        lambda t: t.add_sink("s", "o", "p").add_processor("q", Echo, "s"),
        "nothing comes out of a sink",
    ),
    "a topic read twice": (lambda t: t.add_source("again", "topic"), "topic 'topic' is already read by source 'in'"),
    "a pattern that matches": (lambda t: t.add_source("again", re.compile("top.*")), "matches a topic"),
    "a topic that a pattern matches": (
        lambda t: t.add_source("pattern", re.compile("x.*")).add_source("again", "xyz"),
        "'xyz' is already read by source 'pattern'",
    ),
    "a global topic read twice": (
        lambda t: t.add_global_store(Stores.key_value("g"), "topic", Echo, source="s", name="n"),
        "already read by source 'in'",
    ),
    "no topics": (lambda t: t.add_source("none", []), "at least one topic"),
    "an unknown store": (lambda t: t.connect("p", "seen"), r"there is no store 'seen': add it with add_state_store"),
    "no store to connect": (lambda t: t.connect("p"), "at least one store"),
    "a store for a source": (lambda t: t.add_state_store(Stores.key_value("s"), "in"), "it is a source or a sink"),
    "a store for an unknown processor": (lambda t: t.add_state_store(Stores.key_value("s"), "q"), "no processor 'q'"),
    "another store of that name": (
        lambda t: t.add_state_store(Stores.key_value("s")).add_state_store(Stores.session("s", 5)),
        "a different store is already called 's'",
    ),
    "something that is no store": (lambda t: t.add_state_store("s"), "takes a store"),
    "one name for both nodes of a global store": (
        lambda t: t.add_global_store(Stores.key_value("g"), "global", Echo, source="s", name="s"),
        "need different names",
    ),
    "a global store of a name that is taken": (
        lambda t: t.add_state_store(Stores.key_value("g")).add_global_store(
            Stores.key_value("g"), "global", Echo, source="s", name="n"
        ),
        "already called 'g'",
    ),
    "a store of a global store's name": (
        lambda t: t.add_global_store(Stores.key_value("g"), "global", Echo, source="s", name="n").add_state_store(
            Stores.key_value("g")
        ),
        "a global store is already called 'g'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_use_is_refused(topology, name):
    call, message = REFUSED[name]
    with pytest.raises(TopologyError, match=message):
        call(topology)


def test_the_same_store_can_be_added_twice(topology):
    topology.add_state_store(Stores.key_value("s")).add_state_store(Stores.key_value("s"), "p")
    assert topology.stores_of("p") == ("s",)


def test_a_topology_is_data_for_tools():
    builder = StreamsBuilder()
    builder.stream("in", name="source").group_by(lambda k, v: v, name="g").count(store="counts", name="count")
    data = builder.build().to_json()
    assert [sub["id"] for sub in data["subtopologies"]] == [0, 1]
    assert data["internal_topics"] == [{"name": "g-repartition", "partitions": None}]
    assert data["stores"] == [
        {
            "name": "counts",
            "kind": "key_value",
            "persistent": True,
            "logged": True,
            "cached": True,
            "changelog": "counts-changelog",
            "topic_config": {},
        }
    ]
    assert data["subtopologies"][1]["nodes"][1] == {
        "kind": "processor",
        "operator": "StreamCount",
        "stores": ["counts"],
        "name": "count",
        "parents": ["g-repartition-source"],
        "children": [],
        "functions": [],
    }
    keyed = next(node for node in data["subtopologies"][0]["nodes"] if node.get("operator") == "SelectKey")
    assert [function.partition(" (")[2].partition(":")[0] for function in keyed["functions"]] == [__file__]


def test_a_mermaid_chart_has_subgraphs_topics_and_stores():
    topology = Topology().add_source("in", "a").add_processor("p", Echo, "in").add_sink("out", "b", "p")
    topology.add_state_store(Stores.key_value("s"), "p")
    assert topology.to_mermaid() == "\n".join(
        [
            "flowchart LR",
            '  subgraph sub0["Sub-topology 0"]',
            '    node0["in"]',
            '    node2["p"]',
            '    node4["out"]',
            '    store3[("s")]',
            "  end",
            '  topic1[/"a"/]',
            '  topic5[/"b"/]',
            "  topic1 --> node0",
            "  node0 --> node2",
            "  node2 -.- store3",
            "  node4 --> topic5",
            "  node2 --> node4",
            "",
        ]
    )
