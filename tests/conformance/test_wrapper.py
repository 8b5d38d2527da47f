"""A wrapper goes around the same nodes as Kafka's ProcessorWrapper, in the same order, and changes what it changes there."""

from typing import Any

import pytest
from compare import check, topology_class
from random_scripts import settled

from penstock import FixedKeyProcessor, Processor, Serdes, Stores, Windowed
from penstock.windows import JoinWindows, TimeWindows

pytestmark = pytest.mark.capability("PA16")

TEXT = {"key": Serdes.string, "value": Serdes.string}
INPUTS = {"in": (Serdes.string, Serdes.string), "other": (Serdes.string, Serdes.string)}
SCRIPT = [
    ("in", "a", "x", 5, (("h", b"1"),)),
    ("other", "a", "p", 3),
    ("in", "b", "y", 6),
    ("in", "b", None, 7),
    ("other", "b", "q", 12),
    ("in", "a", "z", 2),
    ("other", "a", None, 20),
    ("in", None, "w", 21),
]


class Keep(Processor):
    """Writes its store, and forwards what was there before."""

    def process(self, record: Any) -> None:
        store = self.context.store("kept")
        self.context.forward(record.with_value(str(store.get(record.key or ""))))
        store.put(record.key or "", record.value)


class Twice(FixedKeyProcessor):
    """Forwards every value twice."""

    def process(self, record: Any) -> None:
        self.context.forward(record)
        self.context.forward(record.with_value(f"{record.value}2"))


def stateless(builder: Any) -> None:
    stream = builder.stream("in", **TEXT).filter(lambda key, value: value != "y").peek(lambda key, value: None)
    branches = stream.split("of-").branch(lambda key, value: key == "a", name="a").default(name="rest")
    one, two = branches["of-a"], branches["of-rest"]
    one.map_values(lambda value: f"{value}!").merge(two.flat_map_values(lambda value: [value, value])).to("out", **TEXT)
    builder.stream("other", **TEXT).process_values(Twice).foreach(lambda key, value: None)


def aggregates(builder: Any) -> None:
    stream = builder.stream("in", **TEXT)
    by_value = stream.group_by(lambda key, value: value, **TEXT)
    by_value.count(store="counts").to_stream().to("counts-out", value=Serdes.int64)
    windowed = stream.group_by_key(**TEXT).windowed_by(TimeWindows(10, grace=5)).count(store="windowed")
    windowed.to_stream().to("windows-out", key=Serdes.windowed(Serdes.string, 10), value=Serdes.int64)


def joins(builder: Any) -> None:
    left, right = builder.stream("in", **TEXT), builder.stream("other", **TEXT)
    how = {**TEXT, "other_value": Serdes.string}
    left.left_join(right, lambda one, two: f"{one}{two}", window=JoinWindows(5), **how).to("out", **TEXT)
    table = right.to_table(**TEXT, store="rows")
    left.join(table, lambda one, two: f"{one}{two}", **how).to("out2", **TEXT)


def tables(builder: Any) -> None:
    table, other = builder.table("in", **TEXT, store="a"), builder.table("other", **TEXT, store="b")
    joined = table.outer_join(other, lambda one, two: f"{one}{two}").filter(lambda key, value: True)
    joined.to_stream().to("out", **TEXT)
    grouped = table.group_by(lambda key, value: (value, key), **TEXT).count(store="counts")
    grouped.to_stream().to("counts-out", key=Serdes.string, value=Serdes.int64)
    table.join(other, lambda one, two: f"{one}{two}", foreign_key=lambda value: "a", **TEXT).to_stream().to(
        "fk", **TEXT
    )


def own(builder: Any) -> None:
    builder.add_state_store(Stores.key_value("kept", **TEXT))
    builder.stream("in", **TEXT).process(Keep, stores=["kept"]).to("out", **TEXT)


@pytest.mark.parametrize("program", [stateless, aggregates, joins, tables, own])
def test_the_same_nodes_are_wrapped_and_run_in_the_same_order(program):
    runs = []

    def topology(builder):
        trace = []
        runs.append(trace)

        def wrapper(node, process):
            def traced(key, value, timestamp, headers):
                shown = key if isinstance(key, str | Windowed) else None  # a CombinedKey prints as its language does
                # rows that leave because of time have no headers (docs/differences.md)
                trace.append(f"> {node} {shown} @{timestamp} {headers if program is not joins else ''}")
                process(key, value, timestamp, headers)
                trace.append(f"< {node}")

            return traced

        wrapped = type(builder)(wrapper=wrapper)
        program(wrapped)
        return wrapped.build()

    read = ("in", "other") if program in (stateless, joins, tables) else ("in",)
    steps = [step for step in SCRIPT if step[0] in read]
    if program is joins:
        steps = settled(steps, "a", "x")
    both = check(topology, steps, inputs=INPUTS, in_memory=False, headers=program is not joins)
    assert both.kafka.failed is None, both.kafka.error
    kafka, penstock = runs
    assert penstock == kafka
    assert len(kafka) > len(SCRIPT)


def test_a_wrapper_may_change_repeat_and_drop_records():
    def wrapper(node, process):
        def changed(key, value, timestamp, headers):
            if value != "y":
                process(key, f"{value} by {node}", timestamp + 1, (*headers, ("w", b"1")))
                process(f"{key}!", value, timestamp, ())

        return changed

    def topology(builder):
        by_hand = topology_class(builder)(wrapper=wrapper)
        by_hand.add_source("source", "in", **TEXT)
        by_hand.add_processor("keep", Keep, "source").add_state_store(Stores.key_value("kept", **TEXT), "keep")
        by_hand.add_processor("keep2", Keep, "keep").connect("keep2", "kept")
        return by_hand.add_sink("sink", "out", "keep2", **TEXT)

    # of one barrier our changelog has the last row of a key
    script = [step for step in SCRIPT if step[0] == "in"]
    both = check(topology, script, inputs=INPUTS, changelogs=False)
    assert both.kafka.failed is None
