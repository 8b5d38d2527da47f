"""An application of many shards and many partitions runs, though its epoch record is larger than one row of its topic may be."""

import os

from penstock import Serdes, StreamsBuilder, TimeWindows
from penstock.engine.record import PART_BYTES, read_last

START = 1_600_000_020_000
#: the long form has what no topic would take in one row
PARTITIONS, SHARDS = (2000, 64) if os.environ.get("PENSTOCK_LONG") else (40, 64)
TEXT = {"key": Serdes.string, "value": Serdes.string}


def test_a_windowed_count_of_many_partitions_in_many_shards_runs_and_goes_on_after_a_restart(start, cluster):
    lines = cluster.topic("lines", PARTITIONS)
    builder = StreamsBuilder()
    windows = builder.stream(lines, **TEXT).group_by_key().windowed_by(TimeWindows(60_000))
    windows.count(store="counts")
    for run in 1, 2:
        cluster.send(lines, *((f"k{n}", "v", START + run, n) for n in range(PARTITIONS)))
        driven = start(builder, shards=SHARDS)
        driven.drain()
        found = {key.key: count for key, count in driven.view("counts").all()}
        assert found == {f"k{n}": run for n in range(PARTITIONS)}
        driven.close()
    record = read_last(cluster.log, start.application_id)
    assert len(record.offsets[lines]) == PARTITIONS
    for row in cluster.read(f"{start.application_id}-epochs"):
        assert len(row.value) <= PART_BYTES
