"""`explicit_names=True` refuses what Kafka refuses with ensure.explicit.internal.resource.naming, and lists the same names."""

import re
from typing import Any

import oracle
import pytest
from compare import run_both

from penstock import Serdes, Stores, StreamsBuilder
from penstock.dsl.options import Suppressed
from penstock.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows

pytestmark = pytest.mark.capability("SB7", "CO10")

TEXT = {"key": Serdes.string, "value": Serdes.string}
BOTH = {**TEXT, "other_value": Serdes.string}


def concat(one: Any, two: Any) -> str:
    return f"{one}{two}"


def by_value(key: Any, value: Any) -> Any:
    return value


def swapped(key: Any, value: Any) -> Any:
    return value, key


def stream(builder: Any, topic: str = "in") -> Any:
    return builder.stream(topic, **TEXT)


def table(builder: Any, topic: str = "rows") -> Any:
    return builder.table(topic, **TEXT, store=topic)


def versioned(builder: Any) -> Any:
    return builder.table("rows", **TEXT, store=Stores.versioned("rows", history=100))


def windowed(builder: Any) -> Any:
    return stream(builder).group_by_key(**TEXT).windowed_by(TimeWindows(10)).count(store="w")


def rekeyed(builder: Any, topic: str = "in") -> Any:
    return stream(builder, topic).select_key(by_value)


UNNAMED = {
    "count": lambda b: stream(b).group_by_key(**TEXT).count(),
    "count in a re-keyed group": lambda b: stream(b).group_by(by_value, **TEXT).count(),
    "count in a named group": lambda b: stream(b).group_by(by_value, **TEXT, name="by-value").count(),
    "reduce": lambda b: stream(b).group_by_key(**TEXT).reduce(concat, **TEXT),
    "time windows": lambda b: stream(b).group_by_key(**TEXT).windowed_by(TimeWindows(10)).count(),
    "sliding windows": lambda b: stream(b).group_by_key(**TEXT).windowed_by(SlidingWindows(10)).count(),
    "sessions": lambda b: stream(b).group_by_key(**TEXT).windowed_by(SessionWindows(10)).count(),
    "cogroup": lambda b: stream(b).group_by_key(**TEXT).cogroup(lambda k, v, a: a).aggregate(str, **TEXT),
    "to_table": lambda b: stream(b, "other").join(stream(b).to_table(**TEXT), concat, **BOTH),
    "table": lambda b: stream(b).join(b.table("rows", **TEXT), concat, **BOTH),
    "to_table re-keyed": lambda b: rekeyed(b).to_table(**TEXT, store="kept"),
    "repartition": lambda b: stream(b).repartition(**TEXT),
    "join": lambda b: stream(b).join(stream(b, "other"), concat, window=JoinWindows(5), **BOTH),
    "left join": lambda b: stream(b).left_join(stream(b, "other"), concat, window=JoinWindows(5), **BOTH),
    "outer join": lambda b: stream(b).outer_join(stream(b, "other"), concat, window=JoinWindows(5), **BOTH),
    "named outer join": lambda b: stream(b).outer_join(
        stream(b, "other"), concat, window=JoinWindows(5), name="joined", **BOTH
    ),
    "join of re-keyed streams": lambda b: rekeyed(b).join(
        rekeyed(b, "other"), concat, window=JoinWindows(5), store="kept", **BOTH
    ),
    "join with a table": lambda b: rekeyed(b).join(table(b), concat, **BOTH),
    "join with grace": lambda b: stream(b).join(versioned(b), concat, grace=5, **BOTH),
    "join of tables": lambda b: table(b).join(table(b, "other"), concat, **TEXT),
}


def listed_by_kafka(error: Exception) -> set[str]:
    """The names in Kafka's message: `Following ... has not been named: one, two`."""
    found = re.findall(r"has not been named: (.*)", str(error))
    return {name for names in found for name in names.split(", ")}


def listed_by_us(error: Exception) -> set[str]:
    found = re.findall(r"(?:store|changelog topic|repartition topic) ([A-Za-z0-9-]+)", str(error))
    return set(found)


def refused(program: Any) -> tuple[set[str], set[str]]:
    def topology(builder: Any) -> Any:
        explicit = type(builder)(explicit_names=True)
        program(explicit)
        return explicit.build()

    both = run_both(topology, [], inputs={})
    kafka, penstock = both.kafka, both.penstock
    assert kafka.failed == penstock.failed, (kafka.error, penstock.error)
    return (listed_by_kafka(kafka.error), listed_by_us(penstock.error)) if kafka.failed == -1 else (set(), set())


@pytest.mark.parametrize("name", UNNAMED)
def test_generated_names_are_refused_and_listed(name):
    kafka, penstock = refused(UNNAMED[name])
    assert kafka
    assert penstock == kafka


NAMED = {
    "stateless": lambda b: stream(b).filter(by_value).map_values(str).to("out", **TEXT),
    "count": lambda b: stream(b).group_by_key(**TEXT).count(store="counts"),
    "count in a re-keyed group": lambda b: stream(b).group_by(by_value, **TEXT).count(store="counts"),
    "grouped table": lambda b: table(b).group_by(swapped, **TEXT).count(store="counts"),
    "windows": windowed,
    "suppress": lambda b: windowed(b).suppress(Suppressed.until_window_closes(), name="held"),
    "to_table": lambda b: rekeyed(b).to_table(**TEXT, store="kept", name="table"),
    "repartition": lambda b: stream(b).repartition(**TEXT, name="moved"),
    "global table": lambda b: b.global_table("rows", **TEXT, store="rows"),
    "join": lambda b: rekeyed(b).outer_join(
        rekeyed(b, "other"), concat, window=JoinWindows(5), store="kept", name="joined", **BOTH
    ),
    "join with grace": lambda b: rekeyed(b).join(versioned(b), concat, grace=5, name="joined", **BOTH),
    "foreign key": lambda b: table(b).join(
        table(b, "other"), concat, foreign_key=lambda value: value, name="joined", store="kept", **TEXT
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_names_of_the_user_s_own_are_accepted(name):
    assert refused(NAMED[name]) == (set(), set())


MORE = {
    "grouped table": lambda b: table(b).group_by(swapped, **TEXT).count(),
    "suppress": lambda b: windowed(b).suppress(Suppressed.until_window_closes()),
}


@pytest.mark.parametrize("name", MORE)
def test_topics_and_buffers_that_kafka_does_not_list_are_listed_beside_those_it_does(name):
    kafka, penstock = refused(MORE[name])
    assert kafka < penstock


@pytest.mark.parametrize("optimize", [(), ("reuse_ktable_source_topics",)], ids=["plain", "reused"])
def test_a_changelog_that_the_source_topic_serves_as_is_not_listed(optimize):
    def names(builder: Any) -> set[str]:
        builder = type(builder)(explicit_names=True)
        builder.global_table("all", **TEXT)
        UNNAMED["table"](builder)
        with pytest.raises(Exception, match=r"generated|has not been named") as caught:
            builder.build(optimize=optimize)
        return (listed_by_us if type(builder) is StreamsBuilder else listed_by_kafka)(caught.value)

    kafka, penstock = names(oracle.StreamsBuilder()), names(StreamsBuilder())
    changelogs = {name for name in kafka if name.endswith("-changelog")}
    assert len(kafka) == 3
    assert penstock == (kafka - changelogs if optimize else kafka)
