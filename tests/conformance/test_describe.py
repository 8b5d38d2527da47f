"""describe(): every topology, built by the real Kafka Streams and by Penstock, with and without optimisation."""

from random import Random

import oracle
import pytest
from random_topologies import Program
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


@pytest.mark.capability("PA6", "SB6")
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


@pytest.mark.capability("PA6", "SB6")
@pytest.mark.parametrize("statements", [5, 12, 25])
def test_random_programs_have_the_same_text(statements):
    compared = 0
    for seed in range(100):
        optimize = OPTIMIZATIONS[seed % len(OPTIMIZATIONS)]

        def program(builder, seed=seed):
            Program(builder, Random(f"{statements}-{seed}")).say(statements)

        try:
            expected = described(oracle.StreamsBuilder, program, optimize)
        except oracle.OracleError as error:
            if "null keyChangingChild" in str(error):
                continue  # Kafka's own fault, see the test above
            raise
        assert described(StreamsBuilder, program, optimize) == expected, f"seed {seed}, {optimize}"
        compared += 1
    assert compared >= 80
