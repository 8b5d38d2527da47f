"""What the graph writes into the operators: old values where they are asked for, filters, versions, branches."""

import pytest

from penstock import JoinWindows, Serdes, Stores, StreamsBuilder, Suppressed
from penstock.operators.stateless import Branch, Filter, PassThrough, has_key


@pytest.fixture
def builder():
    return StreamsBuilder()


def yes(key, value):
    return True


def operator(builder, name):
    return builder.build().nodes[name].operator


def test_old_values_are_sent_only_where_they_are_asked_for(builder):
    grouped = builder.stream("in").group_by_key()
    grouped.count(name="plain").to_stream().to("x")
    grouped.count(name="grouped").group_by(lambda k, v: (v, k)).count(name="again")
    assert operator(builder, "plain").send_old is False
    assert operator(builder, "grouped").send_old is True
    assert operator(builder, "again").send_old is False


def test_old_values_are_asked_for_through_tables_without_a_store(builder):
    table = builder.table("t", name="source")
    table.map_values(str, name="mapped").filter(yes, name="filtered").group_by(lambda k, v: (k, v)).count()
    for name in ("source", "mapped", "filtered"):
        assert operator(builder, name).send_old is True
    assert operator(builder, "source").store is not None


def test_a_filter_takes_old_values_if_they_cost_nothing(builder):
    builder.table("a", store="rows", name="stored").filter(yes, name="after-stored")
    builder.table("b", name="unstored").filter(yes, name="after-unstored")
    assert operator(builder, "after-stored").send_old is True
    assert operator(builder, "after-unstored").send_old is False
    assert operator(builder, "unstored").store is None


def test_suppress_asks_for_old_values(builder):
    builder.table("t", name="source").suppress(Suppressed.until_time_limit(5))
    assert operator(builder, "source").send_old is True


@pytest.mark.parametrize(
    ("method", "left", "right"), [("join", False, False), ("left_join", True, False), ("outer_join", True, True)]
)
def test_outer_sides_of_a_table_join_send_old_values(builder, method, left, right):
    a, b = builder.table("a", name="a"), builder.table("b", name="b")
    getattr(a, method)(b, lambda x, y: x)
    assert (operator(builder, "a").send_old, operator(builder, "b").send_old) == (left, right)


def test_a_join_of_unstored_tables_reads_through_them(builder):
    mapped = builder.table("t", store="rows").map_values(str)
    builder.stream("s").join(mapped, lambda x, y: x, name="join")
    topology = builder.build()
    assert topology.stores_of("join") == ("rows",)
    assert topology.nodes["join"].operator.table.stores == ("rows",)


def test_records_without_a_key_are_filtered_before_a_repartition(builder):
    builder.stream("in").group_by(yes, name="g").count()
    assert operator(builder, "g-repartition-filter") == Filter(predicate=has_key)


@pytest.mark.parametrize("method", ["left_join", "outer_join"])
def test_records_without_a_key_are_kept_for_a_left_or_outer_join(builder, method):
    rekeyed = builder.stream("in").select_key(yes)
    getattr(rekeyed, method)(builder.stream("b"), lambda x, y: x, window=JoinWindows(5), name="j")
    assert operator(builder, "j-left-repartition-filter") == PassThrough()


def test_records_without_a_key_are_filtered_before_an_inner_join(builder):
    rekeyed = builder.stream("in").select_key(yes)
    rekeyed.join(builder.stream("b"), lambda x, y: x, window=JoinWindows(5), name="j")
    assert operator(builder, "j-left-repartition-filter") == Filter(predicate=has_key)


def test_versions_are_followed_downwards_until_a_store_without_them(builder):
    versioned = builder.table("t", store=Stores.versioned("v", 10))
    versioned.filter(yes, name="near").map_values(str).filter(yes, name="far")
    versioned.map_values(str, store="plain").filter(yes, name="beyond")
    assert operator(builder, "near").versioned is True
    assert operator(builder, "far").versioned is True
    assert operator(builder, "beyond").versioned is False


def test_one_versioned_side_of_a_table_join_is_told_apart(builder):
    versioned, plain = builder.table("a", store=Stores.versioned("v", 10)), builder.table("b")
    versioned.join(plain, lambda x, y: x, name="j")
    assert operator(builder, "j-join-this").versioned is True
    assert operator(builder, "j-join-other").versioned is False


@pytest.mark.capability("KS7")
def test_a_split_knows_its_branches_in_order(builder):
    def no(key, value):
        return False

    builder.stream("in").split("s").branch(yes, name="-a").branch(no).default()
    assert operator(builder, "s") == Branch(predicates=(yes, no), children=("s-a", "s2", "s0"))


@pytest.mark.capability("SB6")
def test_a_stream_joined_with_itself_keeps_one_store_if_optimised(builder):
    stream = builder.stream("in")
    stream.join(stream, lambda x, y: x, window=JoinWindows(5), name="j", store="j")
    assert len(builder.build().stores) == 2
    optimised = builder.build(optimize="single_store_self_join")
    assert list(optimised.stores) == ["j-this-join-store"]
    assert type(optimised.nodes["j-merge"].operator).__name__ == "StreamStreamSelfJoin"


@pytest.mark.capability("SB6")
def test_several_groups_of_one_new_key_share_a_topic_if_optimised(builder):
    rekeyed = builder.stream("in").select_key(yes)
    rekeyed.group_by_key().count(store="one")
    rekeyed.filter(yes).group_by_key().count(store="two")
    assert list(builder.build().internal_topics) == ["one-repartition", "two-repartition"]
    assert list(builder.build(optimize="all").internal_topics) == ["one-repartition"]


def test_deduplicate_repartitions_after_a_key_change(builder):
    builder.stream("in").select_key(yes).deduplicate(by=yes, within=5, store="seen", name="dedup").to("x")
    builder.stream("other").deduplicate(by=yes, within=5).to("y")
    topology = builder.build()
    assert list(topology.internal_topics) == ["dedup-repartition"]
    assert topology.stores_of("dedup") == ("seen",)


@pytest.mark.capability("KS5")
def test_print_is_labelled_with_the_name_of_its_stream(builder):
    builder.stream("in", name="source").print(name="plain")
    builder.stream("in").print(label="mine", name="labelled")
    assert (operator(builder, "plain").label, operator(builder, "labelled").label) == ("source", "mine")


@pytest.mark.capability("PA15")
def test_a_supplier_brings_its_stores(builder):
    class Counting:
        stores = (Stores.key_value("counted", key=Serdes.string),)

        def process(self, record): ...

        def transform(self, key, value): ...

    builder.stream("in").process(Counting, name="p")
    builder.stream("in").process_values(Counting, name="q")
    builder.table("t").transform_values(Counting, name="r")
    topology = builder.build()
    assert [topology.stores_of(name) for name in "pqr"] == [("counted",)] * 3
