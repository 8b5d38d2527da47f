"""An application of many shards and many partitions runs, though its epoch record is larger than one row of its topic may be.

The long form, ``PENSTOCK_LONG=1``, has 2,000 partitions; its broker needs as many open files. Here they are fewer, and so are the bytes
that the topic takes.
"""

import os

from penstock import Serdes, StreamsBuilder, TimeWindows
from penstock.engine.record import KEY, PART_BYTES, read_last
from penstock.log.base import TopicSpec
from penstock.log.topics import epochs_name

START = 1_600_000_020_000
SHARDS = 64
PARTITIONS, ROW_BYTES = (2000, None) if os.environ.get("PENSTOCK_LONG") else (40, 800)
TEXT = {"key": Serdes.string, "value": Serdes.string}


def test_a_windowed_count_of_many_partitions_in_many_shards_runs_and_goes_on_after_a_restart(start, cluster):
    lines, epochs = cluster.topic("lines", PARTITIONS), epochs_name(start.application_id)
    if ROW_BYTES is not None:
        limited = {"cleanup.policy": "compact", "max.message.bytes": str(ROW_BYTES)}
        cluster.log.admin.ensure_topics([TopicSpec(epochs, 1, limited)])
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
    rows = cluster.read(epochs)
    assert all(len(row.value) <= (ROW_BYTES or PART_BYTES) for row in rows)
    assert sum(row.key != KEY for row in rows) >= 2  # parts: each of the two runs has written at least one
