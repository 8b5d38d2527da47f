"""On a standalone cluster of two executors, each with a state folder of its own, everything is as in the test driver.

A lane may run on either executor at each epoch: a shard that was written on the other one is brought up from its changelog.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.spark.runs import Layout

from penstock.dev.cluster import Cluster

ROOT = Path(__file__).parents[2]
#: (topology, how it is run, with nulls): an aggregate, a re-key, joins, windows, a foreign-key join, a global table
CASES = [
    ("reduce_and_aggregate", Layout(lanes=2, shards=4, partitions=3, chunks=4), True),
    ("count_named", Layout(lanes=4, shards=16, partitions=2, chunks=3), True),
    ("stream_joins", Layout(lanes=2, shards=4, partitions=2, chunks=3), True),
    ("tumbling_windows", Layout(lanes=2, shards=16, partitions=1, chunks=3), False),
    ("foreign_key_joins_named", Layout(lanes=2, shards=4, partitions=2, chunks=4), True),
    ("global_table_joins", Layout(lanes=4, shards=4, partitions=3, chunks=3), True),
    ("a_table_that_is_kept_in_its_topic", Layout(lanes=2, shards=4, partitions=2, chunks=3), True),
]


def test_two_executors_with_separate_state_commit_the_same_as_the_test_driver(kafka_broker, tmp_path):
    folders = [tmp_path / "one", tmp_path / "other"]
    environments = [{"PENSTOCK_STATE_DIR": str(folder)} for folder in folders]
    with Cluster(workers=2, environments=environments) as cluster:
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "conformance")])
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.cluster_program", kafka_broker.bootstrap_servers,
             json.dumps(cluster.settings), str(tmp_path / "driver")],
            input="".join(json.dumps(case) + "\n" for case in CASES),
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            text=True,
            timeout=300,
            check=True,
        )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["name"] for answer in answers] == [name for name, _, _ in CASES]
    for answer in answers:
        assert not answer["difference"], f"{answer['name']}: {answer['difference']}"
    stateful = [answer["application"] for answer in answers]
    for folder in folders:  # both executors have had shards of every application
        assert {path.name for path in folder.iterdir()} == set(stateful)
