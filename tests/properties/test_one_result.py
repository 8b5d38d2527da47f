"""One result (promise 6 of the design): the same for any number of shards and lanes, and any cut into epochs.

Topologies of every operator family; late, out-of-order, equal-time, null-key and null-value records; one and three partitions. Each is
run once with one shard and a barrier after every record, then with others. Compared: every update of a key in order, final
results among them; with caches the last value of each key, and of what is final everything.

Five ways of each script, drawn at random. ``PENSTOCK_LONG=1``: every way, and scripts of 2,100 records, of which a barrier after 1,000
makes three epochs.
"""

import os
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from one_result import all_ways, any_way, first_way, records, run
from operator_families import COLLAPSING, FAMILIES, caches, last_of, topics_of

#: what these give out is final: a cache must not change any of it
FINAL = {name for name in FAMILIES if "close" in name or "suppressed" in name}
#: combinations that a script is run with, besides the first
TRIED = 5
LONG = bool(os.environ.get("PENSTOCK_LONG"))


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("cached", [False, True], ids=["uncached", "cached"])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_results_for_any_shards_lanes_and_cuts(name: str, cached: bool, partitions: int) -> None:
    for seed in range(3):
        random = Random(f"{name} {cached} {partitions} {seed}")
        steps = records(random, topics_of(name), partitions, scale_of(name))
        compare(name, seed, steps, cached, ways(random, partitions))


@pytest.mark.skipif(not LONG, reason="minutes: set PENSTOCK_LONG=1")
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("cached", [False, True], ids=["uncached", "cached"])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_results_of_thousands_of_records(name: str, cached: bool, partitions: int) -> None:
    random = Random(f"long {name} {cached} {partitions}")
    steps = records(random, topics_of(name), partitions, scale_of(name), length=2100)
    cut = [{**any_way(random, partitions), "barrier": barrier} for barrier in (7, 1000, 1000, None, None)]
    compare(name, 0, steps, cached, cut)


def scale_of(name: str) -> int:
    return getattr(FAMILIES[name], "scale", 1)


def ways(random: Random, partitions: int) -> Iterable[dict[str, Any]]:
    return all_ways(partitions) if LONG else (any_way(random, partitions) for _ in range(TRIED))


def compare(name: str, seed: int, steps: Any, cached: bool, ways: Iterable[dict[str, Any]]) -> None:
    topology, tried = FAMILIES[name], list(ways)
    expected = made(topology, seed, steps, cached, first_way(tried[0]["partitions"]))
    for how in tried:
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
