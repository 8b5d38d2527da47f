"""Joins over several shards and lanes: what a key gives depends neither on their number nor on where epochs are cut."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pytest

from penstock import StreamsBuilder
from penstock.serde import Serdes
from penstock.testing import TopologyTestDriver
from penstock.windows import JoinWindows

STRINGS = {"key": Serdes.string, "value": Serdes.string}
KEYS = "abcdexyz"


def joined(left: Any, right: Any) -> str:
    return f"{left}+{right}"


def foreign_key(value: str) -> str | None:
    return value[0] if value[0] in "xy" else None


def streams(method: str, **window: int) -> Any:
    def topology(builder: StreamsBuilder) -> Any:
        left, right = builder.stream("left", **STRINGS), builder.stream("right", **STRINGS)
        return getattr(left, method)(right, joined, window=JoinWindows(60, **window))

    return topology


def tables(method: str, **how: Any) -> Any:
    def topology(builder: StreamsBuilder) -> Any:
        left, right = builder.table("left", **STRINGS), builder.table("right", **STRINGS)
        return getattr(left, method)(right, joined, **how).to_stream()

    return topology


def stream_and_table(method: str) -> Any:
    def topology(builder: StreamsBuilder) -> Any:
        return getattr(builder.stream("left", **STRINGS), method)(builder.table("right", **STRINGS), joined)

    return topology


STREAM_JOINS = {
    "stream inner stream": streams("join"),
    "stream left stream": streams("left_join", grace=20),
    "stream outer stream": streams("outer_join", before=30, after=90),
    "stream left table": stream_and_table("left_join"),
}
TABLE_JOINS = {
    "table inner table": tables("join"),
    "table outer table": tables("outer_join"),
    "table inner table by foreign key": tables("join", foreign_key=foreign_key),
    "table left table by foreign key": tables("left_join", foreign_key=foreign_key),
}


def records(seed: int) -> list[tuple[str, str, str | None, int]]:
    """Both sides mixed, times ascending; at the end every key moves time, so that nothing is left waiting."""
    random = Random(seed)
    mixed = [
        (random.choice(("left", "right")), random.choice(KEYS), random.choice([None, "x", "y", "w", "v"]), 7 * number)
        for number in range(80)
    ]
    ends = [
        (side, key, f"x, the end at {at}", at) for at in (10_000, 20_000) for key in KEYS for side in ("left", "right")
    ]
    return [*mixed, *((side, key, value, at + number) for number, (side, key, value, at) in enumerate(ends))]


def run(topology: Any, seed: int, cut: int | None = None, **how: Any) -> dict[str, list[tuple[Any, int]]]:
    """Return each key's results in order; ``cut``: a barrier only after so many records."""
    builder = StreamsBuilder()
    topology(builder).to("out", **STRINGS)
    results: dict[str, list[tuple[Any, int]]] = defaultdict(list)
    with TopologyTestDriver(builder, auto_commit=cut is None, **how) as driver:
        topics = {name: driver.input_topic(name, **STRINGS) for name in ("left", "right")}
        for number, (topic, *record) in enumerate(records(seed), 1):
            topics[topic].pipe(*record)
            if cut is not None and number % cut == 0:
                driver.commit()
        driver.commit()
        for record in driver.output_topic("out", **STRINGS).read_all():
            results[record.key].append((record.value, record.timestamp))
    return dict(results)


@pytest.mark.parametrize("join", [*STREAM_JOINS, *TABLE_JOINS])
@pytest.mark.parametrize("seed", range(3))
def test_results_of_a_key_do_not_depend_on_lanes_and_shards(join, seed):
    topology = {**STREAM_JOINS, **TABLE_JOINS}[join]
    expected = run(topology, seed, config={"shards": 2})
    assert sum(map(len, expected.values())) > 30
    assert run(topology, seed, lanes=4) == expected
    assert run(topology, seed, lanes=3, config={"shards": 64}) == expected


@pytest.mark.parametrize("join", STREAM_JOINS)
@pytest.mark.parametrize("cut", [7, 40])
def test_results_of_a_key_do_not_depend_on_where_epochs_are_cut(join, cut):
    assert run(STREAM_JOINS[join], 1, cut, lanes=4) == run(STREAM_JOINS[join], 1, lanes=4)


@pytest.mark.parametrize("join", TABLE_JOINS)
@pytest.mark.parametrize("cut", [7, 40])
def test_the_final_table_does_not_depend_on_where_epochs_are_cut(join, cut):
    def final(results: dict[str, list[tuple[Any, int]]]) -> dict[str, Any]:
        return {key: rows[-1][0] for key, rows in results.items() if rows[-1][0] is not None}

    assert final(run(TABLE_JOINS[join], 1, cut, lanes=4)) == final(run(TABLE_JOINS[join], 1, lanes=4)) != {}
