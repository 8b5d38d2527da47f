"""The stores that the DSL makes: kind, caching, timestamps, retention, changelog."""

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
)
from penstock.state.spec import StoreKind

pytestmark = pytest.mark.capability("CO3")


@pytest.fixture
def builder():
    return StreamsBuilder()


@pytest.fixture
def grouped(builder):
    return builder.stream("in").group_by_key()


def test_a_table_store_is_timestamped_cached_and_logged(builder, grouped):
    grouped.count(store="counts")
    spec = builder.build().stores["counts"]
    assert (spec.kind, spec.timestamped, spec.cached, spec.logged) == (StoreKind.KEY_VALUE, True, True, True)


def test_options_of_a_spec_are_kept(builder, grouped):
    grouped.count(store=Stores.key_value("counts", persistent=False, logged=False, cached=False, ttl=5))
    spec = builder.build().stores["counts"]
    assert (spec.persistent, spec.logged, spec.cached, spec.ttl, spec.timestamped) == (False, False, False, 5, True)


def test_a_versioned_store_is_never_cached(builder, grouped):
    grouped.count(store=Stores.versioned("counts", 10))
    spec = builder.build().stores["counts"]
    assert (spec.cached, spec.timestamped) == (False, False)


def test_a_processor_store_is_neither_cached_nor_timestamped(builder):
    builder.add_state_store(Stores.key_value("seen"))
    spec = builder.build().stores["seen"]
    assert (spec.cached, spec.timestamped) == (False, False)


@pytest.mark.parametrize(
    ("windows", "retention", "size"),
    [
        (TimeWindows(10, grace=5), 15, 10),
        (TimeWindows(10, advance=2), 10, 10),
        (SlidingWindows(10, grace=5), 25, 10),
        (SessionWindows(10, grace=5), 15, None),
        (UnlimitedWindows(), 2**63 - 1, 2**63 - 1),
    ],
)
def test_windows_are_kept_as_long_as_they_can_change(builder, grouped, windows, retention, size):
    grouped.windowed_by(windows).count(store="w")
    spec = builder.build().stores["w"]
    assert (spec.retention, spec.window_size, spec.cached) == (retention, size, True)


def test_a_longer_retention_is_kept(builder, grouped):
    grouped.windowed_by(TimeWindows(10)).count(store=Stores.window("w", 1000, 10))
    assert builder.build().stores["w"].retention == 1000


@pytest.mark.parametrize("windows", [TimeWindows(10), SlidingWindows(10), SessionWindows(10)])
def test_results_on_close_are_not_cached_and_indexed_by_time(builder, grouped, windows):
    grouped.windowed_by(windows).emit(EmitStrategy.on_window_close).count(store="w")
    spec = builder.build().stores["w"]
    assert (spec.cached, spec.time_ordered) == (False, True)


def test_a_stream_join_keeps_all_records_of_both_sides(builder):
    a, b = builder.stream("a"), builder.stream("b")
    a.left_join(b, lambda x, y: x, window=JoinWindows(10, before=3, grace=2), store="j")
    stores = builder.build().stores
    assert sorted(stores) == ["j-left-shared-join-store", "j-outer-other-join-store", "j-this-join-store"]
    spec = stores["j-this-join-store"]
    assert (spec.kind, spec.retain_duplicates, spec.window_size, spec.retention) == (StoreKind.WINDOW, True, 13, 15)
    assert (spec.cached, spec.timestamped) == (False, False)
    assert stores["j-left-shared-join-store"].kind is StoreKind.OUTER_JOIN


def test_options_of_a_join_s_spec_hold_for_all_its_stores(builder):
    a, b = builder.stream("a"), builder.stream("b")
    spec = Stores.window("j", 100, 100, persistent=False, logged=False)
    a.outer_join(b, lambda x, y: x, window=JoinWindows(10), store=spec)
    assert {(s.persistent, s.logged) for s in builder.build().stores.values()} == {(False, False)}


JOINED = {"retain_duplicates": True}


@pytest.mark.capability("CO6")
def test_a_join_may_have_a_store_for_each_side(builder):
    a, b = builder.stream("a"), builder.stream("b")
    ours = Stores.window("ours", 22, 20, persistent=False, key=Serdes.int64, **JOINED)
    theirs = Stores.window("theirs", 22, 20, logged=False, value=Serdes.string, **JOINED)
    a.outer_join(b, lambda x, y: x, window=JoinWindows(10, grace=2), store=(ours, theirs))
    stores = builder.build().stores
    assert sorted(stores) == ["ours", "ours-outer-shared-join-store", "theirs"]
    assert [(s.persistent, s.logged) for s in stores.values()] == [(False, True), (True, False), (False, True)]
    assert {s.key for s in stores.values()} == {Serdes.int64}
    assert stores["theirs"].value is Serdes.string


@pytest.mark.capability("CO6")
@pytest.mark.parametrize(
    ("store", "message"),
    [
        ((Stores.window("a", 20, 20), None), "'a' must have retain_duplicates=True"),
        ((None, Stores.window("b", 21, 20, **JOINED)), "'b' has retention=21 .* needs retention=20 and size=20"),
        ((None, Stores.window("b", 20, 19, **JOINED)), "'b' has .*size=19, but JoinWindows.* needs"),
        ((Stores.window("a", 20, 20, **JOINED),) * 2, "both stores of the join are called 'a'"),
        ((Stores.key_value("a"), None), "'a' is a key_value store"),
        ((None, None), "store= takes a name, a spec, or two specs"),
        (("a", "b"), "store= takes a name, a spec, or two specs"),
        ((Stores.window("a", 20, 20, **JOINED),), "store= takes a name, a spec, or two specs"),
    ],
)
def test_stores_of_a_join_s_sides_must_fit_its_windows(builder, store, message):
    with pytest.raises(TopologyError, match=message):
        builder.stream("a").join(builder.stream("b"), lambda x, y: x, window=JoinWindows(10), store=store)


SETTINGS = {"retention.ms": 1000, "preallocate": True, "compression.type": "zstd"}
CONFIGURED = [
    Stores.key_value("s", topic_config=SETTINGS),
    Stores.window("s", 10, 10, topic_config=SETTINGS),
    Stores.session("s", 10, topic_config=SETTINGS),
    Stores.versioned("s", 10, topic_config=SETTINGS),
    Stores.lru("s", 10, topic_config=SETTINGS),
    Stores.shared("s", topic_config=SETTINGS),
    Stores.timers("s", topic_config=SETTINGS),
]


@pytest.mark.parametrize("spec", CONFIGURED, ids=lambda spec: spec.kind.value)
def test_settings_of_the_changelog_topic_are_kept_and_shown(builder, spec):
    (store,) = builder.add_state_store(spec).build().to_json()["stores"]
    assert store["topic_config"] == {"retention.ms": "1000", "preallocate": "true", "compression.type": "zstd"}


def test_the_changelog_of_a_join_is_never_compacted(builder):
    spec = Stores.window("j", 20, 20, topic_config={"cleanup.policy": "compact", "retention.ms": 5})
    builder.stream("a").left_join(builder.stream("b"), lambda x, y: x, window=JoinWindows(10), store=spec)
    shown = {s["name"]: s["topic_config"] for s in builder.build().to_json()["stores"]}
    assert shown["j-this-join-store"] == {"cleanup.policy": "delete", "retention.ms": "5"}
    assert shown["j-left-shared-join-store"] == {"cleanup.policy": "compact", "retention.ms": "5"}


def test_deduplicate_keeps_the_settings_of_its_store(builder):
    spec = Stores.window("seen", 10, 10, topic_config={"retention.ms": 5})
    builder.stream("a").deduplicate(by=lambda key, value: value, within=10, store=spec)
    assert builder.build().stores["seen"].topic_config == (("retention.ms", "5"),)


def test_settings_of_a_changelog_that_is_not_there_are_refused(builder):
    with pytest.raises(TopologyError, match="logged=False and no changelog topic"):
        Stores.key_value("s", logged=False, topic_config={"retention.ms": 5})
    spec = Stores.key_value("s", topic_config={"retention.ms": 5})
    with pytest.raises(TopologyError, match="topic of yours and has no changelog topic"):
        builder.global_table("g", store=spec)
    with pytest.raises(TopologyError, match="topic of yours and has no changelog topic"):
        Topology().add_read_only_state_store(spec, "t", Processor, source="source", name="fill")


@pytest.mark.parametrize("settings", [["retention.ms"], {5: "x"}, {"retention.ms": None}, "retention.ms=5"])
def test_settings_are_text_or_numbers_by_name(settings):
    with pytest.raises(TopologyError, match="topic_config="):
        Stores.key_value("s", topic_config=settings)


def test_a_suppress_buffer_is_in_memory_and_logged(builder):
    table = builder.table("t")
    table.suppress(Suppressed.until_time_limit(5), name="held")
    table.suppress(Suppressed.until_time_limit(5, Buffer.unbounded().without_log()), name="unlogged")
    stores = builder.build().stores
    assert (stores["held-store"].kind, stores["held-store"].persistent) == (StoreKind.BUFFER, False)
    assert (stores["held-store"].logged, stores["unlogged-store"].logged) == (True, False)


def test_a_table_is_stored_only_if_it_is_named_or_needed(builder):
    builder.table("plain").to_stream().to("x")
    builder.table("named", store="rows").to_stream().to("y")
    needed = builder.table("needed", name="needed")
    builder.stream("s").join(needed, lambda x, y: x).to("z")
    assert sorted(builder.build().stores) == ["needed-STATE-STORE-0000000009", "rows"]


def test_only_named_stores_are_queryable(builder, grouped):
    assert grouped.count().queryable_store_name is None
    assert grouped.count(store="counts").queryable_store_name == "counts"
    assert grouped.count(store="c2").filter(lambda k, v: True).queryable_store_name is None
    assert builder.global_table("g", store="all").queryable_store_name == "all"


def test_a_changelog_is_named_after_its_store(builder, grouped):
    grouped.count(store="counts")
    grouped.count(store=Stores.key_value("quiet", logged=False))
    topology = builder.build()
    assert topology.changelog_topic("counts") == "counts-changelog"
    assert topology.changelog_topic("quiet") is None


@pytest.mark.capability("SB6")
def test_with_that_optimisation_a_table_s_topic_is_its_changelog(builder):
    builder.table("people", store="rows")
    plain, optimised = builder.build(), builder.build(optimize=["reuse_ktable_source_topics"])
    assert plain.changelog_topic("rows") == "rows-changelog"
    assert optimised.changelog_topic("rows") == "people"
    assert optimised.stores["rows"].logged is False


@pytest.mark.parametrize("option", [{"timestamp": lambda record: 5}, {"late": LatePolicy.drop}], ids=["time", "late"])
def test_a_table_whose_rows_are_not_the_records_of_its_topic_has_a_changelog_of_its_own(builder, option):
    builder.table("people", store="rows", **option)
    assert builder.build(optimize="all").changelog_topic("rows") == "rows-changelog"


@pytest.mark.capability("SB3")
def test_a_global_table_is_restored_from_its_topic(builder):
    builder.global_table("people", store="rows", key=Serdes.int32)
    topology = builder.build()
    assert topology.changelog_topic("rows") == "people"
    assert list(topology.global_stores) == ["rows"]
    assert topology.nodes == {}


def test_joined_topics_are_partitioned_alike(builder):
    a, b = builder.stream("a", name="a"), builder.stream("b", name="b").select_key(lambda k, v: v)
    a.join(b, lambda x, y: x, window=JoinWindows(5), name="j")
    topology = builder.build()
    assert topology.copartitions == (("a", "j-right-repartition-source"),)
    assert list(topology.internal_topics) == ["j-right-repartition"]


def test_partitions_of_a_repartition_are_kept(builder):
    builder.stream("a").repartition(name="wide", partitions=12)
    assert builder.build().internal_topics["wide-repartition"].partitions == 12
