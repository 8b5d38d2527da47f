"""Which operators have kernels, what the plan says of the others, and what is counted when a batch falls back."""

import importlib
import inspect
import pkgutil
from contextlib import closing

import pytest
from both_ways import Runs, needs_kernels

from penstock import Serdes, Stores, StreamsBuilder, operators
from penstock.kernels.catalog import KERNELS
from penstock.lane import mixed, step_batches
from penstock.operators.base import Operator
from penstock.plan.passes import make_plan

pytestmark = needs_kernels


def all_operators(base=Operator):
    for module in pkgutil.iter_modules(operators.__path__, "penstock.operators."):
        importlib.import_module(module.name)
    for found in base.__subclasses__():
        if found.__module__.startswith("penstock.operators."):
            if not inspect.isabstract(found):
                yield found
            yield from all_operators(found)


def test_every_operator_has_a_kernel_or_a_reason():
    # a dataclass with slots is made anew, and the class of before lives on: names are what counts
    assert {operator.__name__ for operator in all_operators()} == {operator.__name__ for operator in KERNELS}
    reasons = [kernel for kernel in KERNELS.values() if isinstance(kernel, str)]
    assert reasons
    assert all(" " in reason and not reason.endswith(".") for reason in reasons)


def orders(builder):
    return builder.stream("orders", key=Serdes.string, value=Serdes.json)


def explained(shape):
    builder = StreamsBuilder()
    shape(builder)
    return make_plan(builder.build()).explain()


def test_the_plan_says_which_nodes_take_batches_and_why_others_do_not():
    text = explained(lambda builder: orders(builder).map_values(len).peek(print).filter(bool).to("out"))
    assert text == (
        "step 0  where the records are read\n"
        "    reads    orders\n"
        "    runs     KSTREAM-SOURCE-0000000000, KSTREAM-MAPVALUES-0000000001, KSTREAM-PEEK-0000000002, "
        "KSTREAM-FILTER-0000000003, KSTREAM-SINK-0000000004\n"
        "    writes   out\n"
        "    records  KSTREAM-SOURCE-0000000000: KSTREAM-MAPVALUES-0000000001 takes records one by one\n"
        "    records  KSTREAM-MAPVALUES-0000000001: KSTREAM-PEEK-0000000002 takes records one by one\n"
        "    records  KSTREAM-PEEK-0000000002: its function is called for what it does, which must happen between the records "
        "before and after\n"
        "    records  KSTREAM-FILTER-0000000003: KSTREAM-PEEK-0000000002 hands on records one by one\n"
        "    records  KSTREAM-SINK-0000000004: KSTREAM-FILTER-0000000003 hands on records one by one"
    )


def test_what_is_below_a_cached_store_may_take_records_while_those_above_take_batches():
    def shape(builder):
        orders(builder).group_by_key().count(store="counts").to_stream().peek(print).to("out")

    text = explained(shape)
    assert "    by batch KSTREAM-SOURCE-0000000000, KSTREAM-AGGREGATE-0000000001\n" in text
    assert "records  KTABLE-TOSTREAM-0000000002: KSTREAM-PEEK-0000000003 takes records one by one\n" in text


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (lambda b: orders(b).to("out", partitioner=lambda *_: 0), "a partitioner chooses the partition of each record"),
        (
            lambda b: orders(b).group_by_key().count(store=Stores.key_value("c", cached=False)),
            "store c is not cached, so that each update leaves by itself",
        ),
        (
            lambda b: orders(b).group_by_key().count(store=Stores.key_value("c", ttl=1000)),
            "rows of store c expire (ttl)",
        ),
        (
            lambda b: orders(b).join(b.table("t", store=Stores.versioned("v", history=1000)), lambda o, t: o).to("out"),
            "the table is versioned: it is read as of each record's time",
        ),
    ],
)
def test_a_kernel_that_refuses_says_why(shape, reason):
    assert f": {reason}" in explained(shape)


def test_pictures_mark_the_nodes_that_take_records():
    builder = StreamsBuilder()
    orders(builder).foreach(print)
    topology = builder.build()
    notes = make_plan(topology).batch_paths.notes()
    assert "node noted" not in topology.to_svg()
    assert '<rect class="node noted"' in topology.to_svg(notes)
    assert "<title>record by record: its function is called" in topology.to_svg(notes)
    assert "KSTREAM-FOREACH-0000000001<br/>record by record: its function is called" in topology.to_mermaid(notes)
    assert "noted" not in topology.to_mermaid()


def test_a_wrapper_sees_every_record():
    builder = StreamsBuilder(wrapper=lambda name, on_record: on_record)
    orders(builder).to("out")
    assert set(make_plan(builder.build()).batch_paths.reasons.values()) == {"a wrapper sees every record by itself"}


def test_a_batch_that_falls_back_is_counted_by_node_and_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(step_batches, "FEW", 1)
    monkeypatch.setattr(mixed, "SHORT", 1)
    counted = []
    note = Runs._note
    monkeypatch.setattr(
        Runs, "_note", lambda self, report, seen: (counted.extend(report.fallbacks), note(self, report, seen))
    )

    def joined(builder):
        table = builder.table("rows", key=Serdes.string, value=Serdes.json, store="rows")
        orders(builder).left_join(table, lambda one, other: [one, other]).to("out")

    with closing(Runs(joined, str(tmp_path / "state"), "fail")) as runs:
        seen = runs.epoch([("orders", 0, None, b"1", 5, None)])
    assert "failed" not in seen
    assert {(node, reason) for node, reason, _ in counted} == {("KSTREAM-LEFTJOIN-0000000003", "null_key")}
