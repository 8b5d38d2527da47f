"""Optimisations by configuration are those of ``build``, wherever the setting comes from."""

import pytest

from penstock import App, ConfigError, StreamsBuilder
from penstock.testing import TopologyTestDriver


def program():
    builder = StreamsBuilder()
    builder.table("rows", store="rows").to_stream().to("out")
    changed = builder.stream("in").select_key(lambda key, value: value)
    changed.group_by_key().count(store="one")
    changed.group_by_key().count(store="two")
    return builder


@pytest.mark.parametrize(
    "given", ["all", ["merge_repartition_topics"], "merge_repartition_topics,reuse_ktable_source_topics"]
)
def test_a_builder_is_built_as_the_configuration_says(given, monkeypatch):
    names = given.split(",") if isinstance(given, str) else given
    expected = program().build(optimize=names).describe()
    assert expected != program().build().describe()
    assert App(program(), application_id="a", optimize=given).topology.describe() == expected
    monkeypatch.setenv("PENSTOCK_OPTIMIZE", ",".join(names))
    assert App(program(), application_id="a").topology.describe() == expected


def test_the_driver_takes_it_too():
    with TopologyTestDriver(program(), config={"optimize": "all"}) as driver:
        driver.input_topic("in").pipe("k", "v", 1)
        assert sum("repartition" in topic for topic in driver.topics()) == 1


def test_a_topology_that_is_built_cannot_be_optimised_and_an_unknown_name_is_refused():
    with pytest.raises(ConfigError, match="give App the builder"):
        App(program().build(), application_id="a", optimize="all")
    with pytest.raises(ConfigError, match="did you mean"):
        App(program(), application_id="a", optimize="single_store_selfjoin")
