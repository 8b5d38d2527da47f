"""Every topology of the conformance suite, and random ones, give through Spark and a real broker what they give in the test driver.

Compared, for the same input and the same cuts: the committed records of every topic (of each key in order: value, timestamp,
headers, partition), the last row of each key in every changelog, the contents of every store, also as a machine without any state
restores it, and what was dropped and why.

Each topology runs in one layout, all of them in turn; with ``PENSTOCK_LONG=1`` each runs in all, and there are ten times as many
random ones.
"""

from __future__ import annotations

import os
from functools import partial
from random import Random

import operator_families
import pytest
import random_pipelines
from tests.spark import families
from tests.spark.runs import Case, Layout
from tests.spark.same import assert_same
from tests.spark.scripts import build, inputs, outputs, renamed, script
from topologies import TOPOLOGIES

#: every epoch is inline; in the other layouts every other one is, the first one not
INLINE = (0, 1)
LAYOUTS = (
    Layout(lanes=2, shards=16, partitions=3, chunks=2),
    Layout(lanes=1, shards=4, partitions=2, chunks=2),
    Layout(lanes=4, shards=4, partitions=3, chunks=2, inline=INLINE),
    Layout(lanes=2, shards=4, partitions=1, chunks=1, epoch=60),
    Layout(lanes=4, shards=16, partitions=2, chunks=1, inline=INLINE),
    Layout(lanes=1, shards=16, partitions=3, chunks=1, epoch=70),
    Layout(lanes=2, shards=1, partitions=2, chunks=2),
)
#: what only the long form has: very small epochs
MANY_EPOCHS = (
    Layout(lanes=2, shards=16, partitions=3, chunks=12),
    Layout(lanes=4, shards=4, partitions=2, chunks=3, epoch=9),
)
LONG = bool(os.environ.get("PENSTOCK_LONG"))

#: functions that cannot stand a null value
NO_NULLS = {"word_count", "tumbling_windows", "session_windows", "cogroup_sessions"}
#: a foreign key that is a pair, which the key's serde refuses: with this policy the record is dropped and counted
CONFIG = {"foreign_key_joins": {"on_production_error": "skip", "on_processing_error": "skip"}, **families.CONFIG}
ALL = {
    **TOPOLOGIES,
    **families.FAMILIES,
    **{
        f"family_{name}": partial(topology, random=Random(name))
        for name, topology in operator_families.FAMILIES.items()
    },
    **{f"random_{seed}": partial(random_pipelines.build, seed=str(seed)) for seed in range(140 if LONG else 14)},
}


def cases():
    for number, name in enumerate(ALL):
        every = LONG and not name.startswith("random_")
        layouts = (*LAYOUTS, *MANY_EPOCHS) if every else (LAYOUTS[number % len(LAYOUTS)],)
        for layout in layouts:
            yield pytest.param(name, layout, id=f"{name} ({layout})")


@pytest.mark.parametrize(("name", "layout"), list(cases()))
def test_a_topology_commits_the_same_through_spark_and_kafka_as_in_the_test_driver(name, layout, bench, tmp_path):
    application = bench.fresh(name)
    prefix = f"{application}."
    topology = renamed(build(ALL[name]), prefix)
    reads, writes, config = inputs(topology, prefix), outputs(topology), dict(CONFIG.get(name, {}))
    if "dead_letter_topic" in config:
        config["dead_letter_topic"] = prefix + config["dead_letter_topic"]
        writes.append(config["dead_letter_topic"])
    steps = script(name, reads, layout.partitions, nulls=name not in NO_NULLS, phrases=name == "word_count")
    case = Case(bench, topology, application, reads, writes, layout, config)
    try:
        case.run(steps)
        assert_same(case.seen(elsewhere=tmp_path), case.driver.seen())
    finally:
        case.close()
