"""As it runs: sixteen shards, epochs of thousands of records. Every output of a key equals Kafka Streams' on one partition.

The scripts are those of production: many keys, late and out-of-order records, equal times, records without key or value (which never
carry a new greatest time: ``random_scripts.settled``; ``test_time_at_a_node.py`` pins what happens where they do). Stores are not cached,
so that every update is compared; with a cache the last value of each key.

Kafka's driver takes records in the order of the script, Penstock an epoch in the order of partition times: a script of several topics is
put into that order first. ``PENSTOCK_LONG=1``: 300 scripts of each family, and as many epochs of thousands.
"""

import os
from random import Random
from typing import Any

import oracle
import pytest
from compare import kafka_side
from operator_families import (
    COLLAPSING,
    FAMILIES,
    LENGTH,
    SPREAD,
    TEXT,
    both,
    by_key,
    caches,
    last_of,
    script,
    topics_of,
)

from penstock import JoinWindows, Serdes, StreamsBuilder
from penstock.testing import TopologyTestDriver

LONG = bool(os.environ.get("PENSTOCK_LONG"))
#: scripts of each family; an epoch holds all records of one
SCRIPTS = 300 if LONG else 60


def scripts_of(name: str) -> int:
    return SCRIPTS // 5 if name in SPREAD and not LONG else SCRIPTS


def shape_of(topology: Any) -> tuple[int, int]:
    """How far apart the times of a family's scripts are, and how many records they have."""
    return getattr(topology, "scale", 1), getattr(topology, "length", LENGTH)


def kafka(topology: Any, seed: str, steps: Any) -> dict[Any, list[Any]]:
    side = kafka_side(in_memory=False)
    builder = side.builder()
    topology(builder, Random(seed))
    with side.driver(builder.build(), {}) as driver:
        topics = {name: driver.input_topic(name, **TEXT) for name in {step[0] for step in steps}}
        for topic, *record in steps:
            topics[topic].pipe(*record)
        return by_key(driver.all_output().get("out", ()))


def penstock(topology: Any, seed: str, steps: Any, *, every: int) -> dict[Any, list[Any]]:
    builder = StreamsBuilder()
    topology(builder, Random(seed))
    config = {"application_id": oracle.APPLICATION_ID, "shards": 16}
    with TopologyTestDriver(builder, config=config, auto_commit=False) as driver:
        topics = {name: driver.input_topic(name, **TEXT) for name in {step[0] for step in steps}}
        for number, (topic, *record) in enumerate(steps, 1):
            topics[topic].pipe(*record)
            if number % every == 0:
                driver.commit()
        driver.commit()
        return by_key(driver.all_output().get("out", ()))


@pytest.mark.parametrize("name", FAMILIES)
def test_every_update_of_a_key_is_kafkas(name: str) -> None:
    topology = FAMILIES[name]
    for seed in range(scripts_of(name)):
        steps = script(Random(f"{name} {seed}"), topics_of(name), *shape_of(topology))
        expected = kafka(topology, str(seed), steps)
        every = (1000, 7, 23)[seed % 3]
        found = penstock(topology, str(seed), steps, every=every)
        if name in COLLAPSING:
            found, expected = last_of(found), last_of(expected)
        assert found == expected, (seed, every, steps)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_last_value_of_a_key_in_a_cached_store_is_kafkas(name: str) -> None:
    topology = FAMILIES[name]
    for seed in range(scripts_of(name) // 10):
        steps = script(Random(f"cached {name} {seed}"), topics_of(name), *shape_of(topology))
        with caches():
            expected, found = (
                kafka(topology, str(seed), steps),
                penstock(topology, str(seed), steps, every=(1000, 7)[seed % 2]),
            )
        assert last_of(found) == last_of(expected), (seed, steps)


@pytest.mark.parametrize("method", ["left_join", "outer_join"])
def test_results_of_a_join_are_kafkas_whenever_they_leave(method: str) -> None:
    """A row without a match leaves as soon as its window is closed; in Kafka it may wait on, depending on other keys."""

    def topology(builder: Any, random: Random) -> None:
        window = JoinWindows(5, grace=25)  # nobody is later than that
        left, right = builder.stream("a", **TEXT), builder.stream("b", **TEXT)
        getattr(left, method)(right, both, window=window, other_value=Serdes.string, **TEXT).to("out", **TEXT)

    for seed in range(SCRIPTS):
        steps = script(Random(f"{method} {seed}"), ("a", "b"), 1)
        ends = [(topic, "end", "z", 10_000 + 1000 * at) for at in range(3) for topic in ("a", "b")]
        expected, found = (
            {key: sorted(rows) for key, rows in run.items() if key != b"end"}
            for run in (kafka(topology, "", [*steps, *ends]), penstock(topology, "", [*steps, *ends], every=1000))
        )
        assert found == expected, (seed, steps)


@pytest.mark.parametrize("name", FAMILIES)
def test_an_epoch_of_thousands_of_records(name: str) -> None:
    topology = FAMILIES[name]
    scale, length = shape_of(topology)
    for seed in range(SCRIPTS if LONG else 1):
        steps = script(Random(f"{name} {seed}"), topics_of(name), scale, length=50 * length)
        expected, found = kafka(topology, str(seed), steps), penstock(topology, str(seed), steps, every=10_000)
        if name in COLLAPSING:
            found, expected = last_of(found), last_of(expected)
        assert found == expected, seed
