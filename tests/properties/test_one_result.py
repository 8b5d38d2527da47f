"""One result (promise 6 of the design): the same for any number of shards and lanes, and any cut into epochs.

Topologies of every operator family; late, out-of-order, equal-time, null-key and null-value records; one and three partitions. Each is
run once with one shard and a barrier after every record, then with others. Compared: every update of a key in order, final
results among them; with caches the last value of each key, and of what is final everything.
"""

from random import Random
from typing import Any

import pytest
from one_result import any_way, first_way, records, run
from operator_families import COLLAPSING, FAMILIES, caches, last_of, topics_of

#: what these give out is final: a cache must not change any of it
FINAL = {name for name in FAMILIES if "close" in name or "suppressed" in name}
#: combinations that a script is run with, besides the first
TRIED = 5


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("cached", [False, True], ids=["uncached", "cached"])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_results_for_any_shards_lanes_and_cuts(name: str, cached: bool, partitions: int) -> None:
    topology = FAMILIES[name]
    for seed in range(3):
        random = Random(f"{name} {cached} {partitions} {seed}")
        steps = records(random, topics_of(name), partitions, getattr(topology, "scale", 1))
        expected = made(topology, seed, steps, cached, first_way(partitions))
        for _ in range(TRIED):
            how = any_way(random, partitions)
            found = made(topology, seed, steps, cached, how)
            if name in COLLAPSING or (cached and name not in FINAL):
                assert last_of(found) == last_of(expected), (how, seed, steps)
            else:
                assert found == expected, (how, seed, steps)


def made(topology: Any, seed: int, steps: Any, cached: bool, how: dict[str, Any]) -> Any:
    if not cached:
        return run(topology, str(seed), steps, **how)
    with caches():
        return run(topology, str(seed), steps, **how)
