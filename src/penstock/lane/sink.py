"""A sink: serialize, choose topic and partition, hand the row to the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.batch.batch import Batch
from penstock.errors import SerializationError, TopologyError, describe_function
from penstock.log.partitioner import partition_for
from penstock.operators.base import Forward
from penstock.record import Headers, Origin
from penstock.serde.registry.framing import HEADER, without_frame
from penstock.serde.registry.serde import bound, header_parts, registry_serdes
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

    A serializer that raises is for the production policy to decide; an extractor or partitioner that raises is the node's own failure.
    """
    if not sink.internal and header_parts(sink.key, sink.value):
        return _with_headers(sink, task, partitions, refuse)
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

    by_topic = (
        _serializers(sink) if extractor is not None and any(map(registry_serdes, (sink.key, sink.value))) else None
    )

    # the ordinary sink asks nobody where its records go
    if extractor is None and partitioner is None and by_window is None:
        return on_plain_record

    def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        nonlocal serialize_key, serialize_value
        if extractor is None:
            target = topic
        else:  # it sees the time and headers that the nodes before gave the record
            origin = (task.origin._replace(timestamp=timestamp, headers=headers),) if with_origin else ()
            target = _extracted(extractor, key, value, origin)
        assert target is not None
        try:
            if by_topic is not None:
                serialize_key, serialize_value = by_topic(target)
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


def _with_headers(sink: SinkNode, task: Any, partitions: Callable[[str], int], refuse: Callable[..., None]) -> Forward:
    """Bind a sink whose records have the ids of their schemas in headers: what stands in front of key and value goes there."""
    outputs: list[Row] = []
    parts = header_parts(sink.key, sink.value)
    inside = _Collecting(task, outputs)
    write = open_sink(replace(sink, internal=True), inside, partitions, refuse)

    def on_record(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        write(key, value, timestamp, headers)
        for row in outputs:
            task.outputs.append(to_headers(row._replace(internal=False), parts))
        outputs.clear()

    return on_record


class _Collecting:
    """A task whose rows are collected."""

    def __init__(self, task: Any, outputs: list[Row]) -> None:
        self._task = task
        self.outputs = outputs
        self.placed = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)


def to_headers(row: Row, parts: Mapping[str, bool]) -> Row:
    """Return a row with the ids of its schemas in headers. ``parts``: `header_parts`."""
    for part, indexed in parts.items():
        data = getattr(row, part)
        if data is not None:
            frame, body = without_frame(data, indexed=indexed)
            name = HEADER[part]  # headers of the source record go along: its schema is not this one
            others = tuple(header for header in row.headers if header[0] != name)
            row = row._replace(headers=(*others, (name, frame)))
            row = row._replace(key=body) if part == "key" else row._replace(value=body)
    return row


def _serializers(sink: SinkNode) -> Callable[[str], tuple[Callable[[Any], bytes], Callable[[Any], bytes]]]:
    """Return what gives the serializers of a topic that a record has named."""

    @lru_cache(maxsize=1024)
    def of_topic(topic: str) -> tuple[Callable[[Any], bytes], Callable[[Any], bytes]]:
        return bound(sink.key, topic, "key", None).serialize, bound(sink.value, topic, "value", None).serialize

    return of_topic


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
