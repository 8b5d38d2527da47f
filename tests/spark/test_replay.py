"""A backlog through Spark and a real broker gives what the same records gave when they came.

The live run is the test driver's, with a barrier for every ten minutes of event time. ``PENSTOCK_LONG=1``: ten times as many records.
"""

from __future__ import annotations

import os

import pytest
from tests.engine.history import MINUTE, Result, history, live, shop
from tests.spark.runs import Case, Layout
from tests.spark.same import assert_same
from tests.spark.scripts import Sent, build, inputs, outputs, renamed

LONG = bool(os.environ.get("PENSTOCK_LONG"))
LAYOUT = Layout(lanes=2, shards=4, partitions=3, chunks=1, epoch=1500 if LONG else 350)


@pytest.fixture(scope="module")
def steps():
    return history("spark", every=(6 if LONG else 60) * MINUTE)


@pytest.fixture(scope="module")
def as_it_came(steps):
    return live(steps)


def replayed(bench, steps, name, **config) -> Result:
    """Write the history, then run an application over it; what it commits is also what the driver gives with the same cuts."""
    application = bench.fresh(name)
    prefix = f"{application}."
    topology = renamed(build(shop), prefix)
    case = Case(bench, topology, application, inputs(topology, prefix), outputs(topology), LAYOUT, config)
    try:
        case.run([Sent(prefix + step.topic, *step[2:]) for step in steps])
        seen = case.seen()
        assert_same(seen, case.driver.seen())
    finally:
        case.close()
    output = {
        topic[len(prefix) :]: {key: [(row.value, row.timestamp) for _, row in rows] for key, rows in by_key.items()}
        for topic, by_key in seen.sinks.items()
    }
    return Result(output, {}, seen.dropped, seen.epochs)


def in_any_order(result: Result, topic: str) -> dict:
    """A row without a partner waits for the clock, so it may come after a later pair."""
    return {key: sorted(rows) for key, rows in result.output[topic].items()}


def test_three_days_of_skewed_history_through_spark_give_what_they_gave_live(bench, steps, as_it_came):
    again = replayed(bench, steps, "replay")
    assert again.epochs >= len(steps) / LAYOUT.epoch
    assert in_any_order(again, "paid") == in_any_order(as_it_came, "paid")
    assert again.output["priced"] == as_it_came.output["priced"]
    assert again.output["hourly"] == as_it_came.output["hourly"]
    assert again.dropped == as_it_came.dropped == {}


def test_without_alignment_the_history_through_spark_gives_something_else(bench, steps, as_it_came):
    apart = replayed(bench, steps, "apart", align_replay=False)
    assert apart.output["hourly"] != as_it_came.output["hourly"]
    assert apart.output["priced"] != as_it_came.output["priced"]
    assert apart.dropped
