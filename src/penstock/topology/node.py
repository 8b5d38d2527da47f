"""The nodes of a topology as frozen data."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from penstock.operators.base import Forward, Operator
from penstock.operators.scheduled import Scheduled
from penstock.serde import Serde
from penstock.watermark import LatePolicy, WatermarkStrategy

#: (record: Origin, value, partition_time) -> timestamp in milliseconds; negative: the record is dropped and counted
TimestampExtractor: TypeAlias = Callable[..., int]
#: (topic, key, value, partitions) -> a partition, several, or None for the default
Partitioner: TypeAlias = Callable[..., Any]
#: (node, process) -> process: what runs a node, wrapped; process(key, value, timestamp, headers)
Wrapper: TypeAlias = Callable[[str, Forward], Forward]


@dataclass(frozen=True, slots=True)
class SourceNode:
    """Reads topics, or (``schedule``) has none: a function of the user's makes its records, at the times of a schedule.

    ``internal``: a repartition topic, named without the application's prefix.
    """

    name: str
    topics: tuple[str, ...]
    key: Serde[Any]
    value: Serde[Any]
    pattern: re.Pattern[str] | None = None
    timestamp: TimestampExtractor | None = None
    offset_reset: str | None = None
    watermark: WatermarkStrategy | None = None
    late: LatePolicy | None = None
    internal: bool = False
    schedule: Scheduled | None = None

    @property
    def parents(self) -> tuple[str, ...]:
        """A source has none."""
        return ()

    def reads(self, topic: str | None) -> bool:
        """Whether a topic of this name is one of the source's."""
        return topic is not None and (
            topic in self.topics or (self.pattern is not None and self.pattern.fullmatch(topic) is not None)
        )


@dataclass(frozen=True, slots=True)
class ProcessorNode:
    """Runs an operator."""

    name: str
    operator: Operator
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SinkNode:
    """Writes to one topic, or to the one that ``extractor(key, value, origin)`` names.

    ``internal``: a repartition topic, named without the application's prefix; its records go to another stage, not to Kafka.
    """

    name: str
    topic: str | None
    parents: tuple[str, ...]
    key: Serde[Any]
    value: Serde[Any]
    extractor: Callable[..., str] | None = None
    partitioner: Partitioner | None = None
    internal: bool = False
    #: a KTable groupBy: the value is a Change and the partition follows the key
    changes: bool = False
    #: the answers of asynchronous calls: its rows go to another step, but stay in their shard
    stays: bool = False
    #: what goes to a later step as it is
    carries: bool = False


Node: TypeAlias = SourceNode | ProcessorNode | SinkNode


@dataclass(frozen=True, slots=True)
class GlobalStore:
    """A table that every lane reads whole: its source, the processor that updates it, its store."""

    source: SourceNode
    processor: ProcessorNode
    store: str


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition topic: partitions None means as many as its inputs have."""

    name: str
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class SubTopology:
    """What is left connected when the graph is cut at internal topics; ``nodes`` in topological order."""

    id: int
    nodes: tuple[str, ...]
    stores: tuple[str, ...]
