"""With ``explicit_names=True`` a program whose stores and topics have generated names is refused, with what to write."""

import pytest

from penstock import JoinWindows, Stores, StreamsBuilder, Suppressed, TopologyError

pytestmark = pytest.mark.capability("SB7", "CO10")


@pytest.fixture
def builder():
    return StreamsBuilder(explicit_names=True)


def refusal(builder, **how):
    with pytest.raises(TopologyError) as caught:
        builder.build(**how)
    return str(caught.value).splitlines()[1:]


def both(one, two):
    return one, two


def test_generated_names_are_fine_unless_asked():
    builder = StreamsBuilder()
    builder.stream("in").group_by(lambda key, value: value).count()
    assert len(builder.build().stores) == 1


def test_a_store_its_changelog_and_its_repartition_topic_are_listed(builder):
    builder.stream("in").group_by(lambda key, value: value).count()
    store = "KSTREAM-AGGREGATE-STATE-STORE-0000000002"
    assert refusal(builder) == [
        f"  store {store} and its changelog topic {store}-changelog: give store= to the table, aggregation or join it is made for",
        f"  repartition topic {store}-repartition: give name= to the join, repartition(), to_table() or group_by() it is made for",
    ]


def test_a_named_store_names_its_topics_too(builder):
    builder.stream("in").group_by(lambda key, value: value).count(store="counts")
    assert list(builder.build().internal_topics) == ["counts-repartition"]


def test_a_store_that_is_not_logged_has_no_changelog_to_name(builder):
    left, right = builder.stream("a"), builder.stream("b")
    left.outer_join(right, both, window=JoinWindows(5))
    lines = refusal(builder)
    assert len(lines) == 3
    assert all("give store=" in line for line in lines)


def test_a_table_without_a_store_needs_no_name(builder):
    builder.table("rows").filter(lambda key, value: True).to_stream().to("out")
    assert builder.build().stores == {}


def test_a_buffer_is_named_by_its_node(builder):
    builder.table("rows", store="rows").suppress(Suppressed.until_time_limit(5))
    (line,) = refusal(builder)
    assert "KTABLE-SUPPRESS-STATE-STORE-" in line
    assert line.endswith("give name= to suppress(), or to the join with grace=")


def test_a_foreign_key_join_is_named_as_a_whole(builder):
    left, right = builder.table("a", store="a"), builder.table("b", store="b")
    left.join(right, both, foreign_key=lambda value: value)
    store, *topics = refusal(builder)
    assert store.endswith("give name= to the foreign-key join")
    assert [topic.split("-topic")[0].split("-00")[0] for topic in topics] == [
        "  repartition topic KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION",
        "  repartition topic KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE",
    ]


def test_a_generated_name_that_the_user_writes_down_is_the_user_s_own(builder):
    pinned = "KSTREAM-AGGREGATE-STATE-STORE-0000000001"
    builder.stream("in").group_by_key().count(store=pinned)
    assert list(builder.build().stores) == [pinned]


def test_merged_repartition_topics_are_listed_once(builder):
    by_value = builder.stream("in").select_key(lambda key, value: value)
    by_value.join(builder.table("t", store="t"), both)
    by_value.join(builder.table("u", store="u"), both)
    assert len(refusal(builder, optimize="all")) == 1


def test_stores_of_processors_have_names_anyway(builder):
    builder.add_state_store(Stores.key_value("kept"))
    assert list(builder.build().stores) == ["kept"]
