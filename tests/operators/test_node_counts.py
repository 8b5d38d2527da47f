"""Counts per node are those that plain Python makes: a wrapper around each node counts what comes to it."""

import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest

from penstock import Processor, Serdes, StreamsBuilder
from penstock.testing import TopologyTestDriver
from penstock.topology.node import SourceNode

sys.path.append(str(Path(__file__).parents[1] / "conformance"))
from operator_families import FAMILIES, caches, script, topics_of

TEXT = {"key": Serdes.string, "value": Serdes.string}


class Chooses(Processor):
    """Forwards to one child, to all, or twice."""

    def process(self, record):
        if record.value == "one":
            self.context.forward(record, child="first")
        elif record.value == "all":
            self.context.forward(record)
        elif record.value == "twice":
            self.context.forward(record, child="second")
            self.context.forward(record)


def run(build, steps, config=None) -> tuple[dict[str, Any], Counter[str], Any]:
    """Return what the driver counts for each node, what the wrapper counts, and the topology."""
    counted: Counter[str] = Counter()

    def wrapper(node, process):
        def count(key, value, timestamp, headers):
            counted[node] += 1
            process(key, value, timestamp, headers)

        return count

    builder = StreamsBuilder(wrapper=wrapper)
    build(builder)
    topology = builder.build()
    with TopologyTestDriver(topology, config=config or {}, auto_commit=False) as driver:
        for number, (topic, key, value, time) in enumerate(steps):
            driver.input_topic(topic, **TEXT).pipe(key, value, timestamp=time)
            if number % 7 == 0:
                driver.commit()
        driver.commit()
        return driver.metrics()["nodes"], counted, topology


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_what_comes_to_every_operator_is_counted(name, cached):
    random = Random(name)
    steps = [step[:4] for step in script(random, topics_of(name), 3) if len(step) >= 4 and step[0] in topics_of(name)]
    with caches() if cached else nullcontext():
        nodes, counted, topology = run(lambda builder: FAMILIES[name](builder, random), steps)
    assert steps
    found = {node: work["records_in"] for node, work in nodes.items() if node in counted}
    assert found == counted
    for node in topology.nodes.values():
        if isinstance(node, SourceNode) and not node.internal:
            assert nodes[node.name]["records_in"] == sum(topic in node.topics for topic, *_ in steps)
    check_out(nodes, topology)


def check_out(nodes, topology) -> None:
    """What a node forwards comes to each of the next ones; those of whom it is the only parent have nothing else."""
    checked = 0
    for name in topology.nodes:
        for child in topology.children(name):
            if list(topology.node(child).parents) == [name]:
                assert nodes.get(name, {}).get("records_out", 0) == nodes.get(child, {}).get("records_in", 0), name
                checked += 1
    assert checked


def test_a_processor_may_choose_whom_it_forwards_to():
    def build(builder):
        chosen = builder.stream("a", **TEXT).process(Chooses, name="chooses")
        chosen.map_values(str.upper, name="first").to("x", **TEXT)
        chosen.flat_map_values(lambda text: text[:2], name="second").to("y", **TEXT)

    nodes, _, _ = run(build, [("a", "k", value, 0) for value in ("one", "all", "twice", "none", "all")])
    assert (nodes["chooses"]["records_in"], nodes["chooses"]["records_out"]) == (5, 5)
    assert (nodes["first"]["records_in"], nodes["first"]["records_out"]) == (4, 4)
    assert (nodes["second"]["records_in"], nodes["second"]["records_out"]) == (4, 8)
    assert sum(work["records_in"] for name, work in nodes.items() if name.startswith("KSTREAM-SINK")) == 12


def test_a_branch_forwards_each_record_once_and_one_that_fails_is_not_forwarded():
    def build(builder):
        numbers = builder.stream("a", **TEXT).map_values(int, name="parse")
        sides = numbers.split(name="s-").branch(lambda key, n: n > 2, name="big").default(name="small")
        sides["s-big"].foreach(lambda key, n: None, name="end")
        sides["s-small"].filter(lambda key, n: n > 1, name="two").to("x", key=Serdes.string)

    steps = [("a", "k", value, 0) for value in ("1", "2", "x", "3", "4")]
    nodes, _, _ = run(build, steps, {"on_processing_error": "skip"})
    counts = {name: (work["records_in"], work["records_out"]) for name, work in nodes.items()}
    assert (counts["parse"], counts["s-"]) == ((5, 4), (4, 4))
    assert (counts["end"], counts["two"]) == ((2, 0), (2, 1))


def test_the_time_of_a_slow_function_is_that_of_its_node():
    def build(builder):
        slow = builder.stream("a", **TEXT).peek(lambda key, value: None, name="quick").map_values(waits, name="slow")
        slow.filter(lambda key, value: True, name="after").to("x", **TEXT)

    nodes, _, _ = run(build, [("a", "k", "v", 0)] * 30)
    assert nodes["slow"]["us"] >= 30 * 2_000
    assert nodes["slow"]["us"] > 0.6 * sum(work["us"] for work in nodes.values())


def waits(value: str) -> str:
    Event().wait(0.002)
    return value
