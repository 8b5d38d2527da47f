"""Kernel of a sink that knows its topic and partitions: a batch is serialized and leaves as columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from penstock.batch.batch import Batch, rows_of
from penstock.kernels.kernel import KernelHost
from penstock.kernels.transaction import BatchTransaction, OnBatch
from penstock.log.partitioner import partition_for
from penstock.serde.registry.serde import header_parts
from penstock.serde.traits import kept_classes
from penstock.serde.windowed import SessionWindowedSerde, WindowedSerde
from penstock.topology.node import SinkNode
from penstock.topology.partitioners import ByInnerKey


def refuses_sink(sink: SinkNode) -> str | None:
    """Return why a sink takes records one by one; None if it takes batches."""
    if sink.topic is None:
        return "a function chooses the topic of each record"
    if not sink.internal and header_parts(sink.key, sink.value):
        return "the ids of schemas go into the headers of each record"
    if sink.carries:
        return "records go on to a later step as they are, each in its place"
    if sink.partitioner is not None and not is_by_inner_key(sink):
        return "a partitioner chooses the partition of each record"
    return None


def open_sink(sink: SinkNode, host: KernelHost) -> OnBatch:
    """Bind a sink to a task."""
    assert sink.topic is not None
    topic, key, value, internal = sink.topic, sink.key, sink.value, sink.internal
    counted, classes = host.is_counted(topic), kept_classes(value)
    inner_key = None if internal else inner_bytes(sink)

    def on_batch(batch: Batch, transaction: BatchTransaction) -> None:
        keys, refused = rows_of(batch.keys, key)
        values = None
        countable = counted and not keys.null_count and not batch.values.has_nulls
        if not (countable and batch.values.is_sure_of(value, classes)):
            # the bytes of a topic of ours are read with the same serde: such as were read may go on as they are
            values, of_values = rows_of(batch.values, value, read=internal)
            refused = {**of_values, **refused}  # a key is written first
        if refused:
            transaction.on_commit(partial(host.refuse_at, sink, batch, refused))
            at = [place for place in range(len(batch)) if place not in refused]
            if not at:
                return
            batch, keys = batch.pick(at), keys.take(pa.array(at))
            values = None if values is None else values.take(pa.array(at))
        partitions = None
        if inner_key is not None:
            count = host.partitions_of(topic)
            partitions = [-1 if data is None else partition_for(inner_key(data), count) for data in keys.to_pylist()]
        transaction.on_commit(partial(host.emit_batch, sink, partitions, keys, values, batch))

    return on_batch


def is_by_inner_key(sink: SinkNode) -> bool:
    """Whether all windows of a key go to the partition of that key, as they do if the user does not say otherwise."""
    key = sink.key
    return isinstance(key, WindowedSerde | SessionWindowedSerde) and sink.partitioner == ByInnerKey(key.inner)


def inner_bytes(sink: SinkNode) -> Callable[[bytes], bytes] | None:
    """Return what cuts the inner key out of a windowed key's bytes, or None for an ordinary serde."""
    if isinstance(sink.key, WindowedSerde):
        return lambda data: data[:-8]
    return (lambda data: data[:-16]) if isinstance(sink.key, SessionWindowedSerde) else None
