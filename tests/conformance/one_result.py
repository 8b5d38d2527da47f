"""Running a topology in the driver with any number of shards, lanes and partitions, and any cut into epochs."""

import itertools
from collections.abc import Iterator
from random import Random
from typing import Any

from operator_families import KEYS, TEXT, by_key, in_order_of_partition_times, partition_of

from penstock import StreamsBuilder
from penstock.testing import TopologyTestDriver

#: "each": as the driver does by default, a barrier after every record and after every one that it becomes on the way
SHARDS, LANES, BARRIERS = (1, 2, 16, 64), (1, 2, 5), (1, 7, 1000, None, "each")


def records(
    random: Random, topics: tuple[str, ...], partitions: int, scale: int, length: int = 50
) -> list[tuple[Any, ...]]:
    """Records of which any may carry a new greatest time, also those without key or value."""
    now, steps = random.choice((0, 20)), []
    for number in range(length):
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


def any_way(random: Random, partitions: int) -> dict[str, Any]:
    """Return a way of running it."""
    ways = {"shards": SHARDS, "lanes": LANES, "barrier": BARRIERS}
    return {"partitions": partitions, **{name: random.choice(values) for name, values in ways.items()}}


def all_ways(partitions: int) -> Iterator[dict[str, Any]]:
    """Yield every way of running it."""
    for shards, lanes, barrier in itertools.product(SHARDS, LANES, BARRIERS):
        yield {"partitions": partitions, "shards": shards, "lanes": lanes, "barrier": barrier}


def first_way(partitions: int) -> dict[str, Any]:
    """Return the way that others are compared with."""
    return {"shards": 1, "lanes": 1, "partitions": partitions, "barrier": 1}
