"""describe(): every topology, built by the real Kafka Streams and by Penstock, with and without optimisation."""

import oracle
import pytest
from topologies import TOPOLOGIES

from penstock import Serdes, StreamsBuilder

OPTIMIZATIONS = (
    (),
    ("all",),
    ("reuse_ktable_source_topics",),
    ("merge_repartition_topics",),
    ("single_store_self_join",),
)


def described(builder_class, topology, optimize):
    builder = builder_class()
    return (topology(builder) or builder.build(optimize=optimize)).describe()


@pytest.mark.parametrize("optimize", OPTIMIZATIONS, ids=lambda names: "+".join(names) or "plain")
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_the_text_equals_that_of_kafka_streams(name, optimize):
    topology = TOPOLOGIES[name]
    assert described(StreamsBuilder, topology, optimize) == described(oracle.StreamsBuilder, topology, optimize)


def test_a_builder_can_be_built_twice_with_the_same_result():
    for topology in TOPOLOGIES.values():
        builder = StreamsBuilder()
        if topology(builder) is None:
            builder.build(optimize="all")
            assert builder.build().describe() == described(StreamsBuilder, topology, ())


def test_two_groups_behind_one_filter_are_optimised_where_kafka_fails():
    def topology(builder):
        filtered = builder.stream("a").select_key(lambda k, v: v).filter(lambda k, v: True)
        filtered.group_by_key(key=Serdes.string).count(store="one")
        filtered.group_by_key(key=Serdes.string).count(store="two")

    with pytest.raises(oracle.OracleError, match="null keyChangingChild"):
        described(oracle.StreamsBuilder, topology, ("all",))
    builder = StreamsBuilder()
    topology(builder)
    assert list(builder.build(optimize="all").internal_topics) == ["one-repartition"]
