"""One result (promise 6), for random topologies: operators of any family behind each other, any shards, lanes and cuts."""

import os
from random import Random
from typing import Any

import pytest
from one_result import any_way, first_way, records, run
from operator_families import TEXT, both
from random_pipelines import build, stages_of

from penstock import Stores

#: topologies in all, and ways that each is run, besides the first
SEEDS, WAYS = 240 if os.environ.get("PENSTOCK_LONG") else 60, 4


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_topologies_give_one_result(seed: int, partitions: int) -> None:
    random, stages = Random(f"{seed} {partitions}"), stages_of(str(seed))
    topics = ("a", "b") if any("joined" in stage for stage in stages) else ("a",)
    steps = records(random, topics, partitions, 1)

    def topology(builder: Any, _: Random) -> None:
        build(builder, str(seed))

    expected = run(topology, "", steps, **first_way(partitions))
    for _ in range(WAYS):
        how = any_way(random, partitions)
        assert run(topology, "", steps, **how) == expected, (stages, how, steps)


def test_what_comes_back_to_its_own_table_meets_the_end_of_the_epoch() -> None:
    """Pinned: docs/differences.md. The table is read in the first step, the record comes back to it in the second."""

    def topology(builder: Any, _: Random) -> None:
        table = builder.table("b", **TEXT, store=Stores.key_value("t", cached=False, **TEXT))
        once = builder.stream("a", **TEXT).left_join(table, both, **TEXT)
        again = once.select_key(lambda key, value: value[:1]).left_join(table, both, **TEXT)
        again.to("out", **TEXT)

    steps = [("a", "k", "x1", 1), ("b", "x", "later", 5)]
    one = {"shards": 16, "lanes": 1, "partitions": 1}
    assert run(topology, "", steps, **one, barrier=1) == {b"x": [(b"x1/None/None", 1)]}
    assert run(topology, "", steps, **one, barrier=None) == {b"x": [(b"x1/None/later", 1)]}
