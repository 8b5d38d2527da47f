"""A sink: serialize, choose topic and partition, hand the row to the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.batch.batch import Batch
from penstock.errors import SerializationError, TopologyError, describe_function
from penstock.log.partitioner import partition_for
from penstock.operators.base import Forward
from penstock.record import Headers, Origin
from penstock.serde.windowed import SessionWindowedSerde, WindowedSerde
from penstock.topology.functions import partitioner_call, takes
from penstock.topology.node import SinkNode


class Row(NamedTuple):
    """A record that leaves a task: for a topic (``internal`` False) or for another stage.

    ``partition`` None: the producer's default, murmur2 of the key. Of a sink that ``stays`` it is the shard.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    internal: bool
    origin: Origin


#: makes a row of a tuple, in half of the time
_row: Callable[[tuple[Any, ...]], Row] = partial(tuple.__new__, Row)


def partition_key(sink: SinkNode) -> Callable[[Any], bytes] | None:
    """Return what a windowed key is partitioned by, its inner key's bytes, or None for an ordinary serde."""
    if not isinstance(sink.key, WindowedSerde | SessionWindowedSerde):
        return None
    serialize = sink.key.inner.serialize
    return lambda windowed: bytes(serialize(windowed.key))


def open_sink(sink: SinkNode, task: Any, partitions: Callable[[str], int], refuse: Callable[..., None]) -> Forward:
    """Bind a sink to a task. ``refuse(sink, key, value, timestamp, headers, error)`` asks the production policy.

    A serializer that raises is the production policy's to judge; an extractor or partitioner that raises is the node's own failure.
    """
    serialize_key, serialize_value = sink.key.serialize, sink.value.serialize
    topic, extractor, internal = sink.topic, sink.extractor, sink.internal
    partitioner = None if sink.partitioner is None else partitioner_call(sink.partitioner)
    with_origin = extractor is not None and takes(extractor, 3)
    by_window = None if sink.stays else partition_key(sink)
    home = task.shard if sink.stays else None
    emit = task.outputs.append

    def on_plain_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        try:
            key_bytes = None if key is None else serialize_key(key)
            value_bytes = None if value is None else serialize_value(value)
        except Exception as error:
            refuse(sink, key, value, timestamp, headers, error)
            return
        origin = task.placed if internal and task.placed is not None else task.origin
        emit(_row((topic, home, key_bytes, value_bytes, timestamp, headers, internal, origin)))

    # the ordinary sink asks nobody where its records go
    if extractor is None and partitioner is None and by_window is None:
        return on_plain_record

    def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if extractor is None:
            target = topic
        else:  # it sees the time and headers that the nodes before gave the record
            origin = (task.origin._replace(timestamp=timestamp, headers=headers),) if with_origin else ()
            target = _extracted(extractor, key, value, origin)
        assert target is not None
        try:
            key_bytes = None if key is None else serialize_key(key)
            value_bytes = None if value is None else serialize_value(value)
        except Exception as error:
            refuse(sink, key, value, timestamp, headers, error)
            return
        came_from = task.placed if internal and task.placed is not None else task.origin
        if partitioner is not None:
            chosen = _chosen(partitioner(target, key, value, headers, partitions(target)), target, partitions)
            if chosen is not None:
                if not chosen:
                    task.drop_at(sink.name, "no_partition")
                for partition in chosen:
                    emit(Row(target, partition, key_bytes, value_bytes, timestamp, headers, internal, came_from))
                return
        inner_partition: int | None = home
        if by_window is not None and key is not None:
            inner_partition = partition_for(by_window(key), partitions(target))
        emit(Row(target, inner_partition, key_bytes, value_bytes, timestamp, headers, internal, came_from))

    return on_record


class SinkBatch(NamedTuple):
    """Records that leave a task together. ``values`` None: all have one, and nobody will ask which."""

    sink: SinkNode
    shard: int
    #: None: the producer's default
    partitions: list[int] | None
    keys: pa.Array
    values: pa.Array | None
    batch: Batch


def _extracted(extractor: Callable[..., str], key: Any, value: Any, origin: tuple[Origin, ...]) -> str:
    topic = extractor(key, value, *origin)
    if not isinstance(topic, str) or not topic:
        raise TopologyError(
            f"the topic name extractor {describe_function(extractor)} returned {topic!r}: must be a topic name"
        )
    return topic


def _chosen(answer: Any, topic: str, partitions: Callable[[str], int]) -> tuple[int, ...] | None:
    """Bring a partitioner's answer (a number, several, or None for the default) to a tuple, checked."""
    if answer is None:
        return None
    chosen = tuple(answer) if isinstance(answer, Iterable) and not isinstance(answer, str) else (answer,)
    for partition in chosen:
        if not isinstance(partition, int):
            raise TopologyError(f"the partitioner of {topic} returned {answer!r}: must be a number, several, or None")
        if not 0 <= partition < partitions(topic):
            raise TopologyError(
                f"the partitioner chose partition {partition} of {topic}, which has {partitions(topic)}"
            )
    return chosen


def refused(sink: SinkNode, origin: Origin, error: Exception) -> SerializationError:
    """Wrap what a serializer raised."""
    wrapped = SerializationError(
        f"cannot serialize a record for topic {sink.topic or '(extracted)'} with key serde {sink.key!r} and value serde {sink.value!r}: "
        f"{type(error).__name__}: {error}\n  remedy:   give the sink or repartition the serdes of its data: key=..., value=...",
        node=sink.name,
        origin=origin,
    )
    wrapped.__cause__ = error
    return wrapped
