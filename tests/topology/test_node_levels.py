"""Nodes of one sub-topology on both sides of a re-key: in which step each runs."""

from typing import Any

from penstock import JoinWindows, Processor, Serdes, Stores, StreamsBuilder
from penstock.plan.passes import make_plan
from penstock.plan.plan import Plan

TEXT: dict[str, Any] = {"key": Serdes.string, "value": Serdes.string}


class Keeping(Processor):
    def init(self, context: Any) -> None:
        self.rows = context.store("rows")

    def process(self, record: Any) -> None:
        self.rows.put(record.key, record.value)


def planned(build: Any) -> Plan:
    builder = StreamsBuilder()
    build(builder, builder.stream("a", **TEXT))
    return make_plan(builder.build())


def both(one: Any, other: Any) -> str:
    return f"{one}/{other}"


def swapped(stream: Any) -> Any:
    return stream.select_key(lambda key, value: value)


def test_an_ordinary_topology_carries_nothing_over() -> None:
    def topology(builder: Any, stream: Any) -> None:
        table = builder.table("t", **TEXT)
        swapped(stream).join(table, both, **TEXT).to("out", **TEXT)

    plan = planned(topology)
    assert (plan.carried, plan.follows, plan.loose) == (frozenset(), {}, frozenset())


def test_the_side_of_a_join_that_was_not_re_keyed_goes_on_to_the_step_of_the_other() -> None:
    def topology(builder: Any, stream: Any) -> None:
        stream.join(swapped(stream), both, window=JoinWindows(5), other_value=Serdes.string, **TEXT).to("out", **TEXT)

    plan = planned(topology)
    (carried,) = plan.carried
    joins = [name for name in plan.topology.nodes if name.startswith(("KSTREAM-WINDOWED", "KSTREAM-JOIN"))]
    assert plan.level_of[carried] == 1
    assert all(name in plan.steps[1].nodes and name not in plan.steps[0].nodes for name in joins)


def test_a_second_join_with_the_same_table_follows_it() -> None:
    def topology(builder: Any, stream: Any) -> None:
        table = builder.table("t", **TEXT, store="rows")
        swapped(stream.join(table, both, **TEXT)).join(table, both, **TEXT).to("out", **TEXT)

    plan = planned(topology)
    assert list(plan.follows.values()) == [frozenset({"rows"})]
    assert not plan.carried


def test_a_foreign_key_join_of_a_table_with_itself_stays_as_it_is() -> None:
    def topology(builder: Any, stream: Any) -> None:
        table = builder.table("t", **TEXT)
        table.join(table, both, foreign_key=lambda value: value).to_stream().to("out", **TEXT)

    plan = planned(topology)
    assert (plan.carried, plan.follows, plan.loose) == (frozenset(), {}, frozenset())


def test_a_store_on_both_sides_of_a_re_key_is_loose() -> None:
    def topology(builder: Any, stream: Any) -> None:
        builder.add_state_store(Stores.key_value("rows", **TEXT))
        stream.process(Keeping, stores=["rows"])
        swapped(stream.process(Keeping, stores=["rows"])).repartition(**TEXT).process(Keeping, stores=["rows"])

    plan = planned(topology)
    assert plan.loose == {"rows"}
    assert "loose    rows: depends on where epochs end" in plan.explain()
