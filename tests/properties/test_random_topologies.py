"""One result (promise 6), for random topologies: operators of any family behind each other, any shards, lanes and cuts."""

import os
from random import Random
from typing import Any

import pytest
from one_result import any_way, first_way, records, run
from operator_families import TEXT, both, in_order_of_partition_times
from random_pipelines import build, build_stages, stages_of, topics_of

from penstock import Stores

#: topologies in all, and ways that each is run, besides the first
SEEDS, WAYS = 240 if os.environ.get("PENSTOCK_LONG") else 40, 4


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_topologies_give_one_result(seed: int, partitions: int) -> None:
    random, stages = Random(f"{seed} {partitions}"), stages_of(str(seed))
    steps = records(random, topics_of(stages), partitions, 1)

    def topology(builder: Any, _: Random) -> None:
        build(builder, str(seed))

    expected = run(topology, "", steps, **first_way(partitions))
    for _ in range(WAYS):
        how = any_way(random, partitions)
        assert run(topology, "", steps, **how) == expected, (stages, how, steps)


def again_with_the_same_table(builder: Any, store: Any) -> None:
    table = builder.table("b", **TEXT, store=store)
    once = builder.stream("a", **TEXT).left_join(table, both, **TEXT)
    again = once.select_key(lambda key, value: value[:1]).left_join(table, both, **TEXT)
    again.to("out", **TEXT)


STORES = {
    "plain": lambda: Stores.key_value("t", cached=False, **TEXT),
    "cached": lambda: Stores.key_value("t", cached=True, **TEXT),
    "expiring": lambda: Stores.key_value("t", ttl=1000, **TEXT),
    "versioned": lambda: Stores.versioned("t", history=1000, **TEXT),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("barrier", [1, 2, None])
def test_what_comes_back_to_its_own_table_meets_it_as_of_its_source_record(store: str, barrier: int | None) -> None:
    steps = [("b", "x", "first", 0), ("a", "k", "x1", 1), ("b", "x", "later", 1), ("a", "k", "x2", 5)]
    found = run(
        lambda builder, _: again_with_the_same_table(builder, STORES[store]()),
        "",
        steps,
        shards=16,
        lanes=1,
        partitions=1,
        barrier=barrier,
    )
    assert found == {b"x": [(b"x1/None/first", 1), (b"x2/None/later", 5)]}


#: what random topologies have found: stages of a topology, its parameters, records; shrunk
FOUND = {
    "what a released row has changed in a cache leaves with it": (
        ["joined_with_versions", "final_windows"],
        "127",
        [
            ("b", "key8", "u9", 49),
            ("a", "key12", "t14", 55),
            ("b", "key20", "v22", 71),
            ("a", "key8", "s21", 92),
            ("a", "key20", "s23", 97),
            ("a", None, "u45", 194),
            ("a", "key18", "u48", 205),
            ("a", "key11", "s49", 216),
        ],
    ),
    "unmatched rows have one order, whichever side gives them out": (
        ["joined_with_a_stream", "two_branches", "joined_with_a_table"],
        "126",
        [("a", "key24", "u34", 107), ("b", "key23", "u38", 107), ("b", "key5", "u43", 137), ("b", "key8", "v45", 140)],
    ),
    "unmatched rows are due by the clock of both sides": (
        ["joined_with_a_stream", "joined_with_a_stream", "re_keyed"],
        "373",
        [("b", "key26", "s13", 56), ("a", "key0", "t18", 50), ("b", "key2", "v22", 81), ("b", "key26", "u23", 87)],
    ),
    "a released row meets the history of its own time": (
        ["joined_with_a_stream", "joined_with_versions", "aggregated"],
        "207",
        [("b", "key17", "v7", 6), ("b", "key17", "s10", 17), ("b", "key3", "v24", 74)],
    ),
    "the side of a join that was not re-keyed waits for the other": (
        ["joined_with_a_table", "in_sliding_windows", "joined_with_a_stream"],
        "31",
        [("a", "key12", "s41", 213), ("b", "key7", "t40", 216), ("a", "key18", "v46", 254), ("a", "key19", "u49", 265)],
    ),
    "what comes back is never the first of its record": (
        ["merged_with_itself_re_keyed", "held_back"],
        "162",
        [("a", "key22", "t43", 221), ("a", "key13", "s44", 232)],
    ),
    "what a record became comes behind the record": (
        ["spread", "table_joined_with_its_groups"],
        "67",
        [("a", "key25", "u40", 169), ("a", "key2", "v49", 212)],
    ),
}


@pytest.mark.parametrize("found", FOUND)
@pytest.mark.parametrize("partitions", [1, 3])
def test_what_random_topologies_have_found(found: str, partitions: int) -> None:
    stages, seed, unordered = FOUND[found]
    steps = in_order_of_partition_times(unordered, partitions)

    def topology(builder: Any, _: Random) -> None:
        build_stages(builder, stages, seed)

    expected = run(topology, "", steps, **first_way(partitions))
    assert expected or partitions > 1  # time may not come far enough
    for shards in (1, 2, 16):
        for barrier in (1, None, "each"):
            how = {"shards": shards, "lanes": 1, "partitions": partitions, "barrier": barrier}
            assert run(topology, "", steps, **how) == expected, how
