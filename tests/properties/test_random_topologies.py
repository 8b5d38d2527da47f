"""One result (promise 6), for random topologies: operators of any family behind each other, any shards, lanes and cuts."""

from random import Random
from typing import Any

import pytest
from one_result import any_way, first_way, records, run
from random_pipelines import build, stages_of

#: topologies in all, and ways that each is run, besides the first
SEEDS, WAYS = 120, 4


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
