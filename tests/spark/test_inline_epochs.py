"""The way that an epoch takes changes nothing: read and exchanged by Spark, or run inline by one task.

In CI the runs of ``test_lanes_and_cuts`` show it, each of which goes another way; here with more epochs, all else being equal.
"""

from __future__ import annotations

import os

import pytest
from tests.spark.runs import Layout
from tests.spark.test_lanes_and_cuts import EVERY, EVERY_OTHER, NONE, ordered, seen

pytestmark = pytest.mark.skipif(not os.environ.get("PENSTOCK_LONG"), reason="long form: PENSTOCK_LONG=1")


def test_inline_epochs_commit_the_same_records_of_each_key_in_the_same_order(bench):
    ways = {"spark": NONE, "inline": EVERY, "turns": EVERY_OTHER}
    found = {name: seen(bench, name, Layout(2, 16, 3, chunks=6, inline=inline)) for name, inline in ways.items()}
    spark = found["spark"]
    assert spark.sinks.keys() == {"sums", "values", "windows", "joined", "foreign", "pairs", "enriched"}
    for other in (found["inline"], found["turns"]):
        assert ordered(other, beside=spark) == ordered(spark, beside=other)
