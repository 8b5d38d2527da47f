"""What a case is given: a topology on topics of its own, and a random script for them.

A script is a list of `Sent`: bytes, with the partition, so that the broker and the test driver get the very same records.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

from sequences import Times

from penstock import StreamsBuilder, Topology
from penstock.record import Headers
from penstock.topology.node import SinkNode, SourceNode

#: an hour far in the past that every window of these tests divides; topics of these tests keep their records for ever
START = 1_600_002_000_000
#: keys are values too, so that a value may be a key: of a re-keyed record, of a row in another table
WORDS = ("ant", "bee", "cow", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay")
#: topics for the patterns of the topologies
MATCHING = {"orders-.*": ("orders-new", "orders-old"), "a.*": ("apple", "axe"), "x.*": ("x-ray",)}
#: sizes of windows and graces in the topologies: where results are decided
DISTANCES = (10, 10, 5, 15, 100, 1000)
#: later than everything that the topologies wait for
LATER = 1_000_000


class Sent(NamedTuple):
    """A record to send."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


def build(function: Callable[[Any], Any]) -> Topology:
    """Make the topology that a function of a builder describes, or returns."""
    builder = StreamsBuilder()
    made = function(builder)
    return made if isinstance(made, Topology) else builder.build()


def renamed(topology: Topology, prefix: str) -> Topology:
    """Return the topology with the prefix before the name of every topic, patterns too: the broker is shared.

    Nodes, stores and the application's own topics keep their names.
    """

    def source(node: SourceNode) -> SourceNode:
        if node.internal:
            return node
        pattern = node.pattern and re.compile(f"{re.escape(prefix)}(?:{node.pattern.pattern})")
        return replace(node, topics=tuple(prefix + topic for topic in node.topics), pattern=pattern)

    def of_any(node: Any) -> Any:
        if isinstance(node, SourceNode):
            return source(node)
        if isinstance(node, SinkNode) and not node.internal and node.topic is not None:
            return replace(node, topic=prefix + node.topic)
        return node

    made = copy.copy(topology)
    made._nodes = {name: of_any(node) for name, node in topology._nodes.items()}
    made._global_nodes = {name: of_any(node) for name, node in topology._global_nodes.items()}
    made._globals = {name: replace(table, source=source(table.source)) for name, table in topology._globals.items()}
    made._stores = {
        name: spec if spec.source_topic is None else spec.with_(source_topic=prefix + spec.source_topic)
        for name, spec in topology._stores.items()
    }
    return made


def inputs(topology: Topology, prefix: str) -> list[str]:
    """Return the topics that a renamed topology reads, global tables' last."""
    sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode) and not node.internal]
    named = [topic for node in sources for topic in node.topics]
    patterns = [
        pattern for pattern in MATCHING for node in sources if node.pattern and f"(?:{pattern})" in node.pattern.pattern
    ]
    matched = [prefix + topic for pattern in patterns for topic in MATCHING[pattern]]
    tables = [topic for table in topology.global_stores.values() for topic in table.source.topics]
    return list(dict.fromkeys([*named, *matched, *tables]))


def outputs(topology: Topology) -> list[str]:
    """Return the topics that a renamed topology writes, its own left out."""
    sinks = [node for node in topology.nodes.values() if isinstance(node, SinkNode) and not node.internal]
    return sorted({node.topic for node in sinks if node.topic is not None})


def partition_of(key: bytes | None, partitions: int, random: Random) -> int:
    """Choose a partition: always the same for a key, any without one."""
    return random.randrange(partitions) if key is None else crc32(key[::-1]) % partitions


def script(
    seed: str,
    topics: list[str],
    partitions: int,
    *,
    length: int = 110,
    nulls: bool = True,
    phrases: bool = False,
    in_order: bool = False,
    values: Mapping[str, tuple[str, ...]] | None = None,
) -> list[Sent]:
    """Return records of all topics: out of order, some without key or value; at the end time goes on far for every key.

    ``phrases``: values are several words. ``in_order``: each record is later than all before it.
    """
    random = Random(seed)
    times = Times(random, DISTANCES, start=START)
    steps = []
    for number in range(length):
        topic = random.choice(topics)
        key = None if nulls and random.random() < 0.04 else random.choice(WORDS).encode()
        text = " ".join(random.sample(WORDS, 2)) if phrases else random.choice((values or {}).get(topic, WORDS))
        value = None if nulls and random.random() < 0.10 else text.encode()
        headers: Headers = (("number", str(number).encode()), ("empty", None)) if number % 3 == 0 else ()
        timestamp = START + number * 3 if in_order else times.next()
        steps.append(Sent(topic, partition_of(key, partitions, random), key, value, timestamp, headers))
    last = max(step.timestamp for step in steps)
    for round_ in (1, 2):
        for topic in topics:
            for word in WORDS[: 4 + 2 * round_]:
                key = word.encode()
                steps.append(Sent(topic, partition_of(key, partitions, random), key, key, last + round_ * LATER))
    return steps
