"""Topologies of every kind the public interface can say, each a function of a builder: `TOPOLOGIES` by name.

A function may return a topology that it built by hand (Processor API); else the builder's is taken.
"""

import re
from collections.abc import Callable
from typing import Any

from compare import topology_class

from penstock import (
    Buffer,
    EmitStrategy,
    JoinWindows,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
)

TOPOLOGIES: dict[str, Callable[[Any], Any]] = {}

TEXT = {"key": Serdes.string, "value": Serdes.string}


def topology(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Put a function into `TOPOLOGIES`."""
    assert function.__name__ not in TOPOLOGIES
    TOPOLOGIES[function.__name__] = function
    return function


def yes(key, value):
    return True


def pair(key, value):
    return key, value


def value_of(key, value):
    return value


def same(value):
    return value


def both(left, right):
    return f"{left}+{right}"


def add(aggregate, value):
    return aggregate + value


def fold(key, value, aggregate):
    return aggregate + value


def merge_sessions(key, one, other):
    return one + other


def start():
    return ""


def stream(builder, topic="in", **how):
    return builder.stream(topic, **TEXT, **how)


def table(builder, topic="table", **how):
    return builder.table(topic, **TEXT, **how)


class Upper:
    """A processor without state."""

    def init(self, context):
        self.context = context

    def process(self, record):
        self.context.forward(record)


class Transformer:
    """A value transformer."""

    def transform(self, key, value):
        return value


# --- stateless ------------------------------------------------------------------------------------------------------


@topology
def copy_of_a_topic(builder):
    stream(builder).to("out")


@topology
def every_stateless_operator(builder):
    s = stream(builder).filter(yes).filter_not(yes).select_key(value_of).map(pair).map_values(same)
    s = s.flat_map(lambda k, v: [(k, v)]).flat_map_values(lambda v: [v]).peek(yes)
    s.print(label="x")
    s.foreach(yes)
    s.to("out")


@topology
def every_stateless_operator_named(builder):
    s = stream(builder, name="the-source").filter(yes, name="keep").filter_not(yes, name="drop")
    s = s.select_key(value_of, name="rekey").map(pair, name="map").map_values(same, name="values")
    s = s.flat_map(lambda k, v: [(k, v)], name="many").flat_map_values(lambda v: [v], name="many-values")
    s = s.peek(yes, name="look")
    s.print(name="print")
    s.foreach(yes, name="each")
    s.to("out", name="the-sink")


@topology
def values_with_key(builder):
    s = stream(builder).map_values(pair, with_key=True).flat_map_values(lambda k, v: [v], with_key=True)
    s.to("out")


@topology
def several_topics(builder):
    stream(builder, ["zebra", "apple", "middle", "other-topic-name"]).to("out")


@topology
def thirteen_topics(builder):
    stream(builder, [f"topic-{i}" for i in range(13)]).to("out")


@topology
def pattern_source(builder):
    stream(builder, re.compile("orders-.*")).to("out")


@topology
def same_topic_read_twice(builder):
    stream(builder).map_values(same).to("one")
    stream(builder).filter(yes).to("two")


@topology
def same_pattern_read_twice(builder):
    stream(builder, re.compile("a.*")).map_values(same).to("one")
    stream(builder, re.compile("a.*")).filter(yes).to("two")


@topology
def same_topics_in_another_order(builder):
    stream(builder, ["a", "b"]).to("one")
    stream(builder, ["b", "a"]).merge(stream(builder, "c")).to("two")


@topology
def independent_streams(builder):
    stream(builder, "a").to("x")
    stream(builder, "b").filter(yes).to("y")
    stream(builder, "c").map_values(same).filter(yes).to("z")


@topology
def fan_out(builder):
    s = stream(builder)
    for i in range(14):
        branch = s.filter(yes)
        for _ in range(i % 4):
            branch = branch.map_values(same)
        branch.to(f"out-{i}")


@topology
def diamonds(builder):
    s = stream(builder)
    a, b, c = s.filter(yes), s.filter_not(yes), s.map_values(same)
    m = a.merge(b)
    m.merge(c).merge(a).to("out")
    m.peek(yes).to("out2")


@topology
def merge_with_itself(builder):
    s = stream(builder)
    s.merge(s).to("out")


@topology
def merge_named(builder):
    stream(builder, "a").merge(stream(builder, "b"), name="both").to("out")


@topology
def branches(builder):
    found = stream(builder).split().branch(yes).branch(yes, name="-named").default()
    for name in sorted(found):
        found[name].to(f"out-{name}")


@topology
def branches_named(builder):
    found = stream(builder).select_key(value_of).split("split-").branch(yes, name="a").branch(yes).no_default()
    found["split-a"].group_by_key().count()
    found["split-2"].to("out")


@topology
def default_branch_named(builder):
    found = stream(builder).split("s").branch(yes).default(name="-rest")
    found["s-rest"].to("out")
    found["s1"].to("out1")


# --- repartition ----------------------------------------------------------------------------------------------------


@topology
def repartition(builder):
    stream(builder).select_key(value_of).repartition().to("out")


@topology
def repartition_named(builder):
    stream(builder).repartition(name="again", partitions=4).map_values(same).to("out")


@topology
def repartition_then_aggregate(builder):
    stream(builder).map(pair).repartition(name="by-user", **TEXT).group_by_key().count(store="counts")


@topology
def rekeyed_joins_share_a_topic(builder):
    s = stream(builder).select_key(value_of)
    s.join(stream(builder, "b"), both, window=JoinWindows(10)).to("one")
    s.join(stream(builder, "c"), both, window=JoinWindows(10)).to("two")


@topology
def rekeyed_named_joins_do_not(builder):
    s = stream(builder).select_key(value_of)
    s.join(stream(builder, "b"), both, window=JoinWindows(10), name="j1").to("one")
    s.join(stream(builder, "c"), both, window=JoinWindows(10), name="j2").to("two")


@topology
def key_changed_once_used_often(builder):
    s = stream(builder).map(pair)
    s.group_by_key().count(store="counts").to_stream().to("counts")
    s.filter(yes).group_by_key().reduce(add, store="sums").to_stream().to("sums")
    s.group_by_key().windowed_by(TimeWindows(10)).count(store="windows").to_stream().to("windows")
    s.join(stream(builder, "other"), both, window=JoinWindows(5)).to("joined")


@topology
def key_changed_then_value(builder):
    s = stream(builder).map(pair).map_values(same)
    s.group_by_key().count()
    s.group_by_key().reduce(add)


@topology
def key_changed_then_merged(builder):
    a, b = stream(builder, "a").select_key(value_of), stream(builder, "b").select_key(value_of)
    m = a.merge(b)
    m.group_by_key().count(store="counts").to_stream().to("counts")
    m.filter(yes).group_by_key().reduce(add, store="sums").to_stream().to("sums")


@topology
def one_key_changed_then_merged(builder):
    a, b = stream(builder, "a").select_key(value_of), stream(builder, "b")
    m = a.merge(b)
    m.group_by_key(**TEXT).count()
    m.filter(yes).group_by_key(**TEXT).reduce(add)


@topology
def chain_of_key_changes(builder):
    s = stream(builder).group_by(value_of, **TEXT).count().to_stream().select_key(value_of)
    s.group_by_key(key=Serdes.int64, value=Serdes.int64).count().to_stream().to("out")


@topology
def null_keys_kept_for_left_join(builder):
    s = stream(builder).select_key(value_of)
    s.left_join(stream(builder, "b"), both, window=JoinWindows(10)).to("one")


# --- aggregation ----------------------------------------------------------------------------------------------------


@topology
def word_count(builder):
    words = builder.stream("lines", value=Serdes.string).flat_map_values(str.split)
    words.group_by(value_of, value=Serdes.string).count(store="counts").to_stream().to("out", value=Serdes.int64)


@topology
def count_by_key(builder):
    stream(builder).group_by_key().count().to_stream().to("out", value=Serdes.int64)


@topology
def count_named(builder):
    stream(builder).group_by(value_of, name="group").count(name="counted").to_stream(name="s").to("out")


@topology
def count_with_serdes_only(builder):
    stream(builder).group_by_key().count(key=Serdes.string, value=Serdes.int64).to_stream().to("out")


@topology
def count_in_memory(builder):
    stream(builder).group_by_key().count(store=Stores.key_value("counts", persistent=False, logged=False))


@topology
def count_by_key_after_map(builder):
    stream(builder).map(pair).group_by_key().count(store="counts")


@topology
def reduce_and_aggregate(builder):
    g = stream(builder).group_by_key()
    g.reduce(add).to_stream().to("a")
    g.aggregate(start, fold, value=Serdes.string).to_stream().to("b")
    g.reduce(add, store="sums", name="reduced").to_stream().to("c")
    g.aggregate(start, fold, store="agg", name="aggregated", value=Serdes.string).to_stream().to("d")


@topology
def named_group_shares_its_topic(builder):
    g = stream(builder).group_by(value_of, name="group", **TEXT)
    g.count().to_stream().to("a")
    g.reduce(add).to_stream().to("b")
    g.windowed_by(TimeWindows(10)).count().to_stream().to("c")


@topology
def unnamed_group_does_not(builder):
    g = stream(builder).group_by(value_of, **TEXT)
    g.count().to_stream().to("a")
    g.reduce(add, store="sums").to_stream().to("b")


@topology
def versioned_aggregation(builder):
    counts = stream(builder).group_by_key().count(store=Stores.versioned("counts", 10_000))
    counts.filter(yes).to_stream().to("out")


@topology
def aggregations_of_aggregations(builder):
    counts = stream(builder).group_by(value_of, **TEXT).count(store="counts")
    counts.group_by(lambda k, v: (v, k), key=Serdes.int64, value=Serdes.string).count(store="counts-of-counts")


# --- windows --------------------------------------------------------------------------------------------------------


@topology
def tumbling_windows(builder):
    w = stream(builder).group_by_key().windowed_by(TimeWindows(10))
    w.count().to_stream(key=lambda k, v: k.key).to("a")
    w.reduce(add).to_stream().to("b", key=Serdes.windowed(Serdes.string, 10))
    w.aggregate(start, fold, value=Serdes.string).to_stream().foreach(yes)


@topology
def windows_named(builder):
    w = stream(builder).group_by(value_of, name="group", **TEXT).windowed_by(TimeWindows(10, advance=5, grace=2))
    w.count(store="counts", name="counting").to_stream().foreach(yes)
    w.reduce(add, store="sums", name="reducing").to_stream().foreach(yes)
    w.aggregate(start, fold, store="agg", name="aggregating", value=Serdes.string).to_stream().foreach(yes)


@topology
def windowed_count_with_serdes_only(builder):
    g = stream(builder).group_by_key()
    g.windowed_by(TimeWindows(10)).count(value=Serdes.int64).to_stream().foreach(yes)
    g.windowed_by(SlidingWindows(10)).count(value=Serdes.int64).to_stream().foreach(yes)
    g.windowed_by(SessionWindows(10)).count(value=Serdes.int64).to_stream().foreach(yes)


@topology
def sliding_windows(builder):
    w = stream(builder).group_by_key().windowed_by(SlidingWindows(10, grace=5))
    w.count().to_stream().foreach(yes)
    w.reduce(add).to_stream().foreach(yes)
    w.aggregate(start, fold, store="agg", value=Serdes.string).to_stream().foreach(yes)


@topology
def session_windows(builder):
    w = stream(builder).map(pair).group_by_key(**TEXT).windowed_by(SessionWindows(10))
    w.count().to_stream().foreach(yes)
    w.reduce(add).to_stream().foreach(yes)
    w.aggregate(start, fold, merge_sessions, store="agg", name="sessions", value=Serdes.string).to_stream().foreach(yes)


@topology
def unlimited_windows(builder):
    stream(builder).group_by_key().windowed_by(UnlimitedWindows()).count().to_stream().foreach(yes)


@topology
def windows_emitted_on_close(builder):
    g = stream(builder).group_by_key()
    close = EmitStrategy.on_window_close
    g.windowed_by(TimeWindows(10)).emit(close).count().to_stream().foreach(yes)
    g.windowed_by(SlidingWindows(10)).emit(close).count().to_stream().foreach(yes)
    g.windowed_by(SessionWindows(10)).emit(close).count(store="sessions").to_stream().foreach(yes)


@topology
def windowed_with_specs(builder):
    g = stream(builder).group_by_key()
    g.windowed_by(TimeWindows(10)).count(store=Stores.window("w", 100, 10)).to_stream().foreach(yes)
    g.windowed_by(SessionWindows(10)).count(store=Stores.session("s", 100, persistent=False)).to_stream().foreach(yes)


# --- cogroup --------------------------------------------------------------------------------------------------------


@topology
def cogroup(builder):
    a, b = stream(builder, "a").group_by_key(), stream(builder, "b").group_by_key()
    a.cogroup(fold).cogroup(b, fold).aggregate(start, value=Serdes.string).to_stream().to("out")


@topology
def cogroup_rekeyed(builder):
    a, b = stream(builder, "a").group_by(value_of, **TEXT), stream(builder, "b").group_by(value_of, name="bees", **TEXT)
    c = stream(builder, "c").group_by_key()
    both_ = a.cogroup(fold).cogroup(b, fold).cogroup(c, fold)
    both_.aggregate(start, store="agg", name="together", **TEXT).to_stream().to("out")


@topology
def cogroup_aggregated_twice(builder):
    a, b = stream(builder, "a").group_by(value_of, **TEXT), stream(builder, "b").group_by(value_of, name="b", **TEXT)
    together = a.cogroup(fold).cogroup(b, fold)
    together.aggregate(start, **TEXT).to_stream().to("one")
    together.windowed_by(TimeWindows(10)).aggregate(start, **TEXT).to_stream().foreach(yes)


@topology
def cogroup_windowed(builder):
    a, b = stream(builder, "a").group_by_key(), stream(builder, "b").group_by_key()
    a.cogroup(fold).cogroup(b, fold).windowed_by(SlidingWindows(10)).aggregate(start, **TEXT).to_stream().foreach(yes)


@topology
def cogroup_sessions(builder):
    a, b = stream(builder, "a").group_by_key(), stream(builder, "b").group_by_key()
    sessions = a.cogroup(fold).cogroup(b, fold).windowed_by(SessionWindows(10))
    sessions.aggregate(start, merge_sessions, store="agg", **TEXT).to_stream().foreach(yes)


@topology
def cogroup_then_old_values(builder):
    a, b = stream(builder, "a").group_by_key(), stream(builder, "b").group_by_key()
    together = a.cogroup(fold).cogroup(b, fold).aggregate(start, **TEXT)
    together.group_by(lambda k, v: (v, k), **TEXT).count().to_stream().to("out")


# --- stream joins ---------------------------------------------------------------------------------------------------


@topology
def stream_joins(builder):
    a, b = stream(builder, "a"), stream(builder, "b")
    window = JoinWindows(10, grace=5)
    a.join(b, both, window=window).to("inner")
    a.left_join(b, both, window=window).to("left")
    a.outer_join(b, both, window=window).to("outer")


@topology
def stream_joins_named(builder):
    a, b = stream(builder, "a"), stream(builder, "b")
    a.join(b, both, window=JoinWindows(10), name="inner", store="inner-store").to("inner")
    a.left_join(b, both, window=JoinWindows(10), name="left", store="left-store").to("left")
    a.outer_join(b, both, window=JoinWindows(10), name="outer", store="outer-store").to("outer")


@topology
def stream_join_named_without_store(builder):
    a, b = stream(builder, "a"), stream(builder, "b")
    a.outer_join(b, both, window=JoinWindows(10), name="named").to("out")
    a.left_join(b, both, window=JoinWindows(10), store="only-store").to("out2")


@topology
def stream_joins_rekeyed_both_sides(builder):
    a, b = stream(builder, "a").select_key(value_of), stream(builder, "b").map(pair)
    a.join(b, both, window=JoinWindows(10), key=Serdes.string, value=Serdes.string, other_value=Serdes.string).to("out")


@topology
def stream_joined_with_itself(builder):
    s = stream(builder)
    s.join(s, both, window=JoinWindows(10)).to("out")


@topology
def topic_joined_with_itself(builder):
    stream(builder).join(stream(builder), both, window=JoinWindows(10)).to("out")


@topology
def stream_joined_with_itself_and_filtered(builder):
    s = stream(builder)
    s.filter(yes).to("filtered")
    s.join(s, both, window=JoinWindows(10), name="selfie").filter(yes).to("out")
    s.join(stream(builder, "b"), both, window=JoinWindows(10)).to("out2")


@topology
def three_way_stream_join(builder):
    a, b, c = stream(builder, "a"), stream(builder, "b"), stream(builder, "c")
    a.join(b, both, window=JoinWindows(10)).join(c, both, window=JoinWindows(10)).to("out")


@topology
def stream_table_joins(builder):
    t = table(builder)
    s = stream(builder)
    s.join(t, both).to("inner")
    s.left_join(t, both, with_key=False, name="left").to("left")


@topology
def rekeyed_stream_table_joins(builder):
    t = table(builder, store="rows")
    s = stream(builder).select_key(value_of)
    s.join(t, both).to("inner")
    s.left_join(t, both).to("left")
    s.left_join(t, both, name="named").to("named")


@topology
def stream_joined_with_filtered_table(builder):
    t = table(builder).filter(yes).map_values(same)
    stream(builder).join(t, both).to("out")


@topology
def stream_joined_with_stored_filtered_table(builder):
    t = table(builder).filter(yes, store="filtered").map_values(same)
    stream(builder).join(t, both).to("out")


@topology
def stream_joined_with_count(builder):
    counts = stream(builder, "b").group_by(value_of, **TEXT).count()
    stream(builder).join(counts, both, other_value=Serdes.int64).to("out")


@topology
def stream_joined_with_joined_tables(builder):
    t = table(builder, "t1").join(table(builder, "t2"), both)
    stream(builder).join(t, both).to("out")


@topology
def stream_joined_with_suppressed_table(builder):
    counts = table(builder).suppress(Suppressed.until_time_limit(10, Buffer.unbounded()))
    stream(builder).join(counts, both).to("out")


@topology
def grace_join(builder):
    t = table(builder, store=Stores.versioned("versions", 1000))
    stream(builder).join(t, both, grace=10, key=Serdes.string, value=Serdes.string).to("out")
    stream(builder).select_key(value_of).left_join(t, both, grace=10, name="late", **TEXT).to("out2")


@topology
def global_table_joins(builder):
    g = builder.global_table("global", **TEXT)
    s = stream(builder)
    s.join(g, both, select=value_of).to("inner")
    s.left_join(g, both, select=value_of, name="left").to("left")


@topology
def global_tables_and_stores_between(builder):
    stream(builder, "a").to("x")
    g = builder.global_table("g1", store="g1-store", name="global-one", **TEXT)
    stream(builder, "b").select_key(value_of).left_join(g, both, select=value_of).group_by_key(**TEXT).count()
    builder.global_table("g2", **TEXT)
    stream(builder, "c").to("z")


@topology
def global_store_with_processor(builder):
    builder.add_global_store(Stores.key_value("g", logged=False, **TEXT), "global", Upper, **TEXT)
    stream(builder).to("out")


# --- tables ---------------------------------------------------------------------------------------------------------


@topology
def table_not_stored(builder):
    table(builder).to_stream().to("out")


@topology
def table_stored(builder):
    table(builder, store="rows", name="people").to_stream().to("out")


@topology
def table_operators(builder):
    t = table(builder).filter(yes).filter_not(yes).map_values(same).transform_values(Transformer)
    t.to_stream().to("out")


@topology
def table_operators_stored(builder):
    t = table(builder, store="rows").filter(yes, store="f").filter_not(yes, store="n", name="not")
    t = t.map_values(same, store="m", name="mapped").transform_values(Transformer, store="t", name="transformed")
    t.to_stream(name="to-stream").to("out")


@topology
def table_operators_with_serdes_only(builder):
    t = table(builder).filter(yes, value=Serdes.string).map_values(same, value=Serdes.string)
    t.transform_values(Transformer, value=Serdes.string).to_stream().to("out")


@topology
def transform_values_with_stores(builder):
    builder.add_state_store(Stores.key_value("extra", **TEXT))
    table(builder).transform_values(Transformer, stores=["extra"], store="t", **TEXT).to_stream().to("out")


@topology
def to_table(builder):
    s = stream(builder)
    s.to_table().to_stream().to("a")
    s.to_table(store="rows", name="named").to_stream().to("b")
    s.select_key(value_of).to_table(**TEXT).to_stream().to("c")
    s.select_key(value_of).to_table(name="renamed", **TEXT).filter(yes).to_stream().to("d")


@topology
def to_stream_with_key(builder):
    s = table(builder).to_stream(key=value_of)
    s.group_by_key(**TEXT).count().to_stream().to("out")
    table(builder, "t2").to_stream(key=value_of, name="named").to("out2")


@topology
def table_group_by(builder):
    g = table(builder).group_by(lambda k, v: (v, k), **TEXT)
    g.count().to_stream().to("counts")
    g.reduce(add, add).to_stream().to("sums")
    g.aggregate(start, fold, fold, value=Serdes.string).to_stream().to("agg")


@topology
def table_group_by_named(builder):
    g = table(builder, store="rows").group_by(lambda k, v: (v, k), name="group", **TEXT)
    g.count(store="c", name="counting").to_stream().to("counts")
    g.reduce(add, add, store="r", name="reducing").to_stream().to("sums")
    g.aggregate(start, fold, fold, store="a", name="agg", value=Serdes.string).to_stream().to("agg")


@topology
def filtered_table_group_by(builder):
    t = table(builder).map_values(same).filter(yes)
    t.group_by(lambda k, v: (v, k), **TEXT).count(store="counts")


@topology
def table_joins(builder):
    a, b = table(builder, "a"), table(builder, "b")
    a.join(b, both).to_stream().to("inner")
    a.left_join(b, both).to_stream().to("left")
    a.outer_join(b, both).to_stream().to("outer")


@topology
def table_joins_stored(builder):
    a, b = table(builder, "a", store="a-rows"), table(builder, "b")
    a.join(b, both, store="inner", name="inner-join").to_stream().to("inner")
    a.left_join(b, both, store="left").to_stream().to("left")
    a.outer_join(b, both, name="outer-join").to_stream().to("outer")
    a.join(b, both, value=Serdes.string).to_stream().to("serdes")


@topology
def table_joined_with_itself(builder):
    t = table(builder)
    t.join(t, both).to_stream().to("out")


@topology
def chain_of_table_joins(builder):
    a, b, c, d = (table(builder, topic) for topic in "abcd")
    a.join(b, both).left_join(c.filter(yes), both).outer_join(d.map_values(same), both).to_stream().to("out")


@topology
def joined_tables_grouped(builder):
    joined = table(builder, "a").join(table(builder, "b"), both)
    joined.group_by(lambda k, v: (v, k), **TEXT).count().to_stream().to("out")


@topology
def table_joined_with_count(builder):
    counts = stream(builder).group_by(value_of, **TEXT).count(store="counts")
    table(builder).left_join(counts, both).to_stream().to("out")


@topology
def foreign_key_joins(builder):
    a, b = table(builder, "a"), table(builder, "b")
    a.join(b, both, foreign_key=same).to_stream().to("inner")
    a.left_join(b, both, foreign_key=pair).to_stream().to("left")


@topology
def foreign_key_joins_named(builder):
    a, b = table(builder, "a", store="a-rows"), table(builder, "b", store="b-rows")
    a.join(b, both, foreign_key=same, name="fk", store="joined", **TEXT).to_stream().to("inner")
    a.left_join(b, both, foreign_key=same, store="left-joined", **TEXT).to_stream().to("left")


@topology
def foreign_key_join_then_grouped(builder):
    a, b = table(builder, "a"), table(builder, "b").filter(yes)
    joined = a.map_values(same).join(b, both, foreign_key=same, value=Serdes.string)
    joined.group_by(lambda k, v: (v, k), **TEXT).count().to_stream().to("out")
    joined.join(a, both).to_stream().to("out2")


@topology
def foreign_key_join_of_aggregations(builder):
    a = stream(builder, "a").group_by(value_of, **TEXT).reduce(add)
    b = stream(builder, "b").group_by_key().reduce(add, store="bees")
    a.left_join(b, both, foreign_key=same).to_stream().to("out")


@topology
def versioned_tables(builder):
    a = table(builder, "a", store=Stores.versioned("va", 1000))
    b = table(builder, "b", store=Stores.versioned("vb", 1000))
    a.join(b, both).to_stream().to("joined")
    a.filter(yes).group_by(lambda k, v: (v, k), **TEXT).count().to_stream().to("counts")
    a.join(b, both, foreign_key=same, store=Stores.versioned("vc", 1000)).to_stream().to("fk")


# --- suppress -------------------------------------------------------------------------------------------------------


@topology
def suppress_until_window_closes(builder):
    counts = stream(builder).group_by_key().windowed_by(TimeWindows(10, grace=5)).count()
    counts.suppress(Suppressed.until_window_closes(Buffer.unbounded())).to_stream().foreach(yes)


@topology
def suppress_named(builder):
    counts = stream(builder).group_by_key().windowed_by(SessionWindows(10)).count(store="counts")
    counts.suppress(Suppressed.until_window_closes(), name="final").to_stream().foreach(yes)


@topology
def suppress_by_time(builder):
    limit = Suppressed.until_time_limit(10, Buffer.max_records(5).emit_early_when_full())
    table(builder).suppress(limit).to_stream().to("out")


@topology
def suppress_of_mapped_windows(builder):
    counts = stream(builder).group_by_key().windowed_by(TimeWindows(10)).count().map_values(same).filter(yes)
    counts.suppress(Suppressed.until_window_closes()).filter(yes).to_stream().foreach(yes)


@topology
def suppressed_table_grouped(builder):
    t = table(builder).filter(yes).suppress(Suppressed.until_time_limit(10, Buffer.max_bytes(100)))
    t.group_by(lambda k, v: (v, k), **TEXT).count().to_stream().to("out")


# --- processors -----------------------------------------------------------------------------------------------------


@topology
def processors(builder):
    builder.add_state_store(Stores.key_value("seen", **TEXT))
    s = stream(builder)
    s.process(Upper, stores=["seen"]).to("a")
    s.process_values(Upper, stores=["seen"], name="values").to("b")
    s.process(Upper, name="plain").group_by_key(**TEXT).count()


@topology
def processors_that_bring_stores(builder):
    specs = [Stores.key_value(name, **TEXT) for name in ("zoo", "apple", "store-c", "d")]
    stream(builder).process(Upper, stores=specs, name="many").to("out")


@topology
def a_store_joins_subtopologies(builder):
    builder.add_state_store(Stores.key_value("shared", **TEXT))
    stream(builder, "a").process(Upper, stores=["shared"]).to("x")
    stream(builder, "b").to("y")
    stream(builder, "c").process(Upper, stores=["shared"]).to("z")


@topology
def store_added_but_not_used(builder):
    builder.add_state_store(Stores.key_value("unused", **TEXT))
    stream(builder).to("out")


@topology
def processor_api(builder):
    made = topology_class(builder)()
    made.add_source("source", "in", **TEXT).add_source("second", ["b", "a"], **TEXT)
    made.add_processor("one", Upper, "source").add_processor("two", Upper, "one", "second")
    made.add_sink("sink", "out", "two", **TEXT).add_sink("other-sink", "out2", "one", "second", **TEXT)
    made.add_state_store(Stores.key_value("store", **TEXT), "one")
    made.add_state_store(Stores.window("window", 100, 10, **TEXT))
    made.connect("two", "window", "store")
    made.add_source("lonely", re.compile("x.*"), **TEXT).add_processor("end", Upper, "lonely")
    return made


@topology
def processor_api_wide(builder):
    made = topology_class(builder)()
    made.add_source("source", "in", **TEXT)
    for i in range(15):
        made.add_processor(f"p{i}", Upper, "source", *(f"p{j}" for j in range(i) if (i * j) % 3 == 1))
    for i in range(0, 15, 2):
        made.add_sink(f"sink{i}", f"out{i}", f"p{i}", f"p{(i * 7) % 15}", **TEXT)
    return made


# --- programs -------------------------------------------------------------------------------------------------------


@topology
def page_views_by_region(builder):
    users = table(builder, "users", store="users")
    views = stream(builder, "views").select_key(value_of)
    enriched = views.left_join(users, both, name="enrich", **TEXT)
    by_region = enriched.map(pair).group_by_key(name="by-region", **TEXT)
    counts = by_region.windowed_by(TimeWindows(1000, advance=500, grace=100)).count(store="region-counts")
    counts.suppress(Suppressed.until_window_closes(), name="final-counts").to_stream(key=lambda k, v: k.key).to("out")
    enriched.to("enriched")


@topology
def orders_and_payments(builder):
    orders, payments = stream(builder, "orders"), stream(builder, "payments").select_key(value_of)
    paid = orders.outer_join(payments, both, window=JoinWindows(100, grace=10), name="paid", store="paid")
    found = paid.split("paid-").branch(yes, name="full").branch(yes, name="part").default(name="none")
    found["paid-full"].to_table(store="full", **TEXT).group_by(lambda k, v: (v, k), **TEXT).count(store="per-value")
    found["paid-part"].merge(found["paid-none"]).group_by(value_of, **TEXT).reduce(add).to_stream().to("open")


@topology
def everything_reads_one_table(builder):
    t = table(builder)
    stream(builder, "a").join(t, both).to("x")
    t.filter(yes).to_stream().to("y")
    t.group_by(lambda k, v: (v, k), **TEXT).reduce(add, add).join(t, both).to_stream().to("z")
    t.join(table(builder, "other"), both, foreign_key=same).to_stream().to("w")
