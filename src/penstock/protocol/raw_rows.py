"""Raw rows: records as they were read, on their way to the lane of their key.

They are read by the tasks of a Spark job, or of an inline epoch by the driver::

    shard      int32     the shard of the key; 0 where it does not matter
    place      int32     the source partition: number of its topic × 65536 + partition
    offset     int64
    key, value binary    as Kafka has them; null is null
    timestamp  int64     milliseconds
    headers    binary    as in the envelope; null: none

The number of a topic is its position among the names of all source topics, sorted (``EpochRequest.topics``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.log.rows import RangeRows
from penstock.protocol.envelope import pack_headers
from penstock.protocol.request import Stage
from penstock.state.shards import shard_column

#: partitions of a topic that the number of a source partition has room for
PARTITIONS = 1 << 16

RAW_SCHEMA = pa.schema(
    [
        pa.field("shard", pa.int32()),
        pa.field("place", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.int64()),
        pa.field("headers", pa.binary()),
    ]
)


def raw_batch(rows: RangeRows, topics: Sequence[str], stage: Stage) -> pa.RecordBatch:
    """Return records as raw rows."""
    count, shards = rows.size, stage.shards
    shard = np.zeros(count, dtype=np.int32)
    if stage.plan.steps[0].exchange and rows.topic not in stage.one_shard_topics(topics):
        shard = shard_column(rows.keys, shards, rows.partition % shards)
    headers = pa.nulls(count, pa.binary())
    if rows.headers is not None:
        headers = pa.array([pack_headers(given) for given in rows.headers], pa.binary())
    columns = [
        pa.array(shard),
        pa.array(np.full(count, topics.index(rows.topic) * PARTITIONS + rows.partition, dtype=np.int32)),
        pa.array(rows.offsets),
        rows.keys,
        rows.values,
        pa.array(rows.timestamps),
        headers,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA)
