"""One result (promise 6), for random topologies: operators of any family behind each other, any shards, lanes and cuts."""

import os
from random import Random
from typing import Any

import pytest
from one_result import any_way, first_way, records, run
from operator_families import TEXT, both
from random_pipelines import build, stages_of, topics_of

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
