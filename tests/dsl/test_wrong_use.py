"""Wrong use is refused while the program is built, with a message that says what to write instead."""

import re
from datetime import timedelta

import pytest

from penstock import (
    Buffer,
    EmitStrategy,
    JoinWindows,
    LatePolicy,
    Processor,
    Serdes,
    SessionWindows,
    SlidingWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyError,
    UnlimitedWindows,
    WatermarkStrategy,
    Windows,
)


@pytest.fixture
def builder():
    return StreamsBuilder()


def both(left, right):
    return left, right


class Echo(Processor):
    def process(self, record):
        self.context.forward(record)


# --- joins ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["join", "left_join", "outer_join"])
def test_two_streams_cannot_join_without_a_window(builder, method):
    a, b = builder.stream("a"), builder.stream("b")
    with pytest.raises(TopologyError, match=r"needs window=JoinWindows\(difference\)"):
        getattr(a, method)(b, both)


def test_a_join_window_must_be_join_windows(builder):
    with pytest.raises(TopologyError, match="window=JoinWindows"):
        builder.stream("a").join(builder.stream("b"), both, window=TimeWindows(10))


def test_a_stream_and_a_table_cannot_be_outer_joined(builder):
    with pytest.raises(TopologyError, match="use left_join"):
        builder.stream("a").outer_join(builder.table("t"), both)


def test_a_stream_and_a_global_table_cannot_be_outer_joined(builder):
    with pytest.raises(TopologyError, match="use left_join"):
        builder.stream("a").outer_join(builder.global_table("t"), both)


def test_a_join_with_a_global_table_needs_select(builder):
    with pytest.raises(TopologyError, match=r"needs select=f\(key, value\)"):
        builder.stream("a").join(builder.global_table("t"), both)


def test_options_of_other_joins_are_refused(builder):
    a, b, table = builder.stream("a"), builder.stream("b"), builder.table("t")
    with pytest.raises(TopologyError, match="join with a KTable has no option 'window'"):
        a.join(table, both, window=JoinWindows(10))
    with pytest.raises(TopologyError, match="join with a KStream has no option 'grace'"):
        a.join(b, both, window=JoinWindows(10), grace=5)
    with pytest.raises(TopologyError, match="join with a GlobalKTable has no option 'store'"):
        a.join(builder.global_table("g"), both, select=lambda k, v: k, store="x")


def test_a_stream_cannot_join_something_else(builder):
    with pytest.raises(TopologyError, match="a KStream, a KTable or a GlobalKTable, but not 'topic'"):
        builder.stream("a").join("topic", both)


def test_a_table_cannot_join_a_stream(builder):
    with pytest.raises(TopologyError, match=r"turn it into one with to_table\(\)"):
        builder.table("t").join(builder.stream("a"), both)


@pytest.mark.parametrize("verb", ["join", "merge"])
def test_handles_of_two_builders_cannot_meet(builder, verb):
    other = StreamsBuilder().stream("b")
    options = [both] if verb == "join" else []
    with pytest.raises(TopologyError, match="different builders"):
        getattr(builder.stream("a"), verb)(other, *options)


def test_tables_of_two_builders_cannot_meet(builder):
    with pytest.raises(TopologyError, match="different builders"):
        builder.table("a").join(StreamsBuilder().table("b"), both)


def test_a_grace_join_needs_a_versioned_table(builder):
    with pytest.raises(TopologyError, match=r"store=Stores.versioned"):
        builder.stream("a").join(builder.table("t"), both, grace=10)


def test_a_grace_join_through_an_unversioned_parent_is_refused_at_build(builder):
    builder.stream("a").join(builder.table("t").map_values(lambda v: v), both, grace=10)
    with pytest.raises(TopologyError, match=r"store=Stores.versioned"):
        builder.build()


def test_a_grace_join_needs_as_much_history(builder):
    table = builder.table("t", store=Stores.versioned("versions", 5))
    builder.stream("a").join(table, both, grace=10)
    with pytest.raises(TopologyError, match="keeps versions for 5 ms, but the join has a grace of 10 ms"):
        builder.build()


def test_joined_repartition_topics_need_equal_partitions(builder):
    a = builder.stream("a").repartition(name="left", partitions=2)
    b = builder.stream("b").repartition(name="right", partitions=3)
    a.join(b, both, window=JoinWindows(10))
    with pytest.raises(TopologyError, match=r"left-repartition.*right-repartition"):
        builder.build()


# --- functions ------------------------------------------------------------------------------------------------------

WRONG_ARITY = {
    "filter": lambda s: s.filter(lambda value: True),
    "filter_not": lambda s: s.filter_not(lambda: True),
    "select_key": lambda s: s.select_key(lambda value: value),
    "map": lambda s: s.map(lambda value: (value, value)),
    "flat_map": lambda s: s.flat_map(lambda a, b, c: []),
    "map_values": lambda s: s.map_values(lambda: 1),
    "map_values with key": lambda s: s.map_values(lambda value: value, with_key=True),
    "flat_map_values": lambda s: s.flat_map_values(lambda a, b, c: []),
    "foreach": lambda s: s.foreach(lambda value: None),
    "peek": lambda s: s.peek(lambda value: None),
    "group_by": lambda s: s.group_by(lambda value: value),
    "branch": lambda s: s.split().branch(lambda value: True),
    "deduplicate": lambda s: s.deduplicate(by=lambda value: value, within=5),
    "reduce": lambda s: s.group_by_key().reduce(lambda value: value),
    "aggregate init": lambda s: s.group_by_key().aggregate(lambda key: 0, lambda k, v, a: a),
    "aggregate": lambda s: s.group_by_key().aggregate(lambda: 0, lambda v, a: a),
    "windowed aggregate": lambda s: s.group_by_key().windowed_by(TimeWindows(1)).aggregate(lambda: 0, lambda v, a: a),
    "cogroup": lambda s: s.group_by_key().cogroup(lambda v, a: a),
    "join": lambda s: s.join(s, lambda left: left, window=JoinWindows(1)),
    "join with key": lambda s: s.join(s, lambda left, right: left, window=JoinWindows(1), with_key=True),
    "table filter": lambda s: s.to_table().filter(lambda value: True),
    "table map_values": lambda s: s.to_table().map_values(lambda: 1),
    "table group_by": lambda s: s.to_table().group_by(lambda value: value),
    "table reduce": lambda s: s.to_table().group_by(lambda k, v: (k, v)).reduce(lambda v: v, lambda a, v: a),
    "table join": lambda s: s.to_table().join(s.to_table(), lambda value: value),
    "to_stream": lambda s: s.to_table().to_stream(key=lambda value: value),
    "partitioner": lambda s: s.to("out", partitioner=lambda key: 0),
    "repartition": lambda s: s.repartition(partitioner=lambda key: 0),
    "to": lambda s: s.to(lambda key: "out"),
    "timestamp": lambda s: StreamsBuilder().stream("x", timestamp=lambda: 0),
    "timestamp of a table": lambda s: StreamsBuilder().table("x", timestamp=lambda a, b, c: 0),
    "foreign key": lambda s: s.to_table().join(s.to_table(), both, foreign_key=lambda: 1),
}


@pytest.mark.parametrize("name", WRONG_ARITY)
def test_a_function_of_the_wrong_arity_is_refused(builder, name):
    with pytest.raises(TopologyError, match="calls its function with"):
        WRONG_ARITY[name](builder.stream("a"))


def test_the_message_names_the_function_its_file_and_what_it_is_called_with(builder):
    def large(value):
        return value > 100

    with pytest.raises(
        TopologyError, match=r"filter\(\) calls its function with \(key, value\), but large takes \(value\)"
    ):
        builder.stream("a").filter(large)
    with pytest.raises(TopologyError, match=r"test_wrong_use.py:\d+"):
        builder.stream("a").filter(large)


def test_a_value_function_of_two_arguments_is_told_about_with_key(builder):
    with pytest.raises(TopologyError, match="say with_key=True"):
        builder.stream("a").map_values(lambda key, value: value)


def test_functions_that_do_not_say_what_they_take_pass(builder):
    builder.stream("a").map_values(str.split).flat_map_values(dict.items).map_values(max).filter(min).to("out")


def test_something_that_is_not_a_function_is_refused(builder):
    with pytest.raises(TopologyError, match=r"filter\(\) needs a function of \(key, value\), but got 5"):
        builder.stream("a").filter(5)


def test_a_processor_instance_is_refused(builder):
    with pytest.raises(TopologyError, match="give the class, not an instance of it"):
        builder.stream("a").process(Echo())


# --- names and options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.filter(lambda k, v: True, nmae="x"), r"filter\(\) has no option 'nmae' \(did you mean 'name'\?\)"),
        (lambda s: s.group_by_key(keys=Serdes.string), r"did you mean 'key'\?"),
        (lambda s: s.to("out", partitoner=None), r"did you mean 'partitioner'\?"),
        (lambda s: s.group_by_key().count(stor="x"), r"count\(\) has no option 'stor' \(did you mean 'store'\?\)"),
        (lambda s: s.to_table().join(s.to_table(), both, foreignkey=str), r"did you mean 'foreign_key'\?"),
        (lambda s: s.join(s, both, windows=JoinWindows(1)), r"did you mean 'window'\?"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_match(builder, call, message):
    with pytest.raises(TopologyError, match=message):
        call(builder.stream("a"))
    with pytest.raises(TypeError):
        call(builder.stream("a"))


def test_unknown_options_of_builder_and_topology_are_refused(builder):
    with pytest.raises(TopologyError, match=r"stream\(\) has no option 'valeu' \(did you mean 'value'\?\)"):
        builder.stream("a", valeu=Serdes.string)
    with pytest.raises(TopologyError, match=r"build\(\) has no option 'optimise' \(did you mean 'optimize'\?\)"):
        builder.build(optimise="all")
    with pytest.raises(TopologyError, match=r"did you mean 'timestamp'\?"):
        Topology().add_source("s", "t", timestmp=None)


def test_watermarks_and_late_policies_are_checked(builder):
    with pytest.raises(TopologyError, match=r"watermark= takes a WatermarkStrategy, .* but got 5"):
        builder.stream("a", watermark=5)
    with pytest.raises(TopologyError, match=r"late= takes one of LatePolicy.accept, .* but got 'drop'"):
        builder.stream("a", late="drop")
    with pytest.raises(TopologyError, match=r"calls its function with \(key, value, timestamp\)"):
        builder.table("a", watermark=WatermarkStrategy.custom(lambda value: value))
    with pytest.raises(TopologyError, match="needs a function"):
        WatermarkStrategy.custom(5)
    with pytest.raises(TopologyError, match="out_of_orderness must be at least 0"):
        WatermarkStrategy.bounded(-1)
    with pytest.raises(TopologyError, match="idle_after must be at least 1"):
        WatermarkStrategy.monotonic().idle_after(0)
    builder.stream("a", watermark=WatermarkStrategy.bounded(5), late=LatePolicy.drop)


@pytest.mark.parametrize("name", ["with space", "slash/", "ümlaut", "", ".", "..", "x" * 250])
def test_illegal_names_are_refused(builder, name):
    with pytest.raises(TopologyError, match="name"):
        builder.stream("a").filter(lambda k, v: True, name=name)


def test_a_name_that_gets_too_long_by_a_suffix_is_refused(builder):
    with pytest.raises(TopologyError, match="at most 249"):
        builder.table("t", name="x" * 245)


@pytest.mark.parametrize("topics", ["no spaces", "", ["good", "bad!"], []])
def test_illegal_topics_are_refused(builder, topics):
    with pytest.raises(TopologyError, match="topic"):
        builder.stream(topics)


def test_illegal_store_names_are_refused(builder):
    with pytest.raises(TopologyError, match="store 'my store' is not a legal name"):
        builder.stream("a").group_by_key().count(store="my store")


def test_two_nodes_of_one_name_are_refused(builder):
    builder.stream("a").filter(lambda k, v: True, name="same").map_values(str, name="same")
    with pytest.raises(TopologyError, match="there is already a node 'same'"):
        builder.build()


def test_two_branches_of_one_name_are_refused(builder):
    with pytest.raises(TopologyError, match="already has a branch 'x-same'"):
        builder.stream("a").split("x-").branch(lambda k, v: True, name="same").default(name="same")


def test_a_branch_after_the_default_is_refused(builder):
    split = builder.stream("a").split()
    split.default()
    with pytest.raises(TopologyError, match="already has its default branch"):
        split.branch(lambda k, v: True)


def test_two_tables_cannot_share_a_store(builder):
    a = builder.stream("a")
    a.group_by_key().count(store="same")
    with pytest.raises(TopologyError, match="another table is already kept in a store called 'same'"):
        a.group_by_key().count(store="same")


def test_two_joins_cannot_share_their_stores(builder):
    a, b = builder.stream("a"), builder.stream("b")
    a.join(b, both, window=JoinWindows(5), store="same")
    with pytest.raises(TopologyError, match="already kept in a store called 'same-this-join-store'"):
        a.join(b, both, window=JoinWindows(5), store="same")


def test_two_different_stores_of_one_name_are_refused(builder):
    builder.add_state_store(Stores.key_value("same"))
    builder.add_state_store(Stores.session("same", 10))
    with pytest.raises(TopologyError, match="a different store is already called 'same'"):
        builder.build()


def test_a_store_that_does_not_exist_is_refused_with_the_nearest_match(builder):
    builder.add_state_store(Stores.key_value("balances"))
    builder.stream("a").process(Echo, stores=["balance"])
    with pytest.raises(TopologyError, match=r"there is no store 'balance' \(did you mean 'balances'\?\)"):
        builder.build()


def test_a_global_store_is_not_connected(builder):
    builder.global_table("t", store="everywhere")
    builder.stream("a").process(Echo, stores=["everywhere"])
    with pytest.raises(TopologyError, match="open to every processor"):
        builder.build()


def test_something_that_is_not_a_store_is_refused(builder):
    with pytest.raises(TopologyError, match="stores= takes names and specs"):
        builder.stream("a").process(Echo, stores=[5])
    with pytest.raises(TopologyError, match="store= takes a name or a spec"):
        builder.table("t", store=5)
    with pytest.raises(TopologyError, match=r"Stores.key_value\('seen'\)"):
        builder.add_state_store("seen")


@pytest.mark.parametrize("store", [Stores.window("w", 10, 10), Stores.session("s", 10), Stores.shared("g")])
def test_a_table_needs_a_store_of_rows(builder, store):
    with pytest.raises(TopologyError, match="is needed here"):
        builder.table("t", store=store)


def test_a_windowed_table_needs_a_store_of_windows(builder):
    with pytest.raises(TopologyError, match=r"is a key_value store, but Stores.window is needed here"):
        builder.stream("a").group_by_key().windowed_by(TimeWindows(10)).count(store=Stores.key_value("kv"))


def test_a_global_table_cannot_be_versioned(builder):
    with pytest.raises(TopologyError, match="cannot be versioned"):
        builder.global_table("t", store=Stores.versioned("v", 10))


# --- sources --------------------------------------------------------------------------------------------------------


def test_overlapping_topics_are_refused(builder):
    builder.stream(["a", "b"]).to("x")
    builder.stream(["b", "c"]).to("y")
    with pytest.raises(TopologyError, match=r"overlap but are not the same .*read each topic once"):
        builder.build()


def test_a_topic_read_as_stream_and_as_table_is_refused(builder):
    builder.stream("a").to("x")
    builder.table("a")
    with pytest.raises(TopologyError, match="topic 'a' is already read by source"):
        builder.build()


def test_a_pattern_that_matches_a_topic_is_refused(builder):
    builder.stream("orders-1").to("x")
    builder.stream(re.compile("orders-.*")).to("y")
    with pytest.raises(TopologyError, match=r"pattern 'orders-\.\*' matches a topic"):
        builder.build()


@pytest.mark.parametrize(
    ("option", "one", "other"),
    [
        ("offset_reset", "earliest", "latest"),
        ("key", Serdes.string, Serdes.int32),
        ("value", Serdes.json, Serdes.string),
        ("timestamp", None, lambda record: 5),
    ],
)
def test_one_topic_cannot_be_read_in_two_ways(builder, option, one, other):
    builder.stream("a", **{option: one}).to("x")
    builder.stream("a", **{option: other}).to("y")
    with pytest.raises(TopologyError, match=f"read the same topics with different {option}"):
        builder.build()


def test_an_unknown_offset_reset_is_refused_with_the_nearest_match(builder):
    with pytest.raises(TopologyError, match=r"did you mean 'earliest'\?"):
        builder.stream("a", offset_reset="earlyest")


def test_an_unknown_optimisation_is_refused_with_the_nearest_match(builder):
    with pytest.raises(TopologyError, match=r"did you mean 'merge_repartition_topics'\?"):
        builder.build(optimize=["merge_repartition_topic"])


# --- windows and suppress -------------------------------------------------------------------------------------------


def test_retention_below_the_least_is_refused(builder):
    grouped = builder.stream("a").group_by_key()
    with pytest.raises(TopologyError, match=r"keeps windows for 10 ms, but .* needs 15 ms: raise its retention"):
        grouped.windowed_by(TimeWindows(10, grace=5)).count(store=Stores.window("w", 10, 10))
    with pytest.raises(TopologyError, match="needs 20 ms"):
        grouped.windowed_by(SlidingWindows(10)).count(store=Stores.window("w", 19, 10))
    with pytest.raises(TopologyError, match="needs 10 ms"):
        grouped.windowed_by(SessionWindows(10)).count(store=Stores.session("s", 9))


def test_a_window_store_of_another_size_is_refused(builder):
    with pytest.raises(TopologyError, match="is for windows of 5 ms, but"):
        builder.stream("a").group_by_key().windowed_by(TimeWindows(10)).count(store=Stores.window("w", 100, 5))


def test_windowed_by_takes_windows(builder):
    with pytest.raises(TopologyError, match=r"windowed_by.* takes TimeWindows"):
        builder.stream("a").group_by_key().windowed_by(timedelta(seconds=5))
    with pytest.raises(TopologyError, match=r"windowed_by.* takes TimeWindows"):
        builder.stream("a").group_by_key().windowed_by(JoinWindows(5))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"size": 0}, "Own.size must be at least 1"),
        ({"size": timedelta(seconds=1)}, "Own.size must be at least 1"),
        ({"grace": -1}, "Own.grace must be at least 0"),
        ({"starts_for": lambda self: ()}, r"windowed_by\(\) calls"),
    ],
)
def test_windows_of_one_s_own_have_a_size_a_grace_and_starts(builder, attributes, message):
    own = type("Own", (Windows,), {"size": 5, "grace": 0, "starts_for": lambda self, timestamp: (), **attributes})
    with pytest.raises(TopologyError, match=message):
        builder.stream("a").group_by_key().windowed_by(own())


def test_windows_of_one_s_own_cannot_emit_on_close(builder):
    own = type("Own", (Windows,), {"size": 5, "grace": 0, "starts_for": lambda self, timestamp: ()})
    with pytest.raises(TopologyError, match="Own cannot emit on close, only the built-in windows can"):
        builder.stream("a").group_by_key().windowed_by(own()).emit(EmitStrategy.on_window_close)


def test_unlimited_windows_cannot_emit_on_close(builder):
    with pytest.raises(TopologyError, match="UnlimitedWindows never close"):
        builder.stream("a").group_by_key().windowed_by(UnlimitedWindows()).emit(EmitStrategy.on_window_close)


def test_emit_takes_an_emit_strategy(builder):
    with pytest.raises(TopologyError, match=r"takes EmitStrategy.on_window_update or .on_window_close"):
        builder.stream("a").group_by_key().windowed_by(TimeWindows(5)).emit("on_window_close")


def test_sessions_need_a_merger_and_others_have_none(builder):
    grouped = builder.stream("a").group_by_key()
    with pytest.raises(TopologyError, match=r"give aggregate.* a merger="):
        grouped.windowed_by(SessionWindows(5)).aggregate(lambda: 0, lambda k, v, a: a)
    with pytest.raises(TopologyError, match="only session windows have a merger"):
        grouped.windowed_by(TimeWindows(5)).aggregate(lambda: 0, lambda k, v, a: a, merger=lambda k, a, b: a)
    with pytest.raises(TopologyError, match="only session windows have a merger"):
        grouped.cogroup(lambda k, v, a: a).aggregate(lambda: 0, merger=lambda k, a, b: a)


def test_several_unnamed_groups_cannot_be_cogrouped_after_a_key_change(builder):
    a, b = (builder.stream(topic).group_by(lambda k, v: v) for topic in "ab")
    with pytest.raises(TopologyError, match=r"give each group_by.* a name="):
        a.cogroup(lambda k, v, x: x).cogroup(b, lambda k, v, x: x).aggregate(lambda: 0)


def test_cogroup_must_come_before_windows(builder):
    a, b = (builder.stream(topic).group_by_key() for topic in "ab")
    with pytest.raises(TopologyError, match="must come before windowed_by"):
        a.cogroup(lambda k, v, x: x).windowed_by(TimeWindows(5)).cogroup(b, lambda k, v, x: x)


def test_until_window_closes_needs_a_window_upstream(builder):
    counts = builder.stream("a").group_by_key().count()
    with pytest.raises(TopologyError, match=r"put windowed_by\(\) before the aggregation"):
        counts.suppress(Suppressed.until_window_closes())


def test_until_window_closes_must_not_emit_early():
    with pytest.raises(TopologyError, match=r"add .shut_down_when_full\(\)"):
        Suppressed.until_window_closes(Buffer.max_records(10))


def test_a_versioned_table_cannot_be_suppressed(builder):
    table = builder.table("t", store=Stores.versioned("v", 100))
    with pytest.raises(TopologyError, match="cannot follow a versioned table"):
        table.suppress(Suppressed.until_time_limit(5))


def test_a_table_below_a_versioned_one_cannot_be_suppressed(builder):
    table = builder.table("t", store=Stores.versioned("v", 100)).filter(lambda k, v: True)
    table.suppress(Suppressed.until_time_limit(5))
    with pytest.raises(TopologyError, match="follows a versioned table further up"):
        builder.build()


def test_suppress_takes_suppressed(builder):
    with pytest.raises(TopologyError, match="takes Suppressed"):
        builder.table("t").suppress(timedelta(seconds=5))


@pytest.mark.parametrize("make", [lambda: Buffer.max_records(0), lambda: Buffer.max_bytes(0)])
def test_a_buffer_needs_room(make):
    with pytest.raises(TopologyError, match="must be at least 1"):
        make()


def test_a_repartition_needs_a_partition(builder):
    with pytest.raises(TopologyError, match="at least one partition"):
        builder.stream("a").repartition(partitions=0)
