"""One result (promise 6 of the design): the same for any number of shards and lanes, and any cut into epochs.

Topologies of every operator family; late, out-of-order, equal-time, null-key and null-value records; one and three partitions. Each is
run once with one shard and a barrier after every record, then with others. Compared: every update of a key in order, final
results among them; with caches the last value of each key, and of what is final everything.
"""

from random import Random
from typing import Any

import pytest
from operator_families import (
    COLLAPSING,
    FAMILIES,
    KEYS,
    TEXT,
    by_key,
    caches,
    in_order_of_partition_times,
    last_of,
    partition_of,
    topics_of,
)

from penstock import StreamsBuilder
from penstock.testing import TopologyTestDriver

#: "each": as the driver does by default, a barrier after every record and after every one that it becomes on the way
SHARDS, LANES, BARRIERS = (1, 2, 16, 64), (1, 2, 5), (1, 7, 1000, None, "each")
#: what these give out is final: a cache must not change any of it
FINAL = {name for name in FAMILIES if "close" in name or "suppressed" in name}
#: combinations that a script is run with, besides the first
TRIED = 5


def records(random: Random, topics: tuple[str, ...], partitions: int, scale: int) -> list[tuple[Any, ...]]:
    """Records of which any may carry a new greatest time, also those without key or value."""
    now, steps = random.choice((0, 20)), []
    for number in range(50):
        now += random.choice((0, 0, 1, 2, 5, 10, 11))
        late = random.choice((0, 0, 0, 1, 4, 9, 10, 25))
        key = None if random.random() < 0.06 else random.choice(KEYS)
        value = None if random.random() < 0.08 else f"{random.choice('stuv')}{number}"
        steps.append((random.choice(topics), key, value, max(0, now - late) * scale))
    return in_order_of_partition_times(steps, partitions)


def run(topology: Any, seed: str, steps: Any, *, shards: int, lanes: int, partitions: int, barrier: Any) -> Any:
    builder = StreamsBuilder()
    topology(builder, Random(seed))
    with TopologyTestDriver(
        builder, shards=shards, lanes=lanes, partitions=partitions, auto_commit=barrier == "each"
    ) as driver:
        topics = {name: driver.input_topic(name, **TEXT) for name in {step[0] for step in steps}}
        for number, (topic, key, value, timestamp) in enumerate(steps, 1):
            topics[topic].pipe(key, value, timestamp, partition=partition_of(key, partitions))
            if isinstance(barrier, int) and number % barrier == 0:
                driver.commit()
        driver.commit()
        return by_key(driver.all_output().get("out", ()))


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("cached", [False, True], ids=["uncached", "cached"])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_same_results_for_any_shards_lanes_and_cuts(name: str, cached: bool, partitions: int) -> None:
    topology = FAMILIES[name]
    for seed in range(3):
        random = Random(f"{name} {cached} {partitions} {seed}")
        steps = records(random, topics_of(name), partitions, getattr(topology, "scale", 1))
        first = {"shards": 1, "lanes": 1, "partitions": partitions, "barrier": 1}
        expected = made(topology, seed, steps, cached, first)
        for _ in range(TRIED):
            how = {
                "shards": random.choice(SHARDS),
                "lanes": random.choice(LANES),
                "partitions": partitions,
                "barrier": random.choice(BARRIERS),
            }
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
